"""A first plan where ranks keep something for others, and what fits on each of them by itself does not fit together.

Every plan ends before all of its work, copies and messages are done one after the other. So the program that decides
whether a plan takes at most that long, whose rows count what ranks set aside, decides whether there is any.
"""

import numpy as np

from evenflow.solve.problem import Problem
from evenflow.solve.proof import Prover, TargetAnswer


def any_plan(problem: Problem, prover: Prover, *, seconds: float) -> TargetAnswer:
    """Return a plan that fits, or that there is none (it is refuted), or neither within `seconds`."""
    return prover.refute(_longest_ns(problem), seconds=seconds)


def _longest_ns(problem: Problem) -> int:
    """Return a time that no plan exceeds: all of it in line on the slowest rank."""
    speed, units = problem.network.speeds[-1], problem.schedule.num_units
    sums, network = problem.sums_at(speed), problem.network_at(speed)
    ends = (network.head, network.tail)
    work_ns = int(sums.forward_ns[-1]) + sum(block.forward_ns + block.backward_ns for block in ends)
    work_ns += int(np.diff(sums.backward_ns, axis=1).max(axis=0).sum())
    if sums.offloaded_bytes is not None:
        moved = int(np.diff(sums.offloaded_bytes, axis=1).max(axis=0).sum())
        work_ns += 2 * (int(moved * problem.copy_ns_per_byte.max()) + problem.num_cells)
    times = problem.border_times_ns
    longest_ns = problem.message_ns if times is None else int(times.max())
    longest_ns += problem.network.longest_link_ns
    return units * (work_ns + 2 * problem.num_cells * longest_ns)
