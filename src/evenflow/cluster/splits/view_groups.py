"""Views that merge and split dimensions of a tensor, such as reshapes and transposes, by the dimensions alone."""

import math
from collections.abc import Iterable, Sequence

DimensionGroups = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
"""A view: dimensions of its input that are merged, and those of its output that this is split into. Where one side has
none, a dimension is dropped, or one is new."""


def groups_of_shapes(before: tuple[int, ...], after: tuple[int, ...]) -> DimensionGroups:
    """Return the smallest runs of dimensions that a reshape merges and splits."""
    if 0 in (*before, *after):
        return ((tuple(range(len(before))), tuple(range(len(after)))),)
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        first, second = i, j
        i, j = min(i + 1, len(before)), min(j + 1, len(after))
        while (left := math.prod(before[first:i])) != (right := math.prod(after[second:j])):
            i, j = (i + 1, j) if left < right else (i, j + 1)
        groups.append((tuple(range(first, i)), tuple(range(second, j))))
    return tuple(groups)


def cuts_behind(
    groups: DimensionGroups, before: tuple[int, ...], after: tuple[int, ...], cuts: Sequence[Iterable[int]]
) -> list[set[int]]:
    """Return the numbers of blocks in each dimension of a view's result, from its shape and those of its input.

    A boundary between merged dimensions, or between blocks in one, lies in the same place of the result.
    """
    result: list[set[int]] = [set() for _ in after]
    for inputs, outputs in groups:
        places, begin = set(), 1
        for dimension in inputs:
            places |= {begin * cut for cut in (1, *cuts[dimension])}
            begin *= before[dimension]
        begin = 1
        for dimension in outputs:
            end = begin * after[dimension]
            result[dimension] |= {
                place // begin for place in places if begin < place < end and place % begin == end % place == 0
            }
            begin = end
    return result
