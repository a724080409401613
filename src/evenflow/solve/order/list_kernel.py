"""List scheduling: among the actions that are ready and fit, a rank takes the one with the smallest key.

Active schedules as Giffler and Thompson generate them (Operations Research 8, 1960), with memory: an action runs only
if its rank stays within its limit, and if all that is in flight can still be finished, one microbatch after the other.
That test is exact, since microbatches are taken in turn: some action always passes it, and no order gets stuck.

Importing this module imports the compiler; only a search does, when it starts.
"""

from typing import Any, NamedTuple

import numpy as np

from evenflow.schedule import FORWARD, FULL_BACKWARD, INPUT_GRADIENT, NUM_OPS, WEIGHT_GRADIENT
from evenflow.simulate.compiled import compiled
from evenflow.solve.order.copies_kernel import Copies

NEVER = np.iinfo(np.int64).max // 4
"""Time of what cannot begin yet, with room to add durations."""
_UNKNOWN = np.int8(-1)
"""Mark of an action for which it is not known whether it fits."""


class Stages(NamedTuple):
    """The work of a step as arrays (see `Work`)."""

    table: Any
    """Stage of each cell, shape [num_chunks, num_ranks]."""
    chunks: Any
    """Chunk of each stage on its rank."""
    ranks: Any
    """Rank of each stage."""
    durations: Any
    """Durations by ``NUM_OPS * stage + op`` and, behind them, those of pairs (see `pair_class`)."""
    activation: Any
    waiting: Any
    """Bytes per stage that wait between input and weight gradient."""
    splits: Any
    """Whether each stage splits its backwards."""
    room: Any
    """Bytes that each rank may hold."""
    alone: Any
    """Bytes that one microbatch alone needs on each rank (see `Work.alone_bytes`)."""
    gradient_units: Any
    num_units: int
    sequence_splits: int
    messages: Any
    """Time that the input of actions from another rank travels by ``NUM_OPS * stage + op``."""
    has_messages: bool
    pair_classes: Any
    """Class of a forward of each stage beside a backward of each chunk of its rank, 0 where that saves nothing, shape
    [num_stages, num_chunks]; empty where forwards may not run beside backwards."""
    pair_bytes: Any
    """The most that a forward of each stage and the backward of each chunk of its rank hold together, of which list
    scheduling knows nothing: it counts all of both; empty in the same case.
    """
    copies: Copies
    """Copies to the host and back, of which list scheduling knows nothing."""


class DoneActions(NamedTuple):
    """The progress of a schedule under construction, by stage and by rank."""

    forwards: Any
    gradients: Any
    weights: Any
    held: Any
    """Bytes held on each rank."""


@compiled
def _can_finish(rank: int, stages: Stages, done: DoneActions) -> bool:
    """Return whether all in flight can be finished in the memory of the rank, one sequence after the other."""
    num_chunks, parts = len(stages.table), stages.sequence_splits
    first = stages.table[0, rank]
    held = done.held[rank]
    if held > stages.room[rank]:
        return False
    if held + stages.alone[rank] <= stages.room[rank]:
        return True  # there is room for the rest of any of them
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
            rise = stages.waiting[stage] - stages.activation[stage]
            if left and stages.splits[stage] and held + rise > stages.room[rank]:
                return False
            held -= left * stages.activation[stage]
        group += 1
    return True


@compiled
def apply(op: int, stage: int, rank: int, sign: int, stages: Stages, done: DoneActions) -> None:
    """Count an action as done, or with a `sign` of -1 as not done again."""
    if op == FORWARD:
        done.forwards[stage] += sign
        done.held[rank] += sign * stages.activation[stage]
    elif op == WEIGHT_GRADIENT:
        done.weights[stage] += sign
        done.held[rank] -= sign * stages.waiting[stage]
    else:
        done.gradients[stage] += sign
        done.held[rank] -= sign * stages.activation[stage]
        if op == INPUT_GRADIENT:
            done.held[rank] += sign * stages.waiting[stage]


@compiled
def can_run(op: int, stage: int, rank: int, stages: Stages, done: DoneActions) -> bool:
    """Return whether the rank can still finish all in flight after this action."""
    if op in (FULL_BACKWARD, WEIGHT_GRADIENT):
        return True  # only frees
    if op == INPUT_GRADIENT and stages.waiting[stage] <= stages.activation[stage]:
        return True
    apply(op, stage, rank, 1, stages, done)
    fits: bool = _can_finish(rank, stages, done)
    apply(op, stage, rank, -1, stages, done)
    return fits


@compiled
def ready_at(op: int, stage: int, stages: Stages, done: DoneActions, forward_ends: Any, gradient_ends: Any) -> Any:
    """Return when the input of a stage's next action of this kind arrives; NEVER while that is not known."""
    last = len(stages.ranks) - 1
    if op == FORWARD:
        unit = done.forwards[stage]
        if unit == stages.num_units:
            return NEVER
        if stage == 0:
            return 0
        if done.forwards[stage - 1] <= unit:
            return NEVER
        travels = stages.ranks[stage - 1] != stages.ranks[stage]
        return forward_ends[stage - 1, unit] + (stages.messages[NUM_OPS * stage + FORWARD] if travels else 0)
    if op == WEIGHT_GRADIENT:
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
    return gradient_ends[stage + 1, place] + (stages.messages[NUM_OPS * stage + op] if travels else 0)


