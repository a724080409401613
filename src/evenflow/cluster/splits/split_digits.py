"""How dimensions are split over mesh axes, as numbers of mixed radix, and what views make of that.

A dimension of n elements is a row of *digits*, the slowest first, whose sizes multiply to n. A digit belongs to a mesh
axis, whose devices each have one value of it, or to none, and then every device has all of it:

    12 rows, S(0) on 2 devices                 (2, axis 0) (6, whole)
    12 rows, SS(0,3) on 2 devices     (3, whole) (2, axis 0) (2, whole)

A view that merges and splits dimensions keeps the digits in their order, and deals them out to its dimensions.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from evenflow.cluster.splits.view_groups import DimensionGroups

WHOLE = -1
"""Stands for no mesh axis."""
Digit = tuple[int, int]
"""Size, and the mesh axis or WHOLE."""
Digits = tuple[tuple[Digit, ...], ...]
"""One row for each dimension; no digits of size one, no two whole ones beside each other."""
Segments = dict[int, list[int]]
"""The mesh axes, in order, that split a dimension behind so many blocks."""


def digits_of_segments(
    shape: tuple[int, ...], segments: Sequence[Mapping[int, Sequence[int]]], mesh_shape: tuple[int, ...]
) -> Digits | None:
    """Return the digits of every dimension; None where a segment does not split evenly over its axes."""
    rows = []
    for size, axes_of in zip(shape, segments, strict=True):
        row: list[Digit] = []
        begins = sorted(axes_of)
        for begin, end in itertools.pairwise((*begins, size)):
            left, rest = divmod(end, begin)
            if rest:
                return None
            for axis in axes_of[begin]:
                if left % mesh_shape[axis]:
                    return None
                left //= mesh_shape[axis]
                row.append((mesh_shape[axis], axis))
            row.append((left, WHOLE))
        rows.append(_joined(row))
    return tuple(rows)


def through_view(tensor_digits: Digits, groups: DimensionGroups, shape: tuple[int, ...]) -> Digits | None:
    """Return the digits of a view's result of `shape`; None where the view cannot be done on parts of its input."""
    rows: list[tuple[Digit, ...]] = [()] * len(shape)
    for inputs, outputs in groups:
        row = _joined(digit for dimension in inputs for digit in tensor_digits[dimension])
        if not outputs or not inputs:
            if any(axis != WHOLE for _, axis in row):
                return None
            for dimension in outputs:
                rows[dimension] = _joined([(shape[dimension], WHOLE)])
            continue
        dealt = _dealt(row, [shape[dimension] for dimension in outputs])
        if dealt is None:
            return None
        for dimension, own in zip(outputs, dealt, strict=True):
            rows[dimension] = own
    return tuple(rows)


def without_axis(tensor_digits: Digits, axis: int) -> Digits:
    """Return the digits as they are without one mesh axis: what it split is whole."""
    return tuple(
        _joined((size, WHOLE if split_axis == axis else split_axis) for size, split_axis in row)
        for row in tensor_digits
    )


def _joined(row: Iterable[Digit]) -> tuple[Digit, ...]:
    """Simplify digits: drop those with a single value, and merge neighbours that no axis splits."""
    result: list[Digit] = []
    for size, axis in row:
        if size == 1:
            continue
        if result and axis == result[-1][1] == WHOLE:
            result[-1] = (result[-1][0] * size, WHOLE)
        else:
            result.append((size, axis))
    return tuple(result)


def _dealt(row: Sequence[Digit], sizes: Sequence[int]) -> list[tuple[Digit, ...]] | None:
    """Deal digits out to dimensions of these sizes; a digit that an axis splits is never cut."""
    if math.prod(sizes) == 0:
        return None if any(axis != WHOLE for _, axis in row) else [_joined([(size, WHOLE)]) for size in sizes]
    left = list(reversed(row))
    result = []
    for size in sizes:
        own: list[Digit] = []
        wanted = size
        while wanted > 1:
            have, axis = left.pop()
            if wanted % have == 0:
                own.append((have, axis))
                wanted //= have
            elif axis == WHOLE and have % wanted == 0:
                own.append((wanted, WHOLE))
                left.append((have // wanted, WHOLE))
                wanted = 1
            else:
                return None
        result.append(_joined(own))
    return result
