"""A lower bound on the step from links alone, where a rank sends one message at a time."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from evenflow.solve.problem import Problem


def link_bound_ns(problem: Problem) -> int:
    """Return a lower bound on the step with any cells; 0 where messages do not wait for each other."""
    communication = problem.request.communication
    if communication is None or not communication.one_at_a_time:
        return 0
    schedule, latency_ns = problem.schedule, communication.latency_ns
    if schedule.num_ranks == 1:  # which sends nothing
        return 0
    transfers_ns = [int(sent_ns) - latency_ns for sent_ns in problem.shortest_sent_ns]
    busy_ns = busiest_link_ns(schedule.stage_ranks, transfers_ns, goes_back=not schedule.is_forward_only)
    return schedule.num_units * busy_ns + latency_ns


def busiest_link_ns(stage_ranks: Sequence[int], transfers_ns: Sequence[int], *, goes_back: bool) -> int:
    """Return how long the busiest rank sends for one microbatch, where each stage sends on for so long.

    The gradient that comes back takes as long, and is sent by the rank of the next stage.

    >>> busiest_link_ns((0, 1, 0, 1), (5, 5, 5, 5), goes_back=True)
    15
    """
    busy = np.zeros(max(stage_ranks) + 1, dtype=np.int64)
    for (sender, receiver), transfer_ns in zip(pairwise(stage_ranks), transfers_ns, strict=False):
        if sender != receiver:
            busy[sender] += transfer_ns
            busy[receiver] += transfer_ns if goes_back else 0
    return int(busy.max())