@compiled
def _starts(
    rank: int,
    free: int,
    stages: Stages,
    done: DoneActions,
    fits: Any,
    forward_ends: Any,
    gradient_ends: Any,
    starts: Any,
) -> Any:
    """Fill `starts` [3, num_chunks] with the earliest starts of the rank's next actions, NEVER where they cannot begin.

    Returns when the first of them would end.
    """
    first_end = NEVER
    for chunk in range(len(stages.table)):
        stage = stages.table[chunk, rank]
        for kind in range(3):
            starts[kind, chunk] = NEVER
            if kind == 2 and not stages.splits[stage]:
                continue
            op = op_of(kind, stages.splits[stage])
            ready = ready_at(op, stage, stages, done, forward_ends, gradient_ends)
            if ready >= NEVER:
                continue
            if fits[kind, stage] == _UNKNOWN:
                fits[kind, stage] = can_run(op, stage, rank, stages, done)
            if fits[kind, stage]:
                starts[kind, chunk] = max(free, ready)
                first_end = min(first_end, starts[kind, chunk] + stages.durations[NUM_OPS * stage + op])
    return first_end


@compiled
def op_of(kind: int, splits: bool) -> int:
    """Return the operation of a kind: 0 forward, 1 gradient, 2 weight gradient."""
    if kind == 0:
        return FORWARD
    if kind == 2:
        return WEIGHT_GRADIENT
    return INPUT_GRADIENT if splits else FULL_BACKWARD


@compiled
def _choose(rank: int, keys: Any, latest: int, starts: Any, stages: Stages, done: DoneActions) -> tuple[int, int]:
    """Return kind and chunk of the action with the smallest key among those that can begin by `latest`."""
    best_key, best_kind, best_chunk = np.inf, -1, -1
    for chunk in range(len(stages.table)):
        stage = stages.table[chunk, rank]
        for kind in range(3):
            if starts[kind, chunk] > latest:
                continue
            place = done.forwards[stage]
            if kind == 1:
                place = done.gradients[stage]
            elif kind == 2:
                place = done.weights[stage]
            if keys[kind, stage, place] < best_key or best_kind < 0:
                best_key, best_kind, best_chunk = keys[kind, stage, place], kind, chunk
    return best_kind, best_chunk


@compiled
def run_action(
    kind: int, stage: int, begin: int, index: int, stages: Stages, done: DoneActions, forward_ends: Any,
    gradient_ends: Any, changed: Any, ops: Any, own_stages: Any, units: Any,
) -> Any:  # fmt: skip
    """Run the next action of a kind on a stage from `begin` on, as number `index` of the order; return its end.

    Marks the ranks as `changed` that this may let begin something else: its own, and the one that gets its result.
    """
    op, rank = op_of(kind, stages.splits[stage]), stages.ranks[stage]
    end = begin + stages.durations[NUM_OPS * stage + op]
    ops[index], own_stages[index] = op, stage
    neighbour = -1
    if kind == 0:
        units[index] = done.forwards[stage]
        forward_ends[stage, done.forwards[stage]] = end
        neighbour = stage + 1 if stage + 1 < len(stages.ranks) else -1
    elif kind == 1:
        units[index] = stages.gradient_units[done.gradients[stage]]
        gradient_ends[stage, done.gradients[stage]] = end
        neighbour = stage - 1
    else:
        units[index] = stages.gradient_units[done.weights[stage]]
    apply(op, stage, rank, 1, stages, done)
    changed[rank] = True
    if neighbour >= 0:
        changed[stages.ranks[neighbour]] = True
    return end


@compiled
def list_schedule(
    keys: Any, patience: float, stages: Stages, rank_starts: Any, ops: Any, own_stages: Any, units: Any
) -> Any:
    """Fill `ops`, `own_stages` and `units` [num_actions] with an order; returns its makespan.

    `keys` [3, num_stages, num_units] are for the n-th forward, gradient and weight gradient of each stage. A rank may
    wait for an action with a smaller key, if that begins within the part `patience` (0 to 1) of the time until the next
    action of any rank could end.
    """
    num_chunks, num_ranks = stages.table.shape
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
    fits = np.full((3, num_stages), _UNKNOWN, dtype=np.int8)
    starts = np.zeros((num_ranks, 3, num_chunks), dtype=np.int64)
    first_ends = np.full(num_ranks, NEVER, dtype=np.int64)
    changed = np.ones(num_ranks, dtype=np.bool_)
    for _ in range(len(ops)):
        rank, first_end = 0, NEVER
        for other in range(num_ranks):
            if changed[other]:
                changed[other] = False
                first_ends[other] = _starts(
                    other, free[other], stages, done, fits, forward_ends, gradient_ends, starts[other]
                )
            if first_ends[other] < first_end:
                rank, first_end = other, first_ends[other]
        earliest = starts[rank].min()
        latest = earliest + np.int64(patience * (first_end - earliest))
        kind, chunk = _choose(rank, keys, latest, starts[rank], stages, done)
        free[rank] = run_action(
            kind, stages.table[chunk, rank], starts[rank, kind, chunk], heads[rank], stages, done,
            forward_ends, gradient_ends, changed, ops, own_stages, units,
        )  # fmt: skip
        heads[rank] += 1
        for chunk in range(num_chunks):
            fits[:, stages.table[chunk, rank]] = _UNKNOWN
    return free.max()
