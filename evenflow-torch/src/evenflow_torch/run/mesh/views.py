"""Views of DTensors whose split dimensions the view does not keep, such as one product for queries, keys and values.

    [batch, tokens, 3 x heads x width], columns split  --view-->  [batch, tokens, 3, heads, width]

No even split of the columns is one of `3`, so torch refuses. The plan moves the tensor before the view, to where the
view can be done on parts; here it becomes whole along those axes of the mesh that the view does not keep.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

from evenflow.cluster import REPLICATED, digits
from evenflow.cluster.splits.split_digits import WHOLE, Digit, through_view
from evenflow.cluster.splits.view_groups import groups_of_shapes


def view(make: Callable[..., Tensor], tensor: Any, *sizes: Any, **named: Any) -> Tensor:
    """Return the view that `make` makes of a tensor."""
    if not isinstance(tensor, DTensor):
        return make(tensor, *sizes, **named)
    try:
        return make(tensor, *sizes, **named)
    except RuntimeError:
        shape = tuple(make(torch.empty(tensor.shape, device="meta"), *sizes, **named).shape)
        kept = _kept(tensor, shape)
        if kept == list(tensor.placements):
            raise
    result: Any = make(tensor.redistribute(placements=kept), *sizes, **named)
    # The gradient arrives split as the result is, so that the view can be undone on parts.
    local = result.to_local(grad_placements=result.placements)
    return DTensor.from_local(
        local, result.device_mesh, result.placements, run_check=False, shape=result.shape, stride=result.stride()
    )


def _kept(tensor: DTensor, shape: tuple[int, ...]) -> list[Placement]:
    """Return the placements of `tensor` without those that a view of `shape` does not keep."""
    mesh = tuple(tensor.device_mesh.shape)
    groups = groups_of_shapes(tuple(tensor.shape), shape)
    kept: list[Placement] = [Replicate()] * len(mesh)
    for axis, placement in enumerate(tensor.placements):
        tried = [*kept]
        tried[axis] = placement
        split = tuple(each.dim if isinstance(each, Shard) else REPLICATED for each in tried)
        before = digits(tuple(tensor.shape), split, mesh)
        after = None if before is None else through_view(before, groups, shape)
        if placement.is_partial() or (after is not None and all(map(_is_plain, after))):
            kept = tried
    return kept


def _is_plain(row: tuple[Digit, ...]) -> bool:
    """Whether a dimension is split from its beginning on, as torch has it."""
    whole = [place for place, (_size, axis) in enumerate(row) if axis == WHOLE]
    return not whole or whole == [len(row) - 1]
