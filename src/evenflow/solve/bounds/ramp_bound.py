"""A lower bound on the step under one order of work, from work and ramps alone; exact integers, within microseconds."""

from itertools import pairwise

import numpy as np

from evenflow.schedule import Op
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
    schedule, layers = problem.schedule, problem.network.layers
    empty = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
    fixed = problem.costs(empty)
    is_split = schedule.splits_backward
    gradients = [layer.backward_ns - (layer.weight_ns if is_split else 0) for layer in layers]
    forwards = [layer.forward_ns for layer in layers]
    least_forward = min(forwards) * problem.min_layers
    least_both = min(map(sum, zip(forwards, gradients, strict=True))) * problem.min_layers
    message_ns = [problem.message_ns * (sender != receiver) for sender, receiver in pairwise(schedule.stage_ranks)]
    ramps = []
    for rank in range(problem.num_ranks):
        before = range(int(schedule.stage_table[0, rank]))
        ramp = sum(int(fixed.forward_ns[stage]) + message_ns[stage] for stage in before)
        if schedule.ops[schedule.rank_starts[rank + 1] - 1] in (Op.B, Op.I):
            back = fixed.backward_ns - fixed.weight_ns if is_split else fixed.backward_ns
            ramp += sum(int(back[stage]) + message_ns[stage] + least_both for stage in before)
        else:
            ramp += least_forward * len(before)
        ramps.append(ramp)
    return ramps
