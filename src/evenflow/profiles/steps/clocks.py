"""The clocks of ranks, aligned by causality: nothing starts before its input has ended.

Let rank r be shifted by x_r. An action on rank j whose input ended on rank i asks for

    x_j - x_i  >=  end of the input - start of the action  =  w(i, j),  the largest of all such pairs.

The least shifts that are nowhere negative are the longest paths of these differences from a source that reaches every
rank at 0: a rank is moved later, never earlier, and only as far as its inputs ask. Clocks that agree stay as they are.

Where a way around through messages asks for more than it gives (its sum is positive), no shifts exist. Then the same
time is allowed to every message, the smallest for which they do: the largest mean of such a circle [Karp, 1978].
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import Graph

Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifts:
    """How far the clock of each rank is shifted."""

    by_rank_ns: tuple[int, ...]
    early_ns: int
    """Time by which actions may still start before their input has ended."""


def shifts(graph: Graph, start_ns: Times, end_ns: Times) -> Shifts:
    """Return the least shifts for actions that start and end at these times by the clocks of their ranks."""
    ranks = graph.schedule.ranks
    users = graph.sequence[graph.crosses_ranks]
    inputs = graph.sequence[graph.dependencies[graph.crosses_ranks] - 1]
    num_ranks = graph.schedule.num_ranks
    pairs, index = np.unique(ranks[inputs].astype(np.int64) * num_ranks + ranks[users], return_inverse=True)
    gaps = np.full(len(pairs), np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(gaps, index, end_ns[inputs] - start_ns[users])
    sources, theres = np.divmod(pairs, num_ranks)
    early = max(0, _largest_mean(num_ranks, sources, theres, gaps))
    shift_ns = np.zeros(num_ranks, dtype=np.int64)
    while True:
        moved = shift_ns.copy()
        np.maximum.at(moved, theres, shift_ns[sources] + gaps - early)
        if np.array_equal(moved, shift_ns):
            return Shifts(by_rank_ns=tuple(shift_ns.tolist()), early_ns=early)
        shift_ns = moved


def _largest_mean(num_ranks: int, sources: Times, theres: Times, gaps: Times) -> int:
    """Return the largest mean gap of a circle of ranks, rounded up; 0 where there is no circle."""
    unreached = -(2**61)
    walks = np.zeros((num_ranks + 1, num_ranks), dtype=np.int64)  # the longest of each length that end at a rank
    for length in range(num_ranks):
        walks[length + 1] = unreached
        reached = walks[length][sources] > unreached // 2
        np.maximum.at(walks[length + 1], theres[reached], walks[length][sources[reached]] + gaps[reached])
    last = walks[-1]
    is_reached = last > unreached // 2
    if not is_reached.any():
        return 0
    lengths = np.arange(num_ranks, 0, -1, dtype=np.int64)[:, np.newaxis]
    means = -((walks[:-1] - last) // lengths)
    means[walks[:-1] <= unreached // 2] = np.iinfo(np.int64).max
    return int(means.min(axis=0)[is_reached].max())
