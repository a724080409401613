"""The loop of `pair_columns` over columns. Importing it imports the compiler."""

from typing import Any

from evenflow.simulate.compiled import compiled
from evenflow.simulate.kernels import saved_beside

_saved_beside = compiled(saved_beside)


@compiled
def fill_saved(
    starts: Any, sizes: Any, other_starts: Any, other_sizes: Any, types: Any, saved_of: Any, saved: Any
) -> None:
    """Fill `saved` [num_columns]."""
    for column in range(len(starts)):
        saved[column] = _saved_beside(
            types, saved_of, starts[column], sizes[column], other_starts[column], other_sizes[column]
        )
