"""Plans near a solution of the program over parts of layers: its borders rounded, its recomputation chosen anew."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import Integers
from evenflow.solve.problem import Problem
from evenflow.solve.start import fits, recomputing_less, recomputing_most

_SHIFTS = np.linspace(0.05, 0.95, 13)
"""What is added to the borders before the fraction is cut off: all of them go up or down together."""


def rounded_plans(problem: Problem, borders: NDArray[np.float64]) -> list[Integers]:
    """Return the counts [num_cells, num_kinds] of plans that fit, the shortest first."""
    found: dict[tuple[int, ...], tuple[int, Integers]] = {}
    for bounds in _bounds(problem, borders):
        key = tuple(bounds.tolist())
        if key in found or (problem.placement is not None and not problem.placement.allows_all(bounds)):
            continue
        counts = recomputing_most(problem, bounds)
        if fits(problem, counts):
            counts = recomputing_less(problem, counts)
            found[key] = problem.simulate(counts).makespan_ns, counts
    return [counts for _makespan_ns, counts in sorted(found.values(), key=lambda plan: plan[0])]


def _bounds(problem: Problem, borders: NDArray[np.float64]) -> Iterator[Integers]:
    """Yield the first layer of each cell and the end of the last, each cell with its least number of layers."""
    least = problem.min_layers
    for shift in _SHIFTS:
        bounds = np.floor(borders + shift).astype(np.int64)
        bounds[0], bounds[-1] = 0, problem.num_layers
        offsets = np.arange(len(bounds)) * least
        from_left = np.maximum.accumulate(bounds - offsets) + offsets
        from_left[-1] = problem.num_layers
        yield np.minimum.accumulate((from_left - offsets)[::-1])[::-1] + offsets
