"""The degrees of parallelism of a two-level plan as frameworks state them, if all stages have the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from evenflow.language import _
from evenflow.predict.training import Degrees, Sharding
from evenflow_torch.auto.placed_pipeline import PlacedStage
from evenflow_torch.auto.sharding.ways import AxisRole
from evenflow_torch.auto.wording.axis_use import AxisUse

_ORDER = (AxisRole.DATA, AxisRole.EXPERT, AxisRole.CONTEXT, AxisRole.TENSOR)
"""Roles from the furthest devices to neighbours, as Megatron-LM and torchtitan lay out their groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDegrees:
    """The degrees of parallelism that all stages have in common."""

    degrees: Degrees
    replicas: int
    """Groups of data-parallel devices that each hold the state whole, where they share it out (hybrid sharding)."""


def plan_degrees(stages: Sequence[PlacedStage]) -> PlanDegrees | str:
    """Return the degrees of all stages, or a phrase that says why they have none in common."""
    first = stages[0]
    for stage in stages:
        if len(stage.devices) != len(first.devices):
            return _(
                "stage {first} is on {count} devices, stage {other} on {others}",
                first=first.stage,
                count=len(first.devices),
                other=stage.stage,
                others=len(stage.devices),
            )
        if list(stage.devices) != list(range(stage.rank * len(first.devices), (stage.rank + 1) * len(first.devices))):
            return _("stage {stage} lies out of the pipeline's order", stage=stage.stage)
    for stage in stages:
        if not stage.use.is_uniform:
            return _("layers of stage {stage} are sharded unlike: {words}", stage=stage.stage, words=stage.use.words)
        if stage.use.main_words != first.use.main_words:
            return _(
                "stage {first} is {words}, stage {other} {others}",
                first=first.stage,
                words=first.use.main_words,
                other=stage.stage,
                others=stage.use.main_words,
            )
    axes = [(size, use) for size, use in zip(first.use.mesh, first.use.uses, strict=True) if size > 1]
    return _degrees(axes, pipeline=1 + max(stage.rank for stage in stages), num_stages=len(stages))


def _degrees(axes: Sequence[tuple[int, AxisUse]], *, pipeline: int, num_stages: int) -> PlanDegrees | str:
    """Return the degrees that mesh axes stand for, slowest axis first, or why frameworks cannot state them."""
    if any(use.role is None for _size, use in axes):
        return _("some devices do the same work as others")
    roles = [use.role for _size, use in axes if use.role is not None]
    if roles != sorted(roles, key=_ORDER.index):
        return _("its groups do not lie as frameworks have them: tensor parallel neighbours, then context, then data")
    sharing = [(size, use) for size, use in axes if use.role is not AxisRole.TENSOR]
    replicas = 1
    while len(sharing) > 1 and sharing[0][1] == AxisUse(role=AxisRole.DATA) != sharing[-1][1]:
        replicas *= sharing.pop(0)[0]
    shared = {use.sharding for _size, use in sharing}
    if len(shared) > 1:
        return _("the optimizer's state is not shared out alike over all data parallel devices")

    def degree(*wanted: AxisRole) -> int:
        return prod(size for size, use in axes if use.role in wanted)

    return PlanDegrees(
        degrees=Degrees(
            tensor=degree(AxisRole.TENSOR),
            pipeline=pipeline,
            chunks=num_stages // pipeline,
            context=degree(AxisRole.CONTEXT),
            data=degree(AxisRole.DATA, AxisRole.EXPERT),
            expert=degree(AxisRole.EXPERT),
            sequence_parallel=any(use.splits_tokens for _size, use in axes),
            sharding=shared.pop() if shared else Sharding.NOTHING,
        ),
        replicas=replicas if sharing else 1,
    )
