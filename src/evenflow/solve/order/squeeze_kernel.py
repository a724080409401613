"""Squeezing: each rank runs its forwards and gradients in the order of a pattern, and weight gradients in its gaps.

The times of the pattern decide the order alone; the actions run as early as their inputs and the memory allow, with
their real durations. A rank takes an action before its turn only in the warm-up or the cool-down, and only where the
actions left before it still fit in memory afterwards. [Controllable memory, arXiv:2405.15362, §3.2]

Importing this module imports the compiler; only a search does, when it starts.
"""

from typing import Any

import numpy as np

from evenflow.schedule import NUM_OPS, WEIGHT_GRADIENT
from evenflow.simulate.compiled import compiled
from evenflow.solve.order.list_kernel import NEVER, DoneActions, Stages, can_run, op_of, ready_at, run_action

_NONE = -1


@compiled
def _still_fits(rank: int, kind: int, chunk: int, keys: Any, stages: Stages, done: DoneActions) -> bool:
    """Return whether all that a rank's pattern has before an action fits in memory after this action.

    Weight gradients can always make room, so only what waits for its gradient counts.
    """
    num_chunks = len(stages.table)
    end = keys[kind, stages.table[chunk, rank], _place(kind, stages.table[chunk, rank], done)]
    held = 0
    forwards = np.zeros(num_chunks, dtype=np.int64)
    gradients = np.zeros(num_chunks, dtype=np.int64)
    for other in range(num_chunks):
        stage = stages.table[other, rank]
        forwards[other], gradients[other] = done.forwards[stage], done.gradients[stage]
        held += (forwards[other] - gradients[other]) * stages.activation[stage]
    held += stages.activation[stages.table[chunk, rank]]
    if held > stages.room[rank]:
        return False
    while True:
        best, best_chunk, best_kind = end, _NONE, 0
        for other in range(num_chunks):
            stage = stages.table[other, rank]
            if forwards[other] < stages.num_units and keys[0, stage, forwards[other]] < best:
                best, best_chunk, best_kind = keys[0, stage, forwards[other]], other, 0
            if gradients[other] < stages.num_units and keys[1, stage, gradients[other]] < best:
                best, best_chunk, best_kind = keys[1, stage, gradients[other]], other, 1
        if best_chunk == _NONE:
            return True
        stage = stages.table[best_chunk, rank]
        if best_kind == 0:
            forwards[best_chunk] += 1
            held += stages.activation[stage]
            if held > stages.room[rank]:
                return False
        else:
            gradients[best_chunk] += 1
            held -= stages.activation[stage]


@compiled
def _place(kind: int, stage: int, done: DoneActions) -> Any:
    """Return how many actions of a kind a stage has done."""
    if kind == 0:
        return done.forwards[stage]
    if kind == 1:
        return done.gradients[stage]
    return done.weights[stage]


@compiled
def _next_weight(rank: int, keys: Any, stages: Stages, done: DoneActions) -> int:
    """Return the chunk whose weight gradient has the smallest key among those that could run; _NONE without any."""
    best, best_key = _NONE, np.inf
    for chunk in range(len(stages.table)):
        stage = stages.table[chunk, rank]
        if stages.splits[stage] and done.weights[stage] < done.gradients[stage]:
            key = keys[2, stage, done.weights[stage]]
            if best == _NONE or key < best_key:
                best, best_key = chunk, key
    return best


