"""A two-level plan as text."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from evenflow.cli.text.tables import aligned, bubble_table
from evenflow.cluster.placement import describe
from evenflow.solve import Status
from evenflow.units import megabytes, milliseconds

if TYPE_CHECKING:
    from evenflow.auto.placed_pipeline import PlacedStage
    from evenflow.auto.planner import AutoPlan
    from evenflow.auto.sharding.sharding_plan import ShardingPlan
    from evenflow.auto.stages.mesh_sharding import MeshSharding
    from evenflow.auto.stages.two_level_plan import TwoLevelPlan
    from evenflow.cluster.cluster import Submesh


def auto_text(found: "AutoPlan", *, microbatch: int, sequence: int, seconds: float) -> str:
    """Return headline, stages, costs by part, shardings, alternatives, refinement and notes."""
    cluster, simulation = found.cluster, found.simulation
    mesh = f"{cluster.num_nodes}x{cluster.devices_per_node}"
    work = f"{found.num_microbatches} microbatches of {microbatch} x {sequence} tokens"
    head = f"{found.row.name}: {len(found.row.body)} layers on a mesh of {mesh} devices, {work}, "
    head += simulation.plan.schedule
    paragraphs = [
        head,
        _stage_table(found),
        "\n".join(_evidence(found, seconds)),
        _cost_table(found),
        bubble_table(simulation),
        *_shardings(found),
        _alternatives(found),
        _refinement(found),
        "\n".join(f"note: {note}" for note in found.notes),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def shortage_text(found: "AutoPlan") -> str:
    """Return why there is no plan, and what would be enough."""
    assert found.search.shortage is not None
    return f"infeasible: {found.search.shortage.message(found.cluster)}"


def _stage_table(found: "AutoPlan") -> str:
    """Return a row for each stage; peak memory is that of its rank."""
    header = ["stage", "layers", "submesh", "devices", "sharding", "recompute", "forward ms", "backward ms", "peak MB"]
    costs, peaks = found.simulation.costs, found.simulation.peak_memory_bytes
    rows = [
        [
            str(stage.stage),
            _span(stage.first, stage.end),
            str(stage.submesh),
            _span(stage.devices.start, stage.devices.stop),
            str(stage.sharding),
            ", ".join(f"{kind} {count}" for kind, count in stage.recompute.items()) or "none",
            f"{milliseconds(int(costs.forward_ns[stage.stage])):,.3f}",
            f"{milliseconds(int(costs.backward_ns[stage.stage])):,.3f}",
            f"{megabytes(peaks[stage.rank]):,.0f}",
        ]
        for stage in found.stages
    ]
    return aligned(header, rows, left={2, 3, 4, 5})


def _span(first: int, end: int) -> str:
    return str(first) if end - first == 1 else f"{first}-{end - 1}"


def _evidence(found: "AutoPlan", seconds: float) -> Iterator[str]:
    two_level, simulation = found.two_level, found.simulation
    assert two_level is not None
    limit = megabytes(found.cluster.memory_bytes)
    yield f"step {milliseconds(simulation.makespan_ns):,.3f} ms simulated, messages included; found in {seconds:.1f} s"
    gap = 100 * (1 - two_level.lower_bound_ns / two_level.step_ns)
    yield (
        f"stages: {milliseconds(two_level.step_ns):,.3f} ms by the pipeline's equation, no other stages take less than "
        f"{milliseconds(two_level.lower_bound_ns):,.3f} ms (gap {gap:.2f} %)"
    )
    programs = list(found.provider.solved_programs())
    proven = sum(plan.status is Status.OPTIMAL for plan in programs)
    yield f"shardings: {proven} of {len(programs)} integer programs solved to proven optimality"
    peak = megabytes(max(simulation.peak_memory_bytes))
    yield f"memory: peak {peak:,.0f} MB of {limit:,.0f} MB"


def _cost_table(found: "AutoPlan") -> str:
    """Return the time of one microbatch on each stage by kind of work, and gradients and messages beside it."""
    header = ["ms", "compute", "communication", "resharding", "gradient/step", "recompute", "between stages"]
    base = found.simulation
    messages = _messages_ms(found)
    rows = []
    for stage in found.stages:
        one = stage.option
        parts = [one.compute_ns, one.communication_ns, one.resharding_ns, one.gradient_ns]
        parts.append(int(base.costs.recompute_ns[stage.stage]))
        sent = messages[stage.stage] if stage.stage < len(messages) else 0.0
        rows.append([f"stage {stage.stage}", *(f"{milliseconds(part):,.3f}" for part in parts), f"{sent:,.3f}"])
    return aligned(header, rows, left={0})


def _messages_ms(found: "AutoPlan") -> list[float]:
    """Return the time from each stage to the next and back; nothing where stages were refined."""
    plan = found.two_level
    if plan is None or found.refined:
        return []
    return [
        milliseconds(there.cost_ns + back.cost_ns) for there, back in zip(plan.activations, plan.gradients, strict=True)
    ]


def _shardings(found: "AutoPlan") -> Iterator[str]:
    """Yield parameters, activations and collectives of every kind of layer under every sharding in use."""
    used: dict[tuple[Submesh, MeshSharding, int], list[PlacedStage]] = {}
    for stage in found.stages:
        for kind in stage.shardings:
            used.setdefault((stage.submesh, stage.sharding, kind), []).append(stage)
    for (submesh, sharding, kind), stages in used.items():
        plan = stages[0].shardings[kind]
        names = [
            name for stage in stages for name, one in zip(_names(found, stage), stage.kinds, strict=True) if one == kind
        ]
        where = f"stage{'s' if len(stages) > 1 else ''} {', '.join(str(stage.stage) for stage in stages)}"
        lines = [f"{names[0]}{f' … {names[-1]}' if len(names) > 1 else ''} ({where}: {sharding} on {submesh})"]
        lines += [f"  {parameter.text()}" for parameter in plan.parameters]
        inputs = [one for one in plan.activations if one.name.startswith("input ")]
        results = [one for one in plan.activations if one not in inputs]
        lines += [f"  input {list(one.shape)} {describe(one.placement)}" for one in inputs[:1]]
        lines += [f"  result of {one.text()}" for one in results]
        lines += _collectives(plan)
        if plan.replicated_operators:
            lines.append(f"  without sharding rules, on every device: {', '.join(plan.replicated_operators)}")
        yield "\n".join(lines)


def _collectives(plan: "ShardingPlan") -> list[str]:
    """Return how many collectives of each kind run in one layer, and how long they take together."""
    counts: dict[tuple[str, str, int], list[int]] = {}
    for one in plan.collectives:
        counts.setdefault((one.phase, one.collective, one.axis), []).append(one.time_ns)
    return [
        f"  {phase}: {len(times)} x {collective} on mesh axis {axis}, {milliseconds(sum(times)):,.3f} ms"
        for (phase, collective, axis), times in sorted(counts.items(), key=lambda item: _PHASES.index(item[0][0]))
    ]


_PHASES = ("forward", "backward", "update")


def _names(found: "AutoPlan", stage: "PlacedStage") -> list[str]:
    """Return a name for each layer of a stage, head and tail included."""
    row = found.row
    head = row.head if stage.first == 0 else ()
    tail = row.tail if stage.end == len(row.body) else ()
    return [" + ".join(layer.modules) for layer in (*head, *row.body[stage.first : stage.end], *tail)]


def _alternatives(found: "AutoPlan") -> str:
    """Return the best stages of every number, with a mark at the answer."""
    rows = []
    for plan in found.search.alternatives:
        mark = "*" if plan is found.two_level else ""
        rows.append(
            [
                mark,
                str(len(plan.stages)),
                _submeshes(plan),
                f"{milliseconds(plan.step_ns):,.3f}",
                f"{milliseconds(plan.lower_bound_ns):,.3f}",
                f"{milliseconds(plan.timeline.makespan_ns):,.3f}",
            ]
        )
    table = aligned(["", "stages", "submeshes", "by equation ms", "bound ms", "simulated ms"], rows, left={0, 2})
    return f"alternatives ({found.search.num_evaluated:,} different stages evaluated)\n{table}"


def _submeshes(plan: "TwoLevelPlan") -> str:
    """Return the submeshes as text, such as ``3 of 1x2, 1 of 1x1``."""
    counts: dict[str, int] = {}
    for stage in plan.stages:
        counts[str(stage.submesh)] = counts.get(str(stage.submesh), 0) + 1
    return ", ".join(f"{count} of {shape}" for shape, count in counts.items())


def _refinement(found: "AutoPlan") -> str:
    """Return what the exact solver adds."""
    refinement = found.refinement
    if refinement is None:
        return "refinement: none, since no plan has equal submeshes"
    rows = [
        [
            f"{one.schedule}, {one.num_chunks} chunk{'s' if one.num_chunks > 1 else ''}",
            str(one.sharding),
            one.outcome.status.value,
            "-" if one.timeline is None else f"{milliseconds(one.timeline.makespan_ns):,.3f}",
            f"{milliseconds(one.outcome.lower_bound_ns):,.3f}",
        ]
        for one in refinement.tried
    ]
    table = aligned(["schedule", "sharding", "status", "simulated ms", "bound ms"], rows, left={0, 1, 2})
    words = f"refinement by the exact solver adds {100 * refinement.saved:.1f} %"
    if refinement.best:
        words += f": {refinement.best.schedule}, {milliseconds(refinement.two_level_ns):,.3f} ms before"
    return f"{words}\n{table}"
