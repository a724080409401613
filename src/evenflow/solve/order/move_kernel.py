"""Local moves under simulated annealing: an action of a critical path goes earlier or later on its rank.

Only moves that separate neighbours on a rank which both lie on a critical path can shorten the step (van Laarhoven,
Aarts and Lenstra, Operations Research 40, 1992). The exact makespan decides, by the kernels of the simulator.

Importing this module imports the compiler; only a search does, when it starts.
"""

from typing import Any, NamedTuple

import numpy as np

from evenflow.schedule import FORWARD, INPUT_GRADIENT, NUM_OPS, WEIGHT_GRADIENT
from evenflow.simulate.compiled import compiled
from evenflow.simulate.kernels import longest_path, longest_path_with_messages, order_actions
from evenflow.solve.order.list_kernel import Stages

_order_actions = compiled(order_actions)
_NO_PAIRS = np.zeros(0, dtype=np.uint32)
"""Searched orders run one action at a time."""
_longest_path = compiled(longest_path)
_longest_path_with_messages = compiled(longest_path_with_messages)
_STUCK = 1e300
"""Cost of an order in which ranks wait for each other."""
_MEAN_WEIGHT = 0.02
"""Weight of the ranks' mean end beside the makespan: it leads across orders of equal makespan."""
_STOP = 0.3
"""Probability with which a move ends at each place that it reaches."""
_ANYWHERE = 0.1
"""Share of the moves that do not look at the critical path."""


class Order(NamedTuple):
    """The actions of all ranks, one rank after the other (see `Schedule`)."""

    ops: Any
    stages: Any
    units: Any
    held: Any
    """Bytes on the rank after each action begins (a forward) or ends."""


class Room(NamedTuple):
    """Working arrays that the evaluation of an order fills (see `Graph`)."""

    done: Any
    sequence: Any
    dependencies: Any
    rank_predecessors: Any
    classes: Any
    crosses_ranks: Any
    messages: Any
    """Time that the input of each action travels."""
    rank_lasts: Any
    ends: Any
    critical: Any
    """Actions on a critical path that begin when their rank's action before ends."""


@compiled
def _cost(order: Order, stages: Stages, rank_starts: Any, room: Room) -> Any:
    """Return the makespan plus a small part of the mean end; `_STUCK` if ranks wait for each other."""
    room.done[:] = 0
    room.rank_lasts[:] = 0
    placed = _order_actions(
        order.ops, order.stages, order.units, rank_starts, stages.ranks, NUM_OPS, _NO_PAIRS, room.done, room.sequence,
        room.dependencies, room.rank_predecessors, room.classes, room.crosses_ranks, room.rank_lasts,
    )  # fmt: skip
    if placed < len(order.ops):
        return _STUCK
    if stages.has_messages:
        for index in range(len(room.messages)):
            room.messages[index] = stages.messages[room.classes[index]] if room.crosses_ranks[index] else 0
        _longest_path_with_messages(
            room.rank_predecessors, room.dependencies, room.classes, stages.durations, room.messages, room.ends
        )
    else:
        _longest_path(room.rank_predecessors, room.dependencies, room.classes, stages.durations, room.ends)
    ends = room.ends[room.rank_lasts]
    return ends.max() + _MEAN_WEIGHT * ends.mean()


@compiled
def _critical_arcs(stages: Stages, room: Room) -> int:
    """Fill `room.critical` from one critical path, ties broken at random; returns the number of its actions there."""
    position = 0
    for last in room.rank_lasts:
        if room.ends[last] > room.ends[position]:
            position = last
    count = 0
    while position:
        start = room.ends[position] - stages.durations[room.classes[position - 1]]
        if start <= 0:
            break
        before, needed = room.rank_predecessors[position - 1], room.dependencies[position - 1]
        arrival = 0
        if needed:
            message = stages.messages[room.classes[position - 1]] if room.crosses_ranks[position - 1] else 0
            arrival = room.ends[needed] + message
        by_rank = before > 0 and room.ends[before] == start
        if by_rank and (arrival < start or np.random.random() < 0.5):
            room.critical[count] = room.sequence[position - 1]
            count += 1
            position = before
        else:
            position = needed
    return count


