"""The loops of `pair_columns` over columns. Importing it imports the compiler."""

from typing import Any

from evenflow.simulate.compiled import compiled
from evenflow.simulate.kernels import held_beside, saved_beside

_saved_beside = compiled(saved_beside)
_held_beside = compiled(held_beside)


@compiled
def fill_saved(
    starts: Any, sizes: Any, other_starts: Any, other_sizes: Any, types: Any, saved_of: Any, saved: Any
) -> None:
    """Fill `saved` [num_columns]."""
    for column in range(len(starts)):
        saved[column] = _saved_beside(
            types, saved_of, starts[column], sizes[column], other_starts[column], other_sizes[column]
        )


@compiled
def fill_fits(
    chosen: Any,
    starts: Any,
    counts: Any,
    held: Any,
    parameters: Any,
    working: Any,
    cells: Any,
    live: Any,
    pair_chunks: Any,
    until: Any,
    mlp: Any,
    until_back: Any,
    mlp_back: Any,
    ends: Any,
    releases: bool,
    is_whole: bool,
    room: int,
    fits: Any,
) -> None:
    """Clear `fits` [num_columns] of each column that needs more than `room` in a pair.

    Option arrays hold those of the rank's cells one chunk after the other. With `is_whole` a pair holds all of both.
    """
    num_chunks = len(cells)
    for column in range(len(chosen)):
        own = chosen[column]
        static = above = together = 0
        for chunk in range(num_chunks):
            static += parameters[own[chunk]]
            above = max(above, working[own[chunk]])
        ahead = back = -1
        for row in range(len(live)):
            if pair_chunks[row, 0] != ahead or pair_chunks[row, 1] != back:
                ahead, back = pair_chunks[row]
                first, other = own[ahead], own[back]
                together = held[0, first] + held[0, other]
                if not is_whole:
                    together = _held_beside(
                        until, mlp, until_back, mlp_back, ends, releases,
                        cells[ahead], starts[first], counts[first], cells[back], starts[other], counts[other],
                    )  # fmt: skip
            needed = static + above + together
            for part in range(len(held)):
                for chunk in range(num_chunks):
                    needed += live[row, part * num_chunks + chunk] * held[part, own[chunk]]
            if needed > room:
                fits[column] = False
                break
