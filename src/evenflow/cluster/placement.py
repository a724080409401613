"""Placements of a tensor on a mesh: for each mesh axis replicated, split along a dimension, or a partial sum.

A dimension that merges others, as rows (sequence, batch) -> sequence * batch, may also be split along one that lies
behind another. Such a *strided* split of so many blocks gives every device a part of each block:

    SS(0,3) on two devices    rows  0 1 | 2 3 | 4 5        device 0 has 0 2 4, device 1 has 1 3 5

Only this module knows how the number of a split is built.
"""

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from evenflow.cluster.splits.split_digits import WHOLE, Digits, Segments, digits_of_segments
from evenflow.language import _

REPLICATE = -1
PARTIAL = -2
Placement = tuple[int, ...]
"""A split (`split_along`), REPLICATE or PARTIAL for each mesh axis; a dimension's number is its ordinary split.

Of two axes that split one dimension from the same block on the first is the outer one, as in torch's DTensor."""

_DIMENSIONS = 64
"""Dimensions that a tensor of torch can have."""


def split_along(dimension: int, blocks: int = 1) -> int:
    """Return the split of a dimension, or of each of the `blocks` merged in it."""
    return dimension + _DIMENSIONS * (blocks - 1)


def dimension_of(split: int) -> int:
    """Return the dimension of a split."""
    return split % _DIMENSIONS


def blocks_of(split: int) -> int:
    """Return the blocks of which every device has a part: one for an ordinary split."""
    return split // _DIMENSIONS + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTensor:
    """Shape and size of a tensor before it is split."""

    shape: tuple[int, ...]
    item_bytes: int
    blocks: tuple[tuple[int, ...], ...] = ()
    """Strided splits to think of: for each dimension, the numbers of blocks in it; nothing for none at all."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole tensor."""
        return math.prod(self.shape) * self.item_bytes


def digits(shape: tuple[int, ...], placement: Placement, mesh_shape: tuple[int, ...]) -> Digits | None:
    """Return how every dimension is split; None where devices would get unequal parts."""
    segments: list[Segments] = [{1: []} for _size in shape]
    for axis, dimension in enumerate(placement):
        if dimension >= 0:
            if dimension_of(dimension) >= len(shape):
                return None
            segments[dimension_of(dimension)].setdefault(blocks_of(dimension), []).append(axis)
    return digits_of_segments(shape, segments, mesh_shape)


def placement_of(tensor_digits: Digits, like: Placement) -> Placement:
    """Return the placement that splits dimensions into these digits, with the partial sums of `like`."""
    result = [PARTIAL if of_axis == PARTIAL else REPLICATE for of_axis in like]
    for dimension, row in enumerate(tensor_digits):
        first, before, previous = 1, 1, WHOLE
        for size, axis in row:
            if axis != WHOLE:
                if previous == WHOLE or previous > axis:
                    first = before  # the axes that follow it in order split the same
                result[axis] = split_along(dimension, first)
            before *= size
            previous = axis
    return tuple(result)


def is_even(tensor: WholeTensor, placement: Placement, mesh_shape: tuple[int, ...]) -> bool:
    """Tell whether all devices get equal parts of a tensor."""
    if any(dimension >= _DIMENSIONS for dimension in placement):
        return digits(tensor.shape, placement, mesh_shape) is not None
    left = list(tensor.shape)
    for size, dimension in zip(mesh_shape, placement, strict=True):
        if dimension >= 0:
            if dimension >= len(left) or left[dimension] % size:
                return False
            left[dimension] //= size
    return True


def is_offered(tensor: WholeTensor, placement: Placement, mesh_shape: tuple[int, ...]) -> bool:
    """Tell whether a placement is one of `placements`: even, with blocks of the tensor, and written in one way only."""
    if all(dimension < _DIMENSIONS for dimension in placement):
        return is_even(tensor, placement, mesh_shape)
    if any(dimension >= 0 and not _is_thought_of(tensor, dimension) for dimension in placement):
        return False
    split_digits = digits(tensor.shape, placement, mesh_shape)
    return split_digits is not None and placement_of(split_digits, placement) == placement


