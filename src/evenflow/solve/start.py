"""A first plan: an even cut that recomputes as much as it can."""

import numpy as np

from evenflow.simulate import Integers
from evenflow.solve.problem import Problem


def even_start(problem: Problem) -> Integers:
    """Return the counts [num_cells, num_kinds] of an even cut, or the fixed one, under the kinds that keep the least.

    They may exceed the memory limit.
    """
    bounds = even_bounds(problem) if problem.fixed_bounds is None else problem.fixed_bounds
    counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
    for cell in range(problem.num_cells):
        kind = _smallest_kind(problem, int(bounds[cell]), int(bounds[cell + 1]))
        counts[cell, kind] = bounds[cell + 1] - bounds[cell]
    return counts


def even_bounds(problem: Problem) -> Integers:
    """Return the first layer of each cell and the end of the last, for cells cut evenly in time from left to right."""
    sums, num_cells, least = problem.sums, problem.num_cells, problem.min_layers
    work = sums.forward_ns + sums.backward_ns[-1]
    network = problem.network
    head = network.head.forward_ns + network.head.backward_ns
    total = head + int(work[-1]) + network.tail.forward_ns + network.tail.backward_ns
    bounds = [0]
    for cell in range(1, num_cells):
        goal = total * cell / num_cells - head
        cut = int(np.searchsorted(work, goal))
        low = bounds[-1] + least
        high = problem.num_layers - (num_cells - cell) * least
        bounds.append(min(max(cut, low), high))
    return np.array([*bounds, problem.num_layers], dtype=np.int64)


def _smallest_kind(problem: Problem, start: int, end: int) -> int:
    """Return the one kind under which the layers [start, end) keep the fewest bytes."""
    activation = problem.sums.activation_bytes
    return int(np.argmin(activation[:, end] - activation[:, start]))
