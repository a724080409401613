"""What forwards save beside backwards, and what both hold, for many contents of a rank at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import HalvesTable, Integers, end_bytes
from evenflow.solve.columns.cell_options import CellOptions
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


def whole_pairs(problem: Problem, rank: int) -> Integers:
    """Return live vectors with which a rank holds no less than in its pairs: all of both parts counts."""
    if not problem.beside:
        return problem.live[rank][:0]
    beside = problem.beside[rank]
    whole, places = beside.live.copy(), np.arange(len(beside.live))
    whole[places, beside.forward_chunks] += 1
    whole[places, beside.backward_chunks] += 1
    return whole


def fits_in_pairs(
    problem: Problem, rank: int, options: Sequence[CellOptions], chosen: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return which columns of a rank fit while a forward runs beside a backward, shape [num_columns].

    `chosen` [num_columns, num_chunks] has the option of each of the rank's cells.
    """
    fits = np.ones(len(chosen), dtype=np.bool_)
    if not problem.beside or problem.memory_limit_bytes is None or not len(problem.beside[rank].live):
        return fits
    from evenflow.solve.columns.pair_kernel import fill_fits

    beside, sums = problem.beside[rank], problem.sums
    offsets = np.concatenate(([0], np.cumsum([len(own) for own in options])))
    fill_fits(
        chosen + offsets[:-1],
        np.concatenate([own.starts for own in options]),
        np.concatenate([own.counts for own in options]).astype(np.int64),
        np.stack([np.concatenate([getattr(own, name) for own in options]) for name in problem.held]),
        np.concatenate([own.parameter_bytes for own in options]),
        np.concatenate([own.working_bytes for own in options]),
        np.array(problem.schedule.stage_table[:, rank]),
        beside.live,
        np.stack((beside.forward_chunks, beside.backward_chunks), axis=1),
        *sums.pair_tables,
        end_bytes(problem.network, problem.num_cells),
        sums.releases_attention,
        bool(sums.segments),
        int(problem.limits[rank] - problem.constants[rank]),
        fits,
    )
    return fits