@compiled
def _decide(
    rank: int,
    free: int,
    gap_share: float,
    early: int,
    keys: Any,
    stages: Stages,
    done: DoneActions,
    forward_ends: Any,
    gradient_ends: Any,
) -> tuple[int, int, int]:
    """Return kind, chunk and start of what the rank does next; the start is NEVER while it waits for others."""
    num_chunks = len(stages.table)
    last = len(stages.ranks) - 1
    weight = _next_weight(rank, keys, stages, done)
    order = np.full(2 * num_chunks, np.inf)
    count = 0
    for chunk in range(num_chunks):
        stage = stages.table[chunk, rank]
        if done.forwards[stage] < stages.num_units:
            order[2 * chunk] = keys[0, stage, done.forwards[stage]]
            count += 1
        if done.gradients[stage] < stages.num_units:
            order[2 * chunk + 1] = keys[1, stage, done.gradients[stage]]
            count += 1
    first_stage = stages.table[0, rank]
    may_take = (early & 1 and done.gradients[first_stage] == 0) or (
        early & 2 and done.forwards[first_stage] == stages.num_units
    )
    wait_kind, wait_chunk, wait_start, gap = _NONE, _NONE, NEVER, NEVER
    is_first = True
    for _ in range(count):
        index = int(np.argmin(order))
        order[index] = np.inf
        chunk, kind = index // 2, index % 2
        stage = stages.table[chunk, rank]
        op = op_of(kind, stages.splits[stage])
        if not can_run(op, stage, rank, stages, done):
            if weight != _NONE and is_first:
                return 2, weight, free  # makes room
            continue
        if not is_first and (kind == 0 and not _still_fits(rank, kind, chunk, keys, stages, done)):
            continue
        ready = ready_at(op, stage, stages, done, forward_ends, gradient_ends)
        if ready <= free:
            return kind, chunk, free
        if is_first or (ready < wait_start):
            wait_kind, wait_chunk, wait_start = kind, chunk, ready
        if is_first and ready >= NEVER:
            # Whatever makes its input has not begun yet, and takes its time.
            before = stage - 1 if kind == 0 else stage + 1
            if 0 <= before <= last:
                gap = stages.durations[NUM_OPS * before + op_of(kind, stages.splits[before])]
                gap += stages.messages[NUM_OPS * stage + op]
            else:
                gap = 0
        elif ready - free < gap:
            gap = ready - free
        is_first = False
        if not may_take:
            break
    if weight != _NONE:
        stage = stages.table[weight, rank]
        if wait_kind == _NONE or gap >= gap_share * stages.durations[NUM_OPS * stage + WEIGHT_GRADIENT]:
            return 2, weight, free
    return wait_kind, wait_chunk, wait_start


@compiled
def squeeze(
    keys: Any, gap_share: float, early: int, stages: Stages, rank_starts: Any, ops: Any, own_stages: Any, units: Any
) -> Any:
    """Fill `ops`, `own_stages` and `units` [num_actions] with an order; returns its makespan.

    `keys` [3, num_stages, num_units] are the times of the pattern for the n-th forward, gradient and weight gradient of
    each stage. A rank that would wait runs a weight gradient instead if the wait is at least the part `gap_share` of
    it. `early` adds 1 where actions may be taken before their turn in the warm-up, and 2 in the cool-down.
    """
    num_ranks = stages.table.shape[1]
    num_stages = len(stages.ranks)
    done = DoneActions(
        np.zeros(num_stages, dtype=np.int64),
        np.zeros(num_stages, dtype=np.int64),
        np.zeros(num_stages, dtype=np.int64),
        np.zeros(num_ranks, dtype=np.int64),
    )
    forward_ends = np.zeros((num_stages, stages.num_units), dtype=np.int64)
    gradient_ends = np.zeros((num_stages, stages.num_units), dtype=np.int64)
    free = np.zeros(num_ranks, dtype=np.int64)
    heads = rank_starts[:-1].copy()
    kinds = np.full(num_ranks, _NONE, dtype=np.int64)
    chunks = np.full(num_ranks, _NONE, dtype=np.int64)
    begins = np.full(num_ranks, NEVER, dtype=np.int64)
    changed = np.ones(num_ranks, dtype=np.bool_)
    for _ in range(len(ops)):
        rank = 0
        for other in range(num_ranks):
            if changed[other]:
                changed[other] = False
                kinds[other], chunks[other], begins[other] = _decide(
                    other, free[other], gap_share, early, keys, stages, done, forward_ends, gradient_ends
                )
            if begins[other] < begins[rank]:
                rank = other
        if begins[rank] >= NEVER:
            return NEVER
        free[rank] = run_action(
            kinds[rank], stages.table[chunks[rank], rank], begins[rank], heads[rank], stages, done,
            forward_ends, gradient_ends, changed, ops, own_stages, units,
        )  # fmt: skip
        heads[rank] += 1
    return free.max()
