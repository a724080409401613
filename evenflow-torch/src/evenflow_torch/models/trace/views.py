"""What torch's views do with dimensions: merge, split, permute or drop them.

torch is imported at the top: import this module only where a graph of it is at hand.
"""

from typing import Any

import torch

from evenflow.cluster.splits.view_groups import DimensionGroups, groups_of_shapes


def dimension_groups(
    target: Any, arguments: tuple[Any, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> DimensionGroups | None:
    """Return how a view merges, splits, permutes and drops dimensions; None for views that are not known here.

    `arguments` are those of the call, the tensor first; `before` and `after` are shapes.
    """
    aten = torch.ops.aten
    reshapes = (aten.view, aten._unsafe_view, aten.unsqueeze, aten.squeeze, aten.detach, aten.alias)
    packet = getattr(target, "overloadpacket", None)
    if packet in reshapes and target is not aten.view.dtype:
        return groups_of_shapes(before, after)
    if packet in (aten.t, aten.transpose):
        order = list(range(len(before)))
        if order:
            first, second = (0, len(before) - 1) if packet is aten.t else arguments[1:3]
            order[first], order[second] = order[second], order[first]
        return _turned(order)
    if packet is aten.permute:
        return _turned([axis % len(before) for axis in arguments[1]])
    if packet in (aten.slice, aten.select):
        at = (arguments[1] if len(arguments) > 1 else 0) % len(before)
        return _cut(before, after, at, is_dropped=packet is aten.select)
    if packet is aten.expand:
        return _expanded(before, after)
    return None


def _turned(order: list[int]) -> DimensionGroups:
    return tuple(((source,), (at,)) for at, source in enumerate(order))


def _cut(before: tuple[int, ...], after: tuple[int, ...], at: int, *, is_dropped: bool) -> DimensionGroups:
    """Return the groups of a view that selects from one dimension: unchanged only if all its elements stay."""
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for dimension, size in enumerate(before):
        if dimension != at:
            groups.append(((dimension,), (dimension - (is_dropped and dimension > at),)))
        elif is_dropped:
            groups.append(((dimension,), ()))
        elif after[at] == size:
            groups.append(((dimension,), (dimension,)))
        else:
            groups += [((dimension,), ()), ((), (dimension,))]
    return tuple(groups)


def _expanded(before: tuple[int, ...], after: tuple[int, ...]) -> DimensionGroups:
    """Return the groups of an expanding view: repeated dimensions count as new ones."""
    new = len(after) - len(before)
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), (at,)) for at in range(new)]
    for dimension, size in enumerate(before):
        same = after[dimension + new] == size
        groups += [((dimension,), (dimension + new,))] if same else [((dimension,), ()), ((), (dimension + new,))]
    return tuple(groups)
