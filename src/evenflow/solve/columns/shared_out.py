"""A lower bound on the step: the least time in which ranks, each by itself, could share out the network.

For a time, every rank has contents that fit in its memory, keep to the rule of its cells, and are done in that time
(`rank_columns`). Where no choice of one for each rank adds up to the layers of the network, run by run, no plan takes
at most that time. It knows rules that no mixture knows, such as one number of recomputed layers for all cells, and that
layers are whole; of waiting it knows only what a rank waits at its ends.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import Integers
from evenflow.solve.bounds import rank_ramps_ns
from evenflow.solve.columns.cell_options import merged_runs
from evenflow.solve.columns.rank_columns import ColumnGroup, all_options, rank_groups, work_ns
from evenflow.solve.problem import Problem

_MOST_COLUMNS = 400_000
"""Most contents of all ranks together."""
_MOST_SUMS = 200_000
"""Most different numbers of layers by run that some ranks may hold together."""


def shared_out_bound_ns(
    problem: Problem, *, lower_ns: int, upper_ns: int, keep_going: Callable[[], bool] = lambda: True
) -> int:
    """Return a lower bound on the step of every plan, from `lower_ns`, which is one, up to `upper_ns`.

    It is `lower_ns` where there are too many contents, or `keep_going` says no while they are found.
    """
    sizes = np.array([run.count for run in merged_runs(problem)], dtype=np.int64)
    if lower_ns >= upper_ns or np.prod(sizes + 1.0) > _MOST_SUMS:
        return lower_ns
    options = all_options(problem, upper_ns - 1)
    if options is None:
        return upper_ns
    groups = rank_groups(problem, options, upper_ns - 1, most=_MOST_COLUMNS, keep_going=keep_going)
    if groups is None:
        return lower_ns
    if not all(map(len, groups)):
        return upper_ns
    ramps_ns = rank_ramps_ns(problem)
    parts = [
        _Parts.of(group, sizes, work_ns(problem, group) + ramp_ns)
        for group, ramp_ns in zip(groups, ramps_ns, strict=True)
    ]
    low, high = lower_ns, upper_ns
    while low < high:  # all below `low` is refuted; `high` is not, or it is the upper end
        middle = (low + high) // 2
        if _add_up(parts, middle, sizes):
            high = middle
        else:
            low = middle + 1
    return low


class _Parts(NamedTuple):
    """The different numbers of layers that one rank may hold."""

    layers: NDArray[np.int64]
    """By run of equal layers, shape [num_parts, num_runs]."""
    least_ns: NDArray[np.int64]
    """The least step of a rank that holds such contents, with its ramps."""

    @classmethod
    def of(cls, group: ColumnGroup, sizes: Integers, steps_ns: Integers) -> "_Parts":
        layers = layers_by_run(group, sizes)
        may_be = (layers <= sizes).all(axis=1)
        distinct, places = np.unique(layers[may_be], axis=0, return_inverse=True)
        least = np.full(len(distinct), np.iinfo(np.int64).max)
        np.minimum.at(least, places.reshape(-1), steps_ns[may_be])
        return cls(distinct, least)


def _add_up(parts: list[_Parts], target_ns: int, sizes: Integers) -> bool:
    """Return whether a part of each rank, done in this time, can add up to the layers of each run, `sizes`."""
    steps = np.concatenate(([1], np.cumprod(sizes + 1)[:-1]))  # what a layer of each run adds to the number of a sum
    reached = np.zeros(int(np.prod(sizes + 1)), dtype=np.bool_)
    reached[0] = True
    for own in parts:
        before = np.flatnonzero(reached)
        held = before[:, np.newaxis] // steps % (sizes + 1)
        reached = np.zeros_like(reached)
        for more in own.layers[own.least_ns <= target_ns]:
            reached[before[(held + more <= sizes).all(axis=1)] + int(more @ steps)] = True
    return bool(reached[-1])


def layers_by_run(group: ColumnGroup, sizes: Integers) -> NDArray[np.int64]:
    """Return the layers of each column in each run of equal layers, of `sizes`, shape [num_columns, num_runs]."""
    runs = np.arange(len(sizes))
    result = np.zeros((len(group), len(sizes)), dtype=np.int64)
    for at, options in enumerate(group.options):
        first, last = options.first_run[:, np.newaxis], options.last_run[:, np.newaxis]
        of_options = np.where((first < runs) & (runs < last), sizes, 0)
        of_options += np.where(runs == first, options.in_first[:, np.newaxis], 0)
        of_options += np.where(runs == last, options.in_last[:, np.newaxis], 0)
        result += of_options[group.chosen[:, at]]
    return result
