"""Idle time of a step that was measured, split into what is known of it: communication, and waiting.

Before an action whose input is made on another rank, a rank waits until that has ended; what follows until the action
begins is communication. Where it is recorded when each rank communicated, only that counts, and the rest is waiting
too, as for a host that is late:

    rank 0   F3 -----|
    rank 1   |- B1 -|   waiting   | message |  F3 …
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import Schedule

Times = NDArray[np.int64]
Spans = NDArray[np.int64]
"""Starts and ends in ns, shape [2, n]: in order of time, none touching the next."""


def waiting_ns(
    schedule: Schedule,
    start_ns: Times,
    end_ns: Times,
    gaps_ns: Times,
    inputs: Times,
    communication: Sequence[Spans] = (),
) -> Times:
    """Return the part of every gap in which its rank waits, shape [num_actions + num_ranks]; the rest is communication.

    `gaps_ns` are as of `evenflow.simulate.gaps_ns`, `inputs` the action that each one waits for beside its rank's order
    (-1: none), and `communication` when each rank communicated; empty where that is not recorded.
    """
    makespan_ns = int(end_ns.max(initial=0))
    gap_ends = np.concatenate((start_ns, np.full(schedule.num_ranks, makespan_ns)))
    gap_starts = gap_ends - gaps_ns
    ranks = np.concatenate((schedule.ranks, np.arange(schedule.num_ranks)))
    is_sent = (inputs >= 0) & (schedule.ranks[inputs] != schedule.ranks)
    ready = np.concatenate((np.where(is_sent, end_ns[inputs], gap_starts[: len(inputs)]), gap_starts[len(inputs) :]))
    ready = np.clip(ready, gap_starts, gap_ends)
    if not communication:
        has_input = np.concatenate((is_sent, np.zeros(schedule.num_ranks, dtype=bool)))
        return np.where(has_input, ready - gap_starts, gaps_ns)
    communicating = np.zeros_like(gaps_ns)
    for rank, spans in enumerate(communication):
        own = ranks == rank
        communicating[own] = covered_ns(spans, ready[own], gap_ends[own])
    return np.asarray(gaps_ns - communicating)


def covered_ns(spans: Spans, start_ns: Times, end_ns: Times) -> Times:
    """Return how much of each window, from its start to its end, the spans cover.

    >>> covered_ns(np.array([[0, 20], [10, 30]]), np.array([5, 12]), np.array([25, 14])).tolist()
    [10, 0]
    """
    if not spans.shape[1]:
        return np.zeros(len(start_ns), dtype=np.int64)
    sums = np.concatenate(([0], np.cumsum(spans[1] - spans[0])))

    def before(moments: Times) -> Times:
        place = np.searchsorted(spans[0], moments, side="right")
        last = np.maximum(place - 1, 0)
        inside = np.clip(moments - spans[0][last], 0, (spans[1] - spans[0])[last])
        return np.where(place > 0, sums[last] + inside, 0)

    return np.asarray(np.maximum(before(end_ns) - before(start_ns), 0))
