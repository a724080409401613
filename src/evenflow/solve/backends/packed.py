"""Sparse vectors in compressed form, as solver libraries take rows and columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Packed:
    """Sparse vectors: the entries of vector i are those from ``starts[i]`` to ``starts[i + 1]``."""

    starts: NDArray[np.integer[Any]]
    """First entry of each vector and the end of all."""
    indices: NDArray[np.integer[Any]]
    entries: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.starts) - 1


def empty(count: int) -> Packed:
    """Return `count` vectors without entries."""
    return Packed(starts=np.zeros(count + 1, dtype=np.int64), indices=np.zeros(0, dtype=np.int64), entries=np.zeros(0))


def single(indices: NDArray[np.integer[Any]], entry: float) -> Packed:
    """Return vectors that have `entry` at one index each."""
    return Packed(starts=np.arange(len(indices) + 1), indices=indices, entries=np.full(len(indices), entry))


def appended(packed: Packed, index: int, entry: float) -> Packed:
    """Return `packed` with one more entry, at `index`, at the end of each vector."""
    ends = packed.starts[1:]
    return Packed(
        starts=packed.starts + np.arange(len(packed.starts)),
        indices=np.insert(packed.indices, ends, index),
        entries=np.insert(packed.entries, ends, entry),
    )
