"""A lower bound on the step under one order of work, from work and ramps alone; exact integers, within microseconds."""

from itertools import pairwise

import numpy as np

from evenflow.schedule import Op
from evenflow.simulate import Integers
from evenflow.solve.bounds.even_shares import step_work_ns
from evenflow.solve.problem import Problem


def ramp_bound_ns(problem: Problem) -> int:
    """Return a lower bound on the step with any cells: ranks share all of the work, besides their ramps."""
    work = step_work_ns(problem.network, num_units=problem.schedule.num_units)
    return -(-(work + sum(rank_ramps_ns(problem))) // problem.num_ranks)


def rank_ramps_ns(problem: Problem) -> list[int]:
    """Return the ramps of the ranks: the least time before the first action of each and after its last.

    Before a rank's first forward, the stages before its first one run forward; after its last backward or input
    gradient they run backward. A weight gradient at the end of its order has nothing after it.
    """
    ramps = []
    for rank in range(problem.num_ranks):
        fixed, of_layers = _ramp_ns(problem, rank)
        ramps.append(fixed + int(of_layers.min()) * problem.min_layers * int(problem.schedule.stage_table[0, rank]))
    return ramps


def ramps_by_place_ns(problem: Problem, rank: int) -> Integers:
    """Return the ramp of a rank whose first cell begins at each place of the network, shape [num_layers + 1]."""
    fixed, of_layers = _ramp_ns(problem, rank)
    return fixed + np.concatenate(([0], np.cumsum(of_layers)))


def _ramp_ns(problem: Problem, rank: int) -> tuple[int, Integers]:
    """Return the ramp of a rank without body layers, and what each of them adds that is before it, [num_layers]."""
    schedule, layers = problem.schedule, problem.network.layers
    ends = problem.costs(np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64))
    before = int(schedule.stage_table[0, rank])
    crosses = np.array([sender != receiver for sender, receiver in pairwise(schedule.stage_ranks[: before + 1])])
    fixed = int(ends.forward_ns[:before].sum()) + problem.message_ns * int(crosses.sum())
    of_layers = np.array([layer.forward_ns for layer in layers], dtype=np.int64)
    if schedule.ops[schedule.rank_starts[rank + 1] - 1] in (Op.B, Op.I):
        split = int(schedule.splits_backward)
        fixed += int((ends.backward_ns - split * ends.weight_ns)[:before].sum())
        fixed += problem.message_ns * int(crosses.sum())
        of_layers += np.array([layer.backward_ns - split * layer.weight_ns for layer in layers], dtype=np.int64)
    return fixed, of_layers
