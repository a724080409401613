"""What forwards save beside backwards, and what both hold, for many contents of a rank at once."""

from typing import Any

import numpy as np

from evenflow.simulate import HalvesTable, Integers, end_bytes
from evenflow.solve.problem import Problem


def saved_by_column(
    starts: Integers, sizes: Integers, other_starts: Integers, other_sizes: Integers, table: HalvesTable
) -> Integers:
    """Return what a forward of the layers from `starts` on saves beside a backward of those from `other_starts` on.

    All have the shape [num_columns], and so has the result (see `saved_beside`).
    """
    # Importing the kernel loads the compiler, which only a proof needs.
    from evenflow.solve.columns.pair_kernel import fill_saved

    saved = np.zeros(len(starts), dtype=np.int64)
    fill_saved(starts, sizes, other_starts, other_sizes, table.types, table.saved_ns, saved)
    return saved


def pair_memory(problem: Problem, rank: int) -> tuple[Any, ...]:
    """Return what tells how much a rank holds while its forwards run beside backwards, for `column_kernel`.

    What is live beside pairs, and the chunks of the forward and the backward of each; the rank's cells; what
    `held_beside` takes of layers and ends; whether a pair holds all of both parts, and whether it never holds more. No
    rows where there are no pairs, or no limit.
    """
    sums, cells = problem.sums, np.array(problem.schedule.stage_table[:, rank], dtype=np.int64)
    live, chunks = problem.live[rank][:0], np.zeros((0, 2), dtype=np.int64)
    if problem.beside and problem.memory_limit_bytes is not None:
        beside = problem.beside[rank]
        live, chunks = beside.live, np.stack((beside.forward_chunks, beside.backward_chunks), axis=1)
    return (
        np.ascontiguousarray(live),
        np.ascontiguousarray(chunks),
        cells,
        *sums.pair_tables,
        end_bytes(problem.network, problem.num_cells),
        sums.releases_attention,
        bool(sums.segments),
        not sums.recomputes_first,
    )
