"""Sparse vectors one behind the other, against their dense forms."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.solve.backends.packed import Packed, appended, empty, single

LENGTH = 6


def dense(packed: Packed) -> list[list[float]]:
    rows = np.zeros((len(packed), LENGTH))
    for vector, (start, end) in enumerate(zip(packed.starts[:-1], packed.starts[1:], strict=True)):
        rows[vector, packed.indices[start:end]] = packed.entries[start:end]
    return rows.tolist()


def test_empty_vectors():
    assert dense(empty(2)) == [[0.0] * LENGTH] * 2


@given(st.lists(st.integers(0, LENGTH - 2), max_size=5), st.integers(1, 9), st.integers(1, 9))
def test_entries_are_appended_behind_every_vector(indices: list[int], entry: int, more: int):
    packed = single(np.array(indices, dtype=np.int64), entry)
    assert len(packed) == len(indices)
    longer = appended(packed, LENGTH - 1, more)
    for row, index in zip(dense(longer), indices, strict=True):
        assert row == [entry if place == index else more if place == LENGTH - 1 else 0 for place in range(LENGTH)]
    assert longer.starts.tolist() == list(range(0, 2 * len(indices) + 1, 2))
