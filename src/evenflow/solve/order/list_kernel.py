"""List scheduling: ranks take, among what is ready and fits, the action with the smallest key.

Active schedules as Giffler and Thompson generate them (Operations Research 8, 1960), with memory: an action runs only
if its rank stays within its limit, and if all that is in flight can still be finished, one microbatch after the other.
That test is exact, since microbatches are taken in turn: some action always passes it, and no order gets stuck.

Importing this module imports the compiler; only `search` does, when it starts.
"""

from typing import Any, NamedTuple

import numba
import numpy as np

NEVER = np.iinfo(np.int64).max // 4


class Stages(NamedTuple):
    """`Work` as arrays."""

    table: Any
    """The stage of every cell, shape [num_chunks, num_ranks]."""
    ranks: Any
    """The rank of every stage."""
    durations: Any
    """By ``NUM_OPS * stage + op``."""
    activation: Any
    waiting: Any
    """Bytes between input and weight gradient."""
    splits: Any
    """Whether a stage splits its backwards."""
    room: Any
    """Bytes, by rank."""
    gradient_units: Any
    num_units: int
    sequence_splits: int
    message_ns: int


class Progress(NamedTuple):
    """How far a schedule under construction has come, by stage and by rank."""

    forwards: Any
    gradients: Any
    weights: Any
    held: Any
    """Bytes, by rank."""


@numba.njit(cache=True, nogil=True)
def _can_finish(rank: int, stages: Stages, done: Progress) -> bool:
    """Whether the rank's memory lets everything in flight be finished, one sequence after the other."""
    num_chunks, parts = len(stages.table), stages.sequence_splits
    first = stages.table[0, rank]
    held = done.held[rank]
    if held > stages.room[rank]:
        return False
    for chunk in range(num_chunks):  # what waits for weight gradients can go at once
        stage = stages.table[chunk, rank]
        if stages.splits[stage]:
            held -= (done.gradients[stage] - done.weights[stage]) * stages.waiting[stage]
    group = done.gradients[first] // parts
    while group * parts < done.forwards[first]:
        low, high = group * parts, (group + 1) * parts
        for chunk in range(num_chunks):
            stage = stages.table[chunk, rank]
            held += (high - min(max(done.forwards[stage], low), high)) * stages.activation[stage]
        if held > stages.room[rank]:
            return False
        for chunk in range(num_chunks - 1, -1, -1):
            stage = stages.table[chunk, rank]
            left = high - min(max(done.gradients[stage], low), high)
            if left and stages.splits[stage]:
                if held + stages.waiting[stage] - stages.activation[stage] > stages.room[rank]:
                    return False
            held -= left * stages.activation[stage]
        group += 1
    return True


@numba.njit(cache=True, nogil=True)
def _apply(op: int, stage: int, rank: int, sign: int, stages: Stages, done: Progress) -> None:
    """Count an action, or take it back."""
    if op == 0:
        done.forwards[stage] += sign
        done.held[rank] += sign * stages.activation[stage]
    elif op == 3:
        done.weights[stage] += sign
        done.held[rank] -= sign * stages.waiting[stage]
    else:
        done.gradients[stage] += sign
        done.held[rank] -= sign * stages.activation[stage]
        if op == 2:
            done.held[rank] += sign * stages.waiting[stage]


@numba.njit(cache=True, nogil=True)
def _fits(op: int, stage: int, rank: int, stages: Stages, done: Progress) -> bool:
    if op == 1 or op == 3:
        return True  # only frees
    _apply(op, stage, rank, 1, stages, done)
    fits = _can_finish(rank, stages, done)
    _apply(op, stage, rank, -1, stages, done)
    return fits


@numba.njit(cache=True, nogil=True)
def _ready(op: int, stage: int, stages: Stages, done: Progress, forward_ends: Any, gradient_ends: Any) -> int:
    """When the input of a stage's next action of this kind is there; NEVER while that is not known."""
    last = len(stages.ranks) - 1
    if op == 0:
        unit = done.forwards[stage]
        if unit == stages.num_units:
            return NEVER
        if stage == 0:
            return 0
        if done.forwards[stage - 1] <= unit:
            return NEVER
        travels = stages.ranks[stage - 1] != stages.ranks[stage]
        return forward_ends[stage - 1, unit] + (stages.message_ns if travels else 0)
    if op == 3:
        return 0 if done.weights[stage] < done.gradients[stage] else NEVER
    place = done.gradients[stage]
    if place == stages.num_units:
        return NEVER
    if stage == last:
        unit = stages.gradient_units[place]
        return forward_ends[stage, unit] if unit < done.forwards[stage] else NEVER
    if done.gradients[stage + 1] <= place:
        return NEVER
    travels = stages.ranks[stage + 1] != stages.ranks[stage]
    return gradient_ends[stage + 1, place] + (stages.message_ns if travels else 0)


