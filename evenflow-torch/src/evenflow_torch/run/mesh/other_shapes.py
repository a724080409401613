"""Batches of other shapes than the plan's: what crosses between stages then, as long as all devices have equal parts.

Placements stay as they are planned, so a number of samples or positions that the devices cannot share is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from evenflow.cluster import MeshPlan, StageOnMesh, TensorLayout
from evenflow.errors import InputError
from evenflow.language import _

_SAMPLES, _POSITIONS = range(2)
_ROWS = 2
"""Dimension of the positions in queries [batch, heads, positions, width]."""


def plan_for_shape(plan: MeshPlan, shape: Sequence[int]) -> MeshPlan:
    """Return the plan with the layouts of a microbatch of another shape [samples, positions, …].

    Positions are the second dimension of the microbatch, and of what crosses between stages where that is as long.

    Raises:
        InputError: another number of dimensions, positions that cannot change, or numbers that devices cannot share.
    """
    planned = plan.stages[0].input.shape
    if tuple(shape) == planned:
        return plan
    if len(shape) != len(planned) or tuple(shape[2:]) != planned[2:]:
        raise _refusal(
            shape, _("must have the dimensions of {planned} but for samples and positions", planned=list(planned))
        )
    is_longer = tuple(shape[1:]) != planned[1:]
    if is_longer and any(_ROWS in own.placement for stage in plan.stages for own in stage.attention.values()):
        raise _refusal(shape, _("must have {count} positions, whose attention the plan shares", count=planned[1]))
    stages = []
    for index, stage in enumerate(plan.stages):
        for place, mesh, sizes in _splits(stage):
            for dimension, size in enumerate(shape[:2]):
                devices = prod(count for count, split in zip(mesh, place, strict=True) if split == dimension < sizes)
                if size % devices:
                    name = _("samples") if dimension == _SAMPLES else _("positions")
                    rule = _(
                        "must have a number of {name} that the {devices} devices of stage {index} can share",
                        name=name, devices=devices, index=index,
                    )  # fmt: skip
                    raise _refusal(shape, rule)
        output = None if stage.output is None else _resized(stage.output, planned, shape)
        stages.append(replace(stage, input=_resized(stage.input, planned, shape), output=output))
    return replace(plan, stages=tuple(stages))


def resized(crossing: Sequence[int], planned: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of what crosses between stages for a microbatch of `shape` instead of the `planned` one.

    >>> resized((4, 6, 16), (4, 6), (2, 3))
    (2, 3, 16)
    """
    samples, rest = divmod(crossing[_SAMPLES], planned[_SAMPLES])
    is_longer = tuple(shape[1:]) != tuple(planned[1:])
    has_positions = len(crossing) > 1 and tuple(crossing[:2]) == tuple(planned[:2])
    if rest or (is_longer and not has_positions):
        rule = _("must be {planned}, as what crosses between stages has other dimensions", planned=list(planned))
        raise _refusal(shape, rule)
    last = (shape[_POSITIONS], *crossing[2:]) if is_longer else crossing[1:]
    return (samples * shape[_SAMPLES], *last)


def _resized(layout: TensorLayout, planned: Sequence[int], shape: Sequence[int]) -> TensorLayout:
    return replace(layout, shape=resized(layout.shape, planned, shape))


def _splits(stage: StageOnMesh) -> Iterator[tuple[Sequence[int], Sequence[int], int]]:
    """Yield the placements of what is between layers, with the mesh and the number of dimensions that are looked at."""
    for layout in (stage.input, stage.output):
        if layout is not None:
            yield layout.placement, layout.mesh, len(layout.shape)
    for placement in stage.entries.values():
        yield placement, stage.mesh, 2


def _refusal(shape: Sequence[int], rule: str) -> InputError:
    return InputError(
        value=list(shape),
        rule=rule,
        place=_("batch, a microbatch"),
        remedy=_("give batches a shape that the plan can split, or plan for this one"),
    )
