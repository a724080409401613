"""A two-level plan as text."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from evenflow.cli.text.tables import aligned, bubble_table
from evenflow.cluster import describe
from evenflow.solve import Status
from evenflow.units import megabytes, milliseconds

if TYPE_CHECKING:
    from evenflow.auto.placed_pipeline import PlacedStage
    from evenflow.auto.planner import AutoPlan
    from evenflow.auto.sharding.sharding_plan import ShardingPlan
    from evenflow.auto.stages.mesh_sharding import MeshSharding
    from evenflow.auto.stages.two_level_plan import TwoLevelPlan
    from evenflow.cluster import Submesh


def auto_text(result: "AutoPlan", *, microbatch: int, sequence: int, seconds: float) -> str:
    """Return headline, stages, costs by part, shardings, alternatives, refinement and notes."""
    cluster, simulation = result.cluster, result.simulation
    mesh = f"{cluster.num_nodes}x{cluster.devices_per_node}"
    work = f"{result.num_microbatches} microbatches of {microbatch} x {sequence} tokens"
    head = f"{result.row.name}: {len(result.row.body)} layers on a mesh of {mesh} devices, {work}, "
    head += simulation.plan.schedule
    paragraphs = [
        head,
        _stage_table(result),
        "\n".join(_evidence(result, seconds)),
        _cost_table(result),
        bubble_table(simulation),
        *_shardings(result),
        _alternatives(result),
        _refinement(result),
        "\n".join(f"note: {note}" for note in result.notes),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def shortage_text(result: "AutoPlan") -> str:
    """Return why there is no plan, and what would be enough."""
    assert result.search.shortage is not None
    return f"infeasible: {result.search.shortage.message(result.cluster)}"


def _stage_table(result: "AutoPlan") -> str:
    """Return a row for each stage; peak memory is that of its rank."""
    header = ["stage", "layers", "submesh", "devices", "sharding", "recompute", "forward ms", "backward ms", "peak MB"]
    costs, peaks = result.simulation.costs, result.simulation.peak_memory_bytes
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
        for stage in result.stages
    ]
    return aligned(header, rows, left={2, 3, 4, 5})


def _span(first: int, end: int) -> str:
    return str(first) if end - first == 1 else f"{first}-{end - 1}"


def _evidence(result: "AutoPlan", seconds: float) -> Iterator[str]:
    two_level, simulation = result.two_level, result.simulation
    assert two_level is not None
    limit = megabytes(result.cluster.memory_bytes)
    yield f"step {milliseconds(simulation.makespan_ns):,.3f} ms simulated, messages included; found in {seconds:.1f} s"
    gap = 100 * (1 - two_level.lower_bound_ns / two_level.step_ns)
    yield (
        f"stages: {milliseconds(two_level.step_ns):,.3f} ms by the pipeline's equation, no other stages take less than "
        f"{milliseconds(two_level.lower_bound_ns):,.3f} ms (gap {gap:.2f} %)"
    )
    programs = list(result.provider.solved_programs())
    proven = sum(plan.status is Status.OPTIMAL for plan in programs)
    yield f"shardings: {proven} of {len(programs)} integer programs solved to proven optimality"
    peak = megabytes(max(simulation.peak_memory_bytes))
    yield f"memory: peak {peak:,.0f} MB of {limit:,.0f} MB"


def _cost_table(result: "AutoPlan") -> str:
    """Return the time of one microbatch on each stage by kind of work, and gradients and messages beside it."""
    header = ["ms", "compute", "communication", "resharding", "gradient/step", "recompute", "between stages"]
    base = result.simulation
    messages = _messages_ms(result)
    rows = []
    for stage in result.stages:
        option = stage.option
        parts = [option.compute_ns, option.communication_ns, option.resharding_ns, option.gradient_ns]
        parts.append(int(base.costs.recompute_ns[stage.stage]))
        sent = messages[stage.stage] if stage.stage < len(messages) else 0.0
        rows.append([f"stage {stage.stage}", *(f"{milliseconds(part):,.3f}" for part in parts), f"{sent:,.3f}"])
    return aligned(header, rows, left={0})


def _messages_ms(result: "AutoPlan") -> list[float]:
    """Return the time from each stage to the next and back; nothing where stages were refined."""
    plan = result.two_level
    if plan is None or result.refined:
        return []
    return [
        milliseconds(there.cost_ns + back.cost_ns) for there, back in zip(plan.activations, plan.gradients, strict=True)
    ]


def _shardings(result: "AutoPlan") -> Iterator[str]:
    """Yield parameters, activations and collectives of every kind of layer under every sharding in use."""
    used: dict[tuple[Submesh, MeshSharding, int], list[PlacedStage]] = {}
    for stage in result.stages:
        for kind in stage.shardings:
            used.setdefault((stage.submesh, stage.sharding, kind), []).append(stage)
    for (submesh, sharding, kind), stages in used.items():
        plan = stages[0].shardings[kind]
        names = [
            name
            for stage in stages
            for name, layer_kind in zip(_names(result, stage), stage.kinds, strict=True)
            if layer_kind == kind
        ]
        where = f"stage{'s' if len(stages) > 1 else ''} {', '.join(str(stage.stage) for stage in stages)}"
        lines = [f"{names[0]}{f' … {names[-1]}' if len(names) > 1 else ''} ({where}: {sharding} on {submesh})"]
        lines += [f"  {parameter.text()}" for parameter in plan.parameters]
        inputs = [value for value in plan.activations if value.name.startswith("input ")]
        lines += [f"  input {list(value.shape)} {describe(value.placement)}" for value in inputs[:1]]
        lines += [f"  result of {value.text()}" for value in plan.activations if value not in inputs]
        lines += _collectives(plan)
        if plan.replicated_operators:
            lines.append(f"  without sharding rules, on every device: {', '.join(plan.replicated_operators)}")
        yield "\n".join(lines)


def _collectives(plan: "ShardingPlan") -> list[str]:
    """Return how many collectives of each kind run in one layer, and how long they take together."""
    counts: dict[tuple[str, str, int], list[int]] = {}
    for each in plan.collectives:
        counts.setdefault((each.phase, each.collective, each.axis), []).append(each.time_ns)
    return [
        f"  {phase}: {len(times)} x {collective} on mesh axis {axis}, {milliseconds(sum(times)):,.3f} ms"
        for (phase, collective, axis), times in sorted(counts.items(), key=lambda item: _PHASES.index(item[0][0]))
    ]


_PHASES = ("forward", "backward", "update")


def _names(result: "AutoPlan", stage: "PlacedStage") -> list[str]:
    """Return a name for each layer of a stage, head and tail included."""
    row = result.row
    head = row.head if stage.first == 0 else ()
    tail = row.tail if stage.end == len(row.body) else ()
    return [" + ".join(layer.modules) for layer in (*head, *row.body[stage.first : stage.end], *tail)]


def _alternatives(result: "AutoPlan") -> str:
    """Return the best stages of every number, with a mark at the answer."""
    rows = []
    for plan in result.search.alternatives:
        mark = "*" if plan is result.two_level else ""
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
    return f"alternatives ({result.search.num_evaluated:,} different stages evaluated)\n{table}"


def _submeshes(plan: "TwoLevelPlan") -> str:
    """Return the submeshes as text, such as ``3 of 1x2, 1 of 1x1``."""
    counts: dict[str, int] = {}
    for stage in plan.stages:
        counts[str(stage.submesh)] = counts.get(str(stage.submesh), 0) + 1
    return ", ".join(f"{count} of {shape}" for shape, count in counts.items())


def _refinement(result: "AutoPlan") -> str:
    """Return what the exact solver adds."""
    refinement = result.refinement
    if refinement is None:
        return "refinement: none, since no plan has equal submeshes"
    rows = [
        [
            f"{tried.schedule}, {tried.num_chunks} chunk{'s' if tried.num_chunks > 1 else ''}",
            str(tried.sharding),
            tried.outcome.status.value,
            "-" if tried.timeline is None else f"{milliseconds(tried.timeline.makespan_ns):,.3f}",
            f"{milliseconds(tried.outcome.lower_bound_ns):,.3f}",
        ]
        for tried in refinement.tried
    ]
    table = aligned(["schedule", "sharding", "status", "simulated ms", "bound ms"], rows, left={0, 1, 2})
    sentence = f"refinement by the exact solver adds {100 * refinement.saved:.1f} %"
    if refinement.best:
        sentence += f": {refinement.best.schedule}, {milliseconds(refinement.two_level_ns):,.3f} ms before"
    return f"{sentence}\n{table}"
