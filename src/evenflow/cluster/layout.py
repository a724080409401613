"""The layout of a tensor on the devices of a stage: the box of it that every device holds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from evenflow.cluster.placement import code
from evenflow.errors import InputError
from evenflow.language import _

REPLICATED = -1
"""The value that stands for no dimension: every device along the mesh axis holds the same."""

Box = tuple[tuple[int, int], ...]
"""Begin and end in every dimension."""


@dataclass(frozen=True, kw_only=True)
class TensorLayout:
    """A tensor on a mesh of devices, along each mesh axis split in one dimension or replicated.

    A dimension of n elements split over k devices gives each ceil(n / k), the last ones less or nothing; of two axes
    that split the same dimension the first is the outer one. This is what torch's DTensor does with ``Shard``.
    """

    shape: tuple[int, ...]
    item_bytes: int
    mesh: tuple[int, ...]
    placement: tuple[int, ...]
    """The dimension that is split along each mesh axis, or REPLICATED."""
    devices: tuple[int, ...]
    """The last mesh axis varies fastest."""

    def __post_init__(self) -> None:
        if len(self.placement) != len(self.mesh) or math.prod(self.mesh) != len(self.devices):
            raise InputError(
                value=f"placement {self.placement}, mesh {self.mesh}, {len(self.devices)} devices",
                rule=_("must have a placement for each mesh axis and a device for each place of the mesh"),
                place=_("a layout"),
            )
        if len(set(self.devices)) != len(self.devices):
            raise InputError(value=self.devices, rule=_("must have devices that differ"), place=_("a layout"))
        for dimension in self.placement:
            if dimension != REPLICATED and not 0 <= dimension < len(self.shape):
                raise InputError(
                    value=dimension if dimension < 0 else code((dimension,)),
                    rule=_(
                        "must be a dimension of the shape {shape} or {replicated} for replicated",
                        shape=self.shape,
                        replicated=REPLICATED,
                    ),
                    place=_("a placement of a layout"),
                    remedy=_("reduce partial sums before they are sent") if dimension < REPLICATED else "",
                )

    @cached_property
    def boxes(self) -> dict[int, Box]:
        """The box of the tensor that each device holds."""
        places = product(*(range(size) for size in self.mesh))
        return {device: self._box(place) for device, place in zip(self.devices, places, strict=True)}

    def _box(self, place: tuple[int, ...]) -> Box:
        box = [(0, size) for size in self.shape]
        for index, size, dimension in zip(place, self.mesh, self.placement, strict=True):
            if dimension != REPLICATED:
                box[dimension] = chunk(*box[dimension], size, index)
        return tuple(box)

    def bytes_of(self, box: Box) -> int:
        """Return the bytes of a part of the tensor."""
        return self.item_bytes * volume(box)


def chunk(begin: int, end: int, parts: int, index: int) -> tuple[int, int]:
    """Return part `index` of [begin, end) in parts of ceil((end - begin) / parts), the last ones shorter or empty."""
    size = -(-(end - begin) // parts)
    return min(end, begin + index * size), min(end, begin + (index + 1) * size)


def shape_of(box: Box) -> tuple[int, ...]:
    """Return the shape of a box."""
    return tuple(end - begin for begin, end in box)


def volume(box: Box) -> int:
    """Elements of a box."""
    return math.prod(shape_of(box))


def split(box: Box, parts: int) -> Iterator[Box]:
    """Split a box into at most `parts` of nearly equal size, along the longest dimension."""
    lengths = [end - begin for begin, end in box]
    longest = lengths.index(max(lengths, default=0)) if lengths else 0
    for index in range(parts):
        if not lengths:
            yield box
            return
        begin, end = chunk(*box[longest], parts, index)
        if begin < end:
            yield (*box[:longest], (begin, end), *box[longest + 1 :])
