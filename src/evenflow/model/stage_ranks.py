"""Placements: the rank of every stage, in the order of the network.

The c-th stage of a rank, counted in that order, is its chunk c, so a stage and its cell ``[chunk][rank]`` follow from
each other. Every rank has equally many stages.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Stages = NDArray[np.int64]


def looped(*, num_ranks: int, num_chunks: int = 1) -> tuple[int, ...]:
    """Return the placement in which every chunk goes through the ranks from first to last.

    >>> looped(num_ranks=3, num_chunks=2)
    (0, 1, 2, 0, 1, 2)
    """
    return tuple(range(num_ranks)) * num_chunks


def v_shaped(*, num_ranks: int) -> tuple[int, ...]:
    """Return the placement of two chunks on a V, the second from the last rank to the first.

    Rank 0 has both ends of the network. [ZB-V, arXiv:2401.10241, §6]

    >>> v_shaped(num_ranks=3)
    (0, 1, 2, 2, 1, 0)
    """
    ranks = tuple(range(num_ranks))
    return ranks + ranks[::-1]


def stage_table(stage_ranks: Sequence[int], *, num_ranks: int) -> Stages:
    """Return the stage of every cell, shape [num_chunks, num_ranks].

    >>> stage_table(v_shaped(num_ranks=3), num_ranks=3).tolist()
    [[0, 1, 2], [5, 4, 3]]
    """
    return np.argsort(np.array(stage_ranks), kind="stable").reshape(num_ranks, -1).T.copy()


def stage_cells(table: Stages) -> list[tuple[int, int]]:
    """Return the chunk and the rank of every stage, from the stage of every cell; the inverse of `stage_table`.

    >>> stage_cells(stage_table(v_shaped(num_ranks=3), num_ranks=3))
    [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]
    """
    return [divmod(int(place), table.shape[1]) for place in np.argsort(table, axis=None)]
