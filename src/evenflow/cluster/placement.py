"""Placements of a tensor on a mesh: for each mesh axis replicated, split along a dimension, or a partial sum."""

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from evenflow.language import _

REPLICATE = -1
PARTIAL = -2
Placement = tuple[int, ...]
"""A tensor dimension, REPLICATE or PARTIAL for each mesh axis. Of two axes that split one dimension the first is the
outer one, as in torch's DTensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTensor:
    """Shape and size of a tensor before it is split."""

    shape: tuple[int, ...]
    item_bytes: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole tensor."""
        return math.prod(self.shape) * self.item_bytes


def is_even(tensor: WholeTensor, placement: Placement, mesh_shape: tuple[int, ...]) -> bool:
    """Tell whether all devices get equal parts of a tensor."""
    left = list(tensor.shape)
    for size, where in zip(mesh_shape, placement, strict=True):
        if where >= 0:
            if where >= len(left) or left[where] % size:
                return False
            left[where] //= size
    return True


def placements(tensor: WholeTensor, mesh_shape: tuple[int, ...], *, partial: bool) -> Iterator[Placement]:
    """Every placement of `tensor` with equal parts on all devices; with partial sums or without."""
    kinds = (REPLICATE, *range(len(tensor.shape)), *((PARTIAL,) if partial else ()))
    # On an axis of one device all kinds are the same: one is enough.
    axes = [kinds if size > 1 else (REPLICATE,) for size in mesh_shape]
    return (placement for placement in itertools.product(*axes) if is_even(tensor, placement, mesh_shape))


def local_bytes(tensor: WholeTensor, placement: Placement, mesh_shape: tuple[int, ...]) -> int:
    """Bytes of one device's part."""
    split = math.prod(size for size, where in zip(mesh_shape, placement, strict=True) if where >= 0)
    return tensor.size_bytes // split


def describe(placement: Placement, *, dimensions: tuple[str, ...] = (), axes: tuple[str, ...] = ()) -> str:
    """Return text for people; `dimensions` and `axes` name those of the tensor and of the mesh where they have names.

    >>> describe((0, -1)), describe((-1, -1)), describe((-2, 1), dimensions=("column", "row"))
    ('dimension 0 on mesh axis 0', 'replicated', 'partial sum on mesh axis 0, row on mesh axis 1')
    >>> describe((0, 1), axes=("over 2 nodes", "over 4 in the node"))
    'dimension 0 over 2 nodes, dimension 1 over 4 in the node'
    """
    phrases = []
    for axis, where in enumerate(placement):
        place = axes[axis] if axes else _("on mesh axis {axis}", axis=axis)
        if where == PARTIAL:
            phrases.append(_("partial sum {place}", place=place))
        elif where != REPLICATE:
            dimension = dimensions[where] if dimensions else _("dimension {dimension}", dimension=where)
            phrases.append(_("{dimension} {place}", dimension=dimension, place=place))
    return ", ".join(phrases) or _("replicated")


def code(placement: Placement) -> str:
    """Short text, one word an axis, as torch writes it: ``R``, ``S(0)``, ``P``.

    >>> code((0, -1, -2))
    'S(0) R P'
    """
    return " ".join("R" if where == REPLICATE else "P" if where == PARTIAL else f"S({where})" for where in placement)


def parse_code(text: str) -> Placement:
    """Inverse of `code`; raises ValueError for other text.

    >>> parse_code("S(0) R P")
    (0, -1, -2)
    """
    known = {"R": REPLICATE, "P": PARTIAL}
    return tuple(known[word] if word in known else _split_dimension(word) for word in text.split())


def _split_dimension(word: str) -> int:
    match = re.fullmatch(r"S\(([0-9]+)\)", word)
    if match is None:
        raise ValueError(f"{word!r} is none of R, P and S(dimension)")
    return int(match[1])
