"""A lower bound on the step under one order of work, from work and ramps alone; exact integers, within microseconds."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from evenflow.schedule import Op
from evenflow.simulate import Integers
from evenflow.solve.bounds.even_shares import step_work_ns
from evenflow.solve.problem import Problem


def ramp_bound_ns(problem: Problem) -> int:
    """Return a lower bound on the step with any cells: ranks share all of the work, besides their ramps.

    Of the work, forwards beside backwards save as much as they can. In a ramp they save nothing: a pair takes no less
    than either of its two.
    """
    work = step_work_ns(problem.network, num_units=problem.schedule.num_units)
    work -= problem.schedule.num_units * int(problem.most_saved_ns(1.0)[-1])
    return -(-(work + sum(rank_ramps_ns(problem))) // problem.num_ranks)


def rank_ramps_ns(problem: Problem) -> list[int]:
    """Return the ramps of the ranks: the least time before the first action of each and after its last.

    Before a rank's first forward, the stages before its first one run forward; after its last backward or input
    gradient they run backward. A weight gradient at the end of its order has nothing after it.
    """
    befores = problem.schedule.stage_table[0].tolist()
    return [
        fixed + int(of_layers.min()) * problem.min_layers * before
        for before, (fixed, of_layers) in zip(befores, _ramps_ns(problem), strict=True)
    ]


def ramps_by_place_ns(problem: Problem) -> list[Integers]:
    """Return the ramp of each rank by the place of the network where its first cell begins, [num_layers + 1] each."""
    return [fixed + np.concatenate(([0], np.cumsum(of_layers))) for fixed, of_layers in _ramps_ns(problem)]


def _ramps_ns(problem: Problem) -> Iterator[tuple[int, Integers]]:
    """Yield the ramp of each rank without body layers, and what each of these adds that is before it, [num_layers]."""
    schedule, layers = problem.schedule, problem.network.layers
    ends = problem.costs(np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64))
    split = int(schedule.splits_backward)
    forwards = np.array([layer.forward_ns for layer in layers], dtype=np.int64)
    gradients = np.array([layer.backward_ns - split * layer.weight_ns for layer in layers], dtype=np.int64)
    crosses = [sender != receiver for sender, receiver in pairwise(schedule.stage_ranks)]
    for rank in range(problem.num_ranks):
        before = int(schedule.stage_table[0, rank])
        messages_ns = problem.message_ns * sum(crosses[:before])
        fixed, of_layers = int(ends.forward_ns[:before].sum()) + messages_ns, forwards
        if schedule.ops[schedule.rank_starts[rank + 1] - 1] in (Op.B, Op.I):
            fixed += int((ends.backward_ns - split * ends.weight_ns)[:before].sum()) + messages_ns
            of_layers = forwards + gradients
        yield fixed, of_layers