def placements(tensor: WholeTensor, mesh_shape: tuple[int, ...], *, partial: bool) -> Iterator[Placement]:
    """Every placement of `tensor` with equal parts on all devices; with partial sums or without."""
    strided = (split_along(at, blocks) for at, row in enumerate(tensor.blocks) for blocks in row)
    kinds = (REPLICATE, *range(len(tensor.shape)), *strided, *((PARTIAL,) if partial else ()))
    # On an axis of one device all kinds are the same: one is enough.
    axes = [kinds if size > 1 else (REPLICATE,) for size in mesh_shape]
    return (placement for placement in itertools.product(*axes) if is_offered(tensor, placement, mesh_shape))


def local_bytes(tensor: WholeTensor, placement: Placement, mesh_shape: tuple[int, ...]) -> int:
    """Bytes of one device's part."""
    split = math.prod(size for size, dimension in zip(mesh_shape, placement, strict=True) if dimension >= 0)
    return tensor.size_bytes // split


def describe(placement: Placement, *, dimensions: tuple[str, ...] = (), axes: tuple[str, ...] = ()) -> str:
    """Return text for people; `dimensions` and `axes` name those of the tensor and of the mesh where they have names.

    >>> describe((0, -1)), describe((-1, -1)), describe((-2, 1), dimensions=("column", "row"))
    ('dimension 0 on mesh axis 0', 'replicated', 'partial sum on mesh axis 0, row on mesh axis 1')
    >>> describe((0, 1), axes=("over 2 nodes", "over 4 in the node"))
    'dimension 0 over 2 nodes, dimension 1 over 4 in the node'
    >>> describe((split_along(0, 16),))
    'dimension 0 in each of 16 blocks on mesh axis 0'
    """
    phrases = []
    for axis, dimension in enumerate(placement):
        place = axes[axis] if axes else _("on mesh axis {axis}", axis=axis)
        if dimension == PARTIAL:
            phrases.append(_("partial sum {place}", place=place))
        elif dimension != REPLICATE:
            at, blocks = dimension_of(dimension), blocks_of(dimension)
            name = dimensions[at] if dimensions else _("dimension {dimension}", dimension=at)
            if blocks > 1:
                name = _("{dimension} in each of {blocks} blocks", dimension=name, blocks=blocks)
            phrases.append(_("{dimension} {place}", dimension=name, place=place))
    if not phrases:
        return _("replicated")
    return reduce(lambda text, more: _("{words}, {more}", words=text, more=more), phrases)


def code(placement: Placement) -> str:
    """Short text, one word an axis, as torch writes it: ``R``, ``S(0)``, ``P``; ``SS(0,16)`` for each of 16 blocks.

    >>> code((0, -1, -2)), code((split_along(0, 16),))
    ('S(0) R P', 'SS(0,16)')
    """
    return " ".join(_word(dimension) for dimension in placement)


def parse_code(text: str) -> Placement:
    """Inverse of `code`; raises ValueError for other text.

    >>> parse_code("S(0) R P"), blocks_of(parse_code("SS(0,16)")[0])
    ((0, -1, -2), 16)
    """
    known = {"R": REPLICATE, "P": PARTIAL}
    return tuple(known[word] if word in known else _split(word) for word in text.split())


def _is_thought_of(tensor: WholeTensor, split: int) -> bool:
    blocks, dimension = blocks_of(split), dimension_of(split)
    return blocks == 1 or (dimension < len(tensor.blocks) and blocks in tensor.blocks[dimension])


def _word(dimension: int) -> str:
    if dimension < 0:
        return "R" if dimension == REPLICATE else "P"
    blocks = blocks_of(dimension)
    return f"S({dimension})" if blocks == 1 else f"SS({dimension_of(dimension)},{blocks})"


def _split(word: str) -> int:
    match = re.fullmatch(r"S\(([0-9]{1,2})\)|SS\(([0-9]{1,2}),([0-9]{1,18})\)", word)
    if match is not None:
        dimension, blocks = (int(match[1]), 1) if match[1] else (int(match[2]), int(match[3]))
        if dimension < _DIMENSIONS and (blocks > 1 or match[1]):
            return split_along(dimension, blocks)
    raise ValueError(f"{word!r} is none of R, P, S(dimension) and SS(dimension,blocks)")
