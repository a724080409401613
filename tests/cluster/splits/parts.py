"""Parts of tensors by hand: every device takes its share of an array of indices, one mesh axis after the other."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from evenflow.cluster import Placement, blocks_of, dimension_of

Device = tuple[int, ...]


def devices(mesh_shape: tuple[int, ...]) -> Iterator[Device]:
    return itertools.product(*(range(size) for size in mesh_shape))


def part(indices: NDArray[np.int64], placement: Placement, mesh_shape: tuple[int, ...], device: Device) -> list[int]:
    """The elements of one device, in order. A dimension is first cut at all blocks that the placement names."""
    shape: list[int] = []
    start: dict[int, int] = {}  # split -> dimension of the cut array
    for dimension, size in enumerate(indices.shape):
        cuts = sorted({1} | {blocks_of(one) for one in placement if one >= 0 and dimension_of(one) == dimension})
        for begin, end in itertools.pairwise((*cuts, size)):
            start.update(
                {
                    one: len(shape)
                    for one in placement
                    if one >= 0 and (dimension_of(one), blocks_of(one)) == (dimension, begin)
                }
            )
            shape.append(end // begin)
    own = indices.reshape(shape)
    for axis, where in enumerate(placement):
        if where >= 0:
            own = np.split(own, mesh_shape[axis], axis=start[where])[device[axis]]
    return [int(one) for one in own.flatten()]


def arange(shape: tuple[int, ...]) -> NDArray[np.int64]:
    return np.arange(math.prod(shape)).reshape(shape)