@numba.njit(cache=True, nogil=True)
def list_schedule(
    keys: Any, patience: float, stages: Stages, rank_starts: Any, ops: Any, own_stages: Any, units: Any
) -> int:
    """Fill `ops`, `own_stages` and `units` [num_actions] with an order; returns its makespan.

    `keys` [3, num_stages, num_units] are those of every stage's n-th forward, gradient and weight gradient. A rank may
    wait for an action with a smaller key, if that begins within the part `patience` (0 to 1) of the time until the next
    action of any rank could end.
    """
    num_chunks, num_ranks = stages.table.shape
    num_stages = len(stages.ranks)
    done = Progress(
        np.zeros(num_stages, dtype=np.int64),
        np.zeros(num_stages, dtype=np.int64),
        np.zeros(num_stages, dtype=np.int64),
        np.zeros(num_ranks, dtype=np.int64),
    )
    forward_ends = np.zeros((num_stages, stages.num_units), dtype=np.int64)
    gradient_ends = np.zeros((num_stages, stages.num_units), dtype=np.int64)
    free = np.zeros(num_ranks, dtype=np.int64)
    heads = rank_starts[:-1].copy()
    allowed = np.zeros((2, num_stages), dtype=np.bool_)
    next_ends = np.full(num_ranks, NEVER, dtype=np.int64)
    for rank in range(num_ranks):
        for chunk in range(num_chunks):
            stage = stages.table[chunk, rank]
            allowed[0, stage] = _fits(0, stage, rank, stages, done)
            allowed[1, stage] = True
    changed = np.ones(num_ranks, dtype=np.bool_)
    for _ in range(len(ops)):
        best_rank, best_end = -1, NEVER
        for rank in range(num_ranks):
            if changed[rank]:
                changed[rank] = False
                next_ends[rank] = NEVER
                for chunk in range(num_chunks):
                    stage = stages.table[chunk, rank]
                    for kind in range(3):
                        if kind == 2 and not stages.splits[stage]:
                            continue
                        if kind < 2 and not allowed[kind, stage]:
                            continue
                        op = 0 if kind == 0 else 3 if kind == 2 else 2 if stages.splits[stage] else 1
                        ready = _ready(op, stage, stages, done, forward_ends, gradient_ends)
                        if ready < NEVER:
                            end = max(free[rank], ready) + stages.durations[4 * stage + op]
                            next_ends[rank] = min(next_ends[rank], end)
            if next_ends[rank] < best_end:
                best_rank, best_end = rank, next_ends[rank]
        if best_rank < 0:
            return NEVER
        rank = best_rank
        earliest = NEVER
        for choosing in range(2):
            latest = earliest + np.int64(patience * (best_end - earliest)) if choosing else NEVER
            best_key, best_op, best_stage, best_start = np.inf, -1, -1, NEVER
            for chunk in range(num_chunks):
                stage = stages.table[chunk, rank]
                for kind in range(3):
                    if kind == 2 and not stages.splits[stage]:
                        continue
                    if kind < 2 and not allowed[kind, stage]:
                        continue
                    op = 0 if kind == 0 else 3 if kind == 2 else 2 if stages.splits[stage] else 1
                    ready = _ready(op, stage, stages, done, forward_ends, gradient_ends)
                    if ready >= NEVER:
                        continue
                    start = max(free[rank], ready)
                    if not choosing:
                        earliest = min(earliest, start)
                    elif start <= latest:
                        place = done.forwards[stage]
                        if kind == 1:
                            place = done.gradients[stage]
                        elif kind == 2:
                            place = done.weights[stage]
                        key = keys[kind, stage, place]
                        if key < best_key or best_op < 0:
                            best_key, best_op, best_stage, best_start = key, op, stage, start
        op, stage, index = best_op, best_stage, heads[rank]
        end = best_start + stages.durations[4 * stage + op]
        ops[index], own_stages[index] = op, stage
        if op == 0:
            units[index] = done.forwards[stage]
            forward_ends[stage, done.forwards[stage]] = end
            if stage + 1 < num_stages:
                changed[stages.ranks[stage + 1]] = True
        elif op == 3:
            units[index] = stages.gradient_units[done.weights[stage]]
        else:
            units[index] = stages.gradient_units[done.gradients[stage]]
            gradient_ends[stage, done.gradients[stage]] = end
            if stage > 0:
                changed[stages.ranks[stage - 1]] = True
        _apply(op, stage, rank, 1, stages, done)
        heads[rank] += 1
        free[rank] = end
        changed[rank] = True
        for chunk in range(num_chunks):
            own = stages.table[chunk, rank]
            allowed[0, own] = _fits(0, own, rank, stages, done)
            allowed[1, own] = _fits(2 if stages.splits[own] else 1, own, rank, stages, done)
    return free.max()
