"""Live memory: the bytes that a rank holds at every moment, and the few live vectors of which one is its peak.

A stage's activation is held from the start of its forward to the end of its backward or input gradient; a split
backward then holds what the weight gradient needs until that has ended. Which activations are live together follows
from the rank's own order alone, so a memory limit is a few rows linear in the layer counts. Without any backward, an
activation is held during its forward only.

An action also needs working memory for itself. A rank runs one at a time, so the largest of all its actions is counted,
at every moment: exact with one chunk per rank, whose actions all run where most is live, and never too little.
"""

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import Op, Schedule
from evenflow.simulate.compiled import for_size
from evenflow.simulate.costs import Integers, StageCosts
from evenflow.simulate.kernels import pareto_live
from evenflow.simulate.timeline import Timeline


def live_vectors(schedule: Schedule, rank: int) -> NDArray[np.int64]:
    """Return the maximal vectors of live microbatches per chunk along `rank`'s order, shape [num_vectors, num_chunks].

    Where backwards are split, the shape is [num_vectors, 2 * num_chunks]: microbatches whose activation is held, then
    those that wait for their weight gradient.
    """
    if schedule.is_forward_only:
        return np.eye(schedule.num_chunks, dtype=np.int64)
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    chunks = schedule.stage_chunks[schedule.stages[span]]
    kernel = for_size(pareto_live, schedule.num_actions)
    capacity = 64
    while True:
        vectors = np.zeros((capacity, schedule.num_chunks * (2 if schedule.splits_backward else 1)), dtype=np.int64)
        count = kernel(schedule.ops[span], chunks, schedule.num_chunks, vectors)
        if count >= 0:
            return vectors[:count]
        capacity *= 4


def peak_bytes(schedule: Schedule, costs: StageCosts) -> Integers:
    """Return the highest memory of every rank, shape [num_ranks]."""
    peaks = costs.static_bytes + costs.working_bytes
    for rank in range(schedule.num_ranks):
        peaks[rank] += np.cumsum(_changes(schedule, costs, rank)).max(initial=0)
    return peaks


def live_at_peak(schedule: Schedule, costs: StageCosts, rank: int) -> Integers:
    """Return the vector of `live_vectors` with which `rank` holds most."""
    if schedule.is_forward_only:
        stages = schedule.stage_table[:, rank]
        fullest = int(np.argmax(costs.activation_bytes[stages]))
        return np.array([chunk == fullest for chunk in range(len(stages))], dtype=np.int64)
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    end = int(np.argmax(np.cumsum(_changes(schedule, costs, rank)))) + 1
    ops, chunks = schedule.ops[span][:end], schedule.stage_chunks[schedule.stages[span]][:end]

    def count(op: Op) -> Integers:
        return np.bincount(chunks[ops == op], minlength=schedule.num_chunks)

    held, waiting = count(Op.F) - count(Op.B) - count(Op.I), count(Op.I) - count(Op.W)
    return np.concatenate((held, waiting)) if schedule.splits_backward else held


def memory_curve(timeline: Timeline, costs: StageCosts, rank: int) -> tuple[Integers, Integers]:
    """Return the memory of one rank as steps ``(times_ns, bytes)``; ``bytes[i]`` is held from ``times_ns[i]`` on.

    Working memory is part of all but the first, so that the highest step is the peak.
    """
    schedule = timeline.schedule
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    starts, ends = timeline.start_ns[span], timeline.end_ns[span]
    if schedule.is_forward_only:
        times = np.stack((starts, ends), axis=1).reshape(-1)
    else:
        times = np.where(schedule.ops[span] == Op.F, starts, ends)
    held = np.cumsum(_changes(schedule, costs, rank)) + costs.static_bytes[rank] + costs.working_bytes[rank]
    return np.concatenate(([0], times)), np.concatenate(([costs.static_bytes[rank]], held))


def memory_changes(schedule: Schedule, costs: StageCosts, actions: slice = slice(None)) -> Integers:
    """Return the bytes that each of the actions takes (at the start of a forward) or frees (at its end).

    Without any backward a forward frees again, at its end, what it took; that is not in the result.
    """
    stages = schedule.stages[actions]
    taken, waiting = costs.activation_bytes[stages], costs.until_weight_bytes[stages]
    return np.choose(schedule.ops[actions], (taken, -taken, waiting - taken, -waiting))


def _changes(schedule: Schedule, costs: StageCosts, rank: int) -> Integers:
    """Return the changes of one rank's memory in order, where there is no backward two for each action."""
    changes = memory_changes(schedule, costs, slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1]))
    return np.stack((changes, -changes), axis=1).reshape(-1) if schedule.is_forward_only else changes
