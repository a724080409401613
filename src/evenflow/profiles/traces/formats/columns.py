"""Columns of integers that grow by batches, since a trace may have millions of kernels."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class IntegerColumns:
    """`width` columns of 64-bit integers."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._batches: list[Integers] = []

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, *columns: Integers | Sequence[int]) -> None:
        """Add rows, given as columns of equal length."""
        if len(columns[0]):
            self._batches.append(np.array(columns, dtype=np.int64))

    def clear(self) -> None:
        """Forget all rows."""
        self._batches.clear()

    def columns(self) -> Integers:
        """Return all rows, shape ``[width, rows]``."""
        return np.concatenate([np.zeros((self._width, 0), dtype=np.int64), *self._batches], axis=1)


def joined(keys: Integers, wanted: Integers) -> tuple[Integers, Integers]:
    """Return the places of equal values in `keys` and in `wanted`; of duplicate keys only one is used."""
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], wanted)
    inside = np.flatnonzero(place < len(keys))
    equal = inside[keys[order[place[inside]]] == wanted[inside]]
    return order[place[equal]], equal
