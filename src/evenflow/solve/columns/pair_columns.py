"""What forwards save beside backwards, for many contents of a rank at once."""

from typing import Any

import numpy as np

from evenflow.simulate import HalvesTable, Integers
from evenflow.simulate.compiled import compiled


def saved_by_column(
    starts: Integers, sizes: Integers, other_starts: Integers, other_sizes: Integers, table: HalvesTable
) -> Integers:
    """Return what a forward of the layers from `starts` on saves beside a backward of those from `other_starts` on.

    All have the shape [num_columns], and so has the result (see `pair_saved_ns`).
    """
    saved = np.zeros(len(starts), dtype=np.int64)
    compiled(_fill)(starts, sizes, other_starts, other_sizes, table.types, table.saved_ns, saved)
    return saved


def _fill(starts: Any, sizes: Any, other_starts: Any, other_sizes: Any, types: Any, saved_of: Any, saved: Any) -> None:
    for column in range(len(starts)):
        first, last = starts[column], other_starts[column] + other_sizes[column] - 1
        for layer in range(min(sizes[column], other_sizes[column])):
            saved[column] += saved_of[types[first + layer], types[last - layer]]
