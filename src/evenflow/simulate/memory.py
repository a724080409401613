"""Live memory: what a rank holds at every moment, and the few live-activation vectors its peak is among.

An activation is held from the start of its forward to the end of its backward. Which activations are live together
follows from the rank's own order alone, so a memory limit is a few rows linear in the layer counts.
"""

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule.action import Op
from evenflow.schedule.schedule import Schedule
from evenflow.simulate.compiled import for_size
from evenflow.simulate.costs import Integers, StageCosts
from evenflow.simulate.kernels import pareto_live
from evenflow.simulate.timeline import Timeline


def live_vectors(schedule: Schedule, rank: int) -> NDArray[np.int64]:
    """The maximal vectors of live microbatches a chunk along `rank`'s order, shape [num_vectors, num_chunks]."""
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    chunks = schedule.stages[span] // schedule.num_ranks
    kernel = for_size(pareto_live, schedule.num_actions)
    capacity = 64
    while True:
        vectors = np.zeros((capacity, schedule.num_chunks), dtype=np.int64)
        count = kernel(schedule.ops[span], chunks, schedule.num_chunks, vectors)
        if count >= 0:
            return vectors[:count]
        capacity *= 4


def peak_bytes(schedule: Schedule, costs: StageCosts) -> Integers:
    """The highest memory of every rank, shape [num_ranks]."""
    change = np.where(schedule.ops == Op.F, 1, -1) * costs.activation_bytes[schedule.stages]
    peaks = costs.static_bytes.copy()
    for rank in range(schedule.num_ranks):
        live = np.cumsum(change[schedule.rank_starts[rank] : schedule.rank_starts[rank + 1]])
        peaks[rank] += live.max(initial=0)
    return peaks


def memory_curve(timeline: Timeline, costs: StageCosts, rank: int) -> tuple[Integers, Integers]:
    """Memory of one rank as steps: ``(times_ns, bytes)``; ``bytes[i]`` is held from ``times_ns[i]`` on."""
    schedule = timeline.schedule
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    is_forward = schedule.ops[span] == Op.F
    amounts = costs.activation_bytes[schedule.stages[span]]
    times = np.where(is_forward, timeline.start_ns[span], timeline.end_ns[span])
    held = np.cumsum(np.where(is_forward, amounts, -amounts)) + costs.static_bytes[rank]
    return np.concatenate(([0], times)), np.concatenate(([costs.static_bytes[rank]], held))
