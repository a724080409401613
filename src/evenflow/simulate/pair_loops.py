"""What pairs of a whole plan save and hold, in one loop each. Importing it imports the compiler."""

from typing import Any

from evenflow.simulate.compiled import compiled
from evenflow.simulate.kernels import held_beside, saved_beside

_saved_beside = compiled(saved_beside)
_held_beside = compiled(held_beside)


@compiled
def fill_saved_in_pairs(types: Any, saved_of: Any, stages: Any, starts: Any, sizes: Any, saved: Any) -> None:
    """Fill the rows of one rank's `stages` in `saved` [num_stages, num_chunks] (see `saved_beside`)."""
    for forward in stages:
        for chunk, backward in enumerate(stages):
            saved[forward, chunk] = _saved_beside(
                types, saved_of, starts[forward], sizes[forward], starts[backward], sizes[backward]
            )


@compiled
def fill_held_in_pairs(
    until: Any,
    mlp: Any,
    until_back: Any,
    mlp_back: Any,
    ends: Any,
    releases: bool,
    stage_table: Any,
    starts: Any,
    counts: Any,
    held: Any,
) -> None:
    """Fill `held` [num_stages, num_chunks], of every forward beside each backward of its rank (see `held_beside`)."""
    num_chunks, num_ranks = stage_table.shape
    for rank in range(num_ranks):
        for ahead in range(num_chunks):
            forward = stage_table[ahead, rank]
            for chunk in range(num_chunks):
                backward = stage_table[chunk, rank]
                held[forward, chunk] = _held_beside(
                    until, mlp, until_back, mlp_back, ends, releases,
                    forward, starts[forward], counts[forward], backward, starts[backward], counts[backward],
                )  # fmt: skip