@compiled
def _blocked(early: int, late: int, order: Order) -> Any:
    """Return whether two actions of a rank, in this order, may not change places."""
    if order.stages[early] != order.stages[late]:
        return False
    if order.ops[early] == order.ops[late]:
        return True  # microbatches are taken in turn
    return (
        order.ops[late] == WEIGHT_GRADIENT
        and order.units[early] == order.units[late]
        and order.ops[early] == INPUT_GRADIENT
    )


@compiled
def _shift(source: int, target: int, order: Order) -> None:
    """Move an action to another place of its rank and shift those in between by one."""
    op, stage, unit = order.ops[source], order.stages[source], order.units[source]
    step = 1 if target > source else -1
    for index in range(source, target, step):
        order.ops[index] = order.ops[index + step]
        order.stages[index] = order.stages[index + step]
        order.units[index] = order.units[index + step]
    order.ops[target], order.stages[target], order.units[target] = op, stage, unit


@compiled
def hold(first: int, last: int, rank: int, rank_starts: Any, order: Order, stages: Stages) -> bool:
    """Compute `order.held` anew for the actions first…last of a rank; returns whether all of it fits."""
    held = order.held[first - 1] if first > rank_starts[rank] else 0
    fits = True
    for index in range(first, last + 1):
        op, stage = order.ops[index], order.stages[index]
        if op == FORWARD:
            held += stages.activation[stage]
        elif op == WEIGHT_GRADIENT:
            held -= stages.waiting[stage]
        else:
            held -= stages.activation[stage]
            if op == INPUT_GRADIENT:
                held += stages.waiting[stage]
        order.held[index] = held
        fits &= held <= stages.room[rank]
    return fits


@compiled
def anneal(
    seed: int,
    steps: int,
    hot: float,
    cold: float,
    order: Order,
    best: Order,
    best_ns: int,
    stages: Stages,
    rank_starts: Any,
    room: Room,
) -> int:
    """Improve `order` in place for a number of moves; keeps the shortest order in `best` and returns its makespan."""
    np.random.seed(seed)
    num_ranks, count = len(rank_starts) - 1, len(order.ops)
    for rank in range(num_ranks):
        hold(rank_starts[rank], rank_starts[rank + 1] - 1, rank, rank_starts, order, stages)
    cost = _cost(order, stages, rank_starts, room)
    arcs = _critical_arcs(stages, room)
    rank_of = np.zeros(count, dtype=np.int64)
    for rank in range(num_ranks):
        rank_of[rank_starts[rank] : rank_starts[rank + 1]] = rank
    cooling = (cold / hot) ** (1 / max(1, steps))
    temperature = hot
    for _ in range(steps):
        temperature *= cooling
        if arcs == 0 or np.random.random() < _ANYWHERE:
            late = np.random.randint(0, count)
        else:
            late = room.critical[np.random.randint(0, arcs)]
        rank = rank_of[late]
        if late == rank_starts[rank]:
            continue
        forward = np.random.random() < 0.5
        source = late - 1 if forward else late
        target = source
        while True:
            after = target + (1 if forward else -1)
            if after < rank_starts[rank] or after >= rank_starts[rank + 1]:
                break
            if _blocked(source, after, order) if forward else _blocked(after, source, order):
                break
            target = after
            if np.random.random() < _STOP:
                break
        if target == source:
            continue
        low, high = min(source, target), max(source, target)
        _shift(source, target, order)
        if hold(low, high, rank, rank_starts, order, stages):
            candidate = _cost(order, stages, rank_starts, room)
            if candidate <= cost or np.random.random() < np.exp((cost - candidate) / temperature):
                cost = candidate
                arcs = _critical_arcs(stages, room)
                makespan = room.ends[room.rank_lasts].max()
                if makespan < best_ns:
                    best_ns = makespan
                    best.ops[:], best.stages[:], best.units[:] = order.ops, order.stages, order.units
                continue
        _shift(target, source, order)
        hold(low, high, rank, rank_starts, order, stages)
    return best_ns
