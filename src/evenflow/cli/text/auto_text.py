"""A two-level plan as text."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from evenflow.cli.text.tables import aligned, bubble_table
from evenflow.cluster import describe
from evenflow.language import _, _n
from evenflow.model import NONE
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
    work = _(
        "{num_microbatches} microbatches of {microbatch} x {sequence} tokens",
        num_microbatches=result.num_microbatches,
        microbatch=microbatch,
        sequence=sequence,
    )
    head = _(
        "{name}: {layers} layers on a mesh of {mesh} devices, {work}, {schedule}",
        name=result.row.name,
        layers=len(result.row.body),
        mesh=mesh,
        work=work,
        schedule=simulation.plan.schedule,
    )
    paragraphs = [
        head,
        _stage_table(result),
        "\n".join(_evidence(result, seconds)),
        _cost_table(result),
        bubble_table(simulation),
        *_shardings(result),
        _alternatives(result),
        _refinement(result),
        "\n".join(_("note: {note}", note=note) for note in result.notes),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def shortage_text(result: "AutoPlan") -> str:
    """Return why there is no plan, and what would be enough."""
    assert result.search.shortage is not None
    return _("infeasible: {message}", message=result.search.shortage.message(result.cluster))


def _stage_table(result: "AutoPlan") -> str:
    """Return a row for each stage; peak memory is that of its rank."""
    header = [
        _("stage"),
        _("layers"),
        _("submesh"),
        _("devices"),
        _("sharding"),
        _("recompute"),
        _("forward ms"),
        _("backward ms"),
        _("peak MB"),
    ]
    costs, peaks = result.simulation.costs, result.simulation.peak_memory_bytes
    rows = [
        [
            str(stage.stage),
            _span(stage.first, stage.end),
            str(stage.submesh),
            _span(stage.devices.start, stage.devices.stop),
            str(stage.sharding),
            ", ".join(f"{kind} {count}" for kind, count in stage.recompute.items()) or NONE,
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
    yield _(
        "step {makespan_ms:,.3f} ms simulated, messages included; found in {seconds:.1f} s",
        makespan_ms=milliseconds(simulation.makespan_ns),
        seconds=seconds,
    )
    gap = 100 * (1 - two_level.lower_bound_ns / two_level.step_ns)
    yield _(
        "stages: {step_ms:,.3f} ms by the pipeline's equation, no other stages take less than {bound_ms:,.3f} ms "
        "(gap {gap:.2f} %)",
        step_ms=milliseconds(two_level.step_ns),
        bound_ms=milliseconds(two_level.lower_bound_ns),
        gap=gap,
    )
    programs = list(result.provider.solved_programs())
    proven = sum(plan.status is Status.OPTIMAL for plan in programs)
    yield _(
        "shardings: {proven} of {num_programs} integer programs solved to proven optimality",
        proven=proven,
        num_programs=len(programs),
    )
    peak = megabytes(max(simulation.peak_memory_bytes))
    yield _("memory: peak {peak:,.0f} MB of {limit:,.0f} MB", peak=peak, limit=limit)


def _cost_table(result: "AutoPlan") -> str:
    """Return the time of one microbatch on each stage by kind of work, and gradients and messages beside it."""
    header = [
        _("ms"),
        _("compute"),
        _("communication"),
        _("resharding"),
        _("gradient/step"),
        _("recompute"),
        _("between stages"),
    ]
    base = result.simulation
    messages = _messages_ms(result)
    rows = []
    for stage in result.stages:
        option = stage.option
        parts = [option.compute_ns, option.communication_ns, option.resharding_ns, option.gradient_ns]
        parts.append(int(base.costs.recompute_ns[stage.stage]))
        sent = messages[stage.stage] if stage.stage < len(messages) else 0.0
        rows.append(
            [_("stage {stage}", stage=stage.stage), *(f"{milliseconds(part):,.3f}" for part in parts), f"{sent:,.3f}"]
        )
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
        lines = [
            _n(
                "{layers} (stage {stages}: {sharding} on {submesh})",
                "{layers} (stages {stages}: {sharding} on {submesh})",
                count=len(stages),
                layers=f"{names[0]} … {names[-1]}" if len(names) > 1 else names[0],
                stages=", ".join(str(stage.stage) for stage in stages),
                sharding=sharding,
                submesh=submesh,
            )
        ]
        lines += [f"  {parameter.text()}" for parameter in plan.parameters]
        inputs = [value for value in plan.activations if value.name.startswith("input ")]
        lines += [
            _("  input {shape} {placement}", shape=list(value.shape), placement=describe(value.placement))
            for value in inputs[:1]
        ]
        lines += [_("  result of {text}", text=value.text()) for value in plan.activations if value not in inputs]
        lines += _collectives(plan)
        if plan.replicated_operators:
            lines.append(
                _("  without sharding rules, on every device: {names}", names=", ".join(plan.replicated_operators))
            )
        yield "\n".join(lines)


def _collectives(plan: "ShardingPlan") -> list[str]:
    """Return how many collectives of each kind run in one layer, and how long they take together."""
    counts: dict[tuple[str, str, int], list[int]] = {}
    for each in plan.collectives:
        counts.setdefault((each.phase, each.collective, each.axis), []).append(each.time_ns)
    return [
        _(
            "  {phase}: {count} x {collective} on mesh axis {axis}, {time_ms:,.3f} ms",
            phase={"forward": _("forward"), "backward": _("backward"), "update": _("update")}[phase],
            count=len(times),
            collective=collective,
            axis=axis,
            time_ms=milliseconds(sum(times)),
        )
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
    table = aligned(
        ["", _("stages"), _("submeshes"), _("by equation ms"), _("bound ms"), _("simulated ms")], rows, left={0, 2}
    )
    title = _("alternatives ({count:,} different stages evaluated)", count=result.search.num_evaluated)
    return f"{title}\n{table}"


def _submeshes(plan: "TwoLevelPlan") -> str:
    """Return the submeshes as text, such as ``3 of 1x2, 1 of 1x1``."""
    counts: dict[str, int] = {}
    for stage in plan.stages:
        counts[str(stage.submesh)] = counts.get(str(stage.submesh), 0) + 1
    return ", ".join(_("{count} of {shape}", count=count, shape=shape) for shape, count in counts.items())


def _refinement(result: "AutoPlan") -> str:
    """Return what the exact solver adds."""
    refinement = result.refinement
    if refinement is None:
        return _("refinement: none, since no plan has equal submeshes")
    rows = [
        [
            _n("{schedule}, 1 chunk", "{schedule}, {count} chunks", count=tried.num_chunks, schedule=tried.schedule),
            str(tried.sharding),
            tried.outcome.status.word,
            "-" if tried.timeline is None else f"{milliseconds(tried.timeline.makespan_ns):,.3f}",
            f"{milliseconds(tried.outcome.lower_bound_ns):,.3f}",
        ]
        for tried in refinement.tried
    ]
    table = aligned([_("schedule"), _("sharding"), _("status"), _("simulated ms"), _("bound ms")], rows, left={0, 1, 2})
    sentence = _("refinement by the exact solver adds {saved:.1f} %", saved=100 * refinement.saved)
    if refinement.best:
        sentence = _(
            "{sentence}: {schedule}, {before_ms:,.3f} ms before",
            sentence=sentence,
            schedule=refinement.best.schedule,
            before_ms=milliseconds(refinement.two_level_ns),
        )
    return f"{sentence}\n{table}"
