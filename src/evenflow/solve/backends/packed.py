"""Sparse rows or columns one behind the other, as solver libraries take them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Packed:
    """Vector i has the entries from ``starts[i]`` to ``starts[i + 1]``."""

    starts: NDArray[np.integer[Any]]
    """One more than there are vectors."""
    indices: NDArray[np.integer[Any]]
    entries: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.starts) - 1


def empty(count: int) -> Packed:
    """`count` vectors without entries."""
    return Packed(starts=np.zeros(count + 1, dtype=np.int64), indices=np.zeros(0, dtype=np.int64), entries=np.zeros(0))


def single(indices: NDArray[np.integer[Any]], entry: float) -> Packed:
    """Vectors of one entry each."""
    return Packed(starts=np.arange(len(indices) + 1), indices=indices, entries=np.full(len(indices), entry))


def appended(packed: Packed, index: int, entry: float) -> Packed:
    """`packed` with one more entry at `index` behind every vector."""
    ends = packed.starts[1:]
    return Packed(
        starts=packed.starts + np.arange(len(packed.starts)),
        indices=np.insert(packed.indices, ends, index),
        entries=np.insert(packed.entries, ends, entry),
    )
