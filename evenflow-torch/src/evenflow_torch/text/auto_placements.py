"""Where the tensors of a two-level plan lie: for each kind of layer under each sharding, and its collectives."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from evenflow.cluster import describe
from evenflow.language import _, _n
from evenflow.units import milliseconds

if TYPE_CHECKING:
    from evenflow.cluster import Submesh
    from evenflow_torch.auto.placed_pipeline import PlacedStage
    from evenflow_torch.auto.planner import AutoPlan
    from evenflow_torch.auto.sharding.sharding_plan import ShardingPlan
    from evenflow_torch.auto.sharding.ways import MeshSharding


def placement_texts(result: "AutoPlan") -> Iterator[str]:
    """Yield parameters, activations and collectives of every kind of layer under every sharding of several devices."""
    used: dict[tuple[Submesh, MeshSharding, int], list[PlacedStage]] = {}
    for stage in (stage for stage in result.stages if stage.submesh.num_devices > 1):
        for kind in stage.shardings:
            used.setdefault((stage.submesh, stage.sharding, kind), []).append(stage)
    for (submesh, _sharding, kind), stages in used.items():
        plan, axes = stages[0].shardings[kind], stages[0].use.places
        names = [
            name
            for stage in stages
            for name, layer_kind in zip(_names(result, stage), stage.kinds, strict=True)
            if layer_kind == kind
        ]
        lines = [
            _n(
                "{layers} (stage {stages}, {submesh} devices)",
                "{layers} (stages {stages}, {submesh} devices each)",
                count=len(stages),
                layers=f"{names[0]} … {names[-1]}" if len(names) > 1 else names[0],
                stages=", ".join(str(stage.stage) for stage in stages),
                submesh=submesh,
            )
        ]
        lines += _together((parameter.placement_text(axes), parameter.name) for parameter in plan.parameters)
        inputs = [value for value in plan.activations if value.name.startswith("input ")]
        lines += [
            _("  input {shape} {placement}", shape=list(value.shape), placement=describe(value.placement, axes=axes))
            for value in inputs[:1]
        ]
        results = [value for value in plan.activations if value not in inputs]
        lines += _together(
            (_("results {placement}", placement=describe(value.placement, axes=axes)), _sized(value.name, value.shape))
            for value in results
        )
        lines += _collectives(plan, axes)
        if plan.replicated_operators:
            lines.append(
                _("  without sharding rules, on every device: {names}", names=", ".join(plan.replicated_operators))
            )
        yield "\n".join(lines)


def _sized(name: str, shape: tuple[int, ...]) -> str:
    return f"{name} {list(shape)}"


def _together(placed: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each placement, with the names of the tensors that have it."""
    names: dict[str, list[str]] = {}
    for placement, name in placed:
        names.setdefault(placement, []).append(name)
    return [
        _("  {placement}: {names}", placement=placement, names=", ".join(some)) for placement, some in names.items()
    ]


def _collectives(plan: "ShardingPlan", axes: tuple[str, ...]) -> list[str]:
    """Return how many collectives of each kind run in one layer, and how long they take together."""
    counts: dict[tuple[str, str, int], list[int]] = {}
    for collective_run in plan.collectives:
        counts.setdefault((collective_run.phase, collective_run.collective, collective_run.axis), []).append(
            collective_run.time_ns
        )
    return [
        _(
            "  {phase}: {count} x {collective} {place}, {time_ms:,.3f} ms",
            phase={"forward": _("forward"), "backward": _("backward"), "update": _("update")}[phase],
            count=len(times),
            collective=collective,
            place=axes[axis],
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
