"""Local moves under simulated annealing: an action of a critical path goes earlier or later on its rank.

Only moves that separate neighbours on a rank which both lie on a critical path can shorten the step (van Laarhoven,
Aarts and Lenstra, Operations Research 40, 1992). The exact makespan decides, by the kernels of the simulator.

Importing this module imports the compiler; only a search does, when it starts.
"""

from typing import Any, NamedTuple

import numpy as np

from evenflow.schedule import FORWARD, FULL_BACKWARD, INPUT_GRADIENT, NUM_OPS, WEIGHT_GRADIENT
from evenflow.simulate.compiled import compiled
from evenflow.simulate.kernels import longest_path, longest_path_with_messages, order_actions
from evenflow.solve.order.copies_kernel import CopyRoom, NodeArrays, Order, add_copies, hold_with_copies
from evenflow.solve.order.list_kernel import Stages

_order_actions = compiled(order_actions)
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
_PAIRING = 0.3
"""Share of the moves that put a forward beside the backward next to it, or such a pair in turn."""


class Room(NamedTuple):
    """Working arrays that the evaluation of an order without its copies fills."""

    done: Any
    graph: NodeArrays
    critical: Any
    """Actions on a critical path that begin when their rank's action before ends."""
    pair_classes: Any
    """Class of the pair at each forward of one, else 0; empty where there can be none."""
    pairs_before: Any
    """The pairs of the order before a move."""


@compiled
def _own_class(in_order: Any, stage: Any, op: Any, num_classes: int) -> Any:
    """Return the class of an action outside of any pair, from that in an order: those of pairs are beyond the others.

    It takes numbers alone: handing over arrays costs more than all else here.
    """
    return in_order if in_order < num_classes else NUM_OPS * stage + op


@compiled
def _path_cost(graph: NodeArrays, size: int, order: Order, stages: Stages) -> Any:
    """Fill the ends of all nodes of a graph of this size; returns the makespan plus a small part of the mean end."""
    if stages.has_messages:
        for index in range(size):
            graph.messages[index] = 0
            if graph.crosses_ranks[index]:
                action = graph.sequence[index]
                graph.messages[index] = stages.messages[
                    _own_class(graph.classes[index], order.stages[action], order.ops[action], len(stages.messages))
                ]
        _longest_path_with_messages(
            graph.rank_predecessors, graph.dependencies, graph.classes[:size], stages.durations, graph.messages,
            graph.ends,
        )  # fmt: skip
    else:
        _longest_path(graph.rank_predecessors, graph.dependencies, graph.classes[:size], stages.durations, graph.ends)
    ends = graph.ends[graph.rank_lasts]
    return ends.max() + _MEAN_WEIGHT * ends.mean()


@compiled
def _cost(order: Order, stages: Stages, rank_starts: Any, room: Room) -> Any:
    """Return the cost of an order (see `_path_cost`) without its copies; `_STUCK` if ranks wait for each other."""
    graph = room.graph
    room.done[:] = 0
    graph.rank_lasts[:] = 0
    for index in range(len(order.pairs)):
        room.pair_classes[index] = 0
        if order.pairs[index]:
            chunk = stages.chunks[order.stages[index + 1]]
            room.pair_classes[index] = stages.pair_classes[order.stages[index], chunk]
    placed = _order_actions(
        order.ops, order.stages, order.units, rank_starts, stages.ranks, NUM_OPS, room.pair_classes, room.done,
        graph.sequence, graph.dependencies, graph.rank_predecessors, graph.classes, graph.crosses_ranks,
        graph.rank_lasts,
    )  # fmt: skip
    if placed < len(order.ops):
        return _STUCK
    return _path_cost(graph, placed, order, stages)


@compiled
def _cost_with_copies(
    order: Order, stages: Stages, rank_starts: Any, rank_of: Any, room: Room, copies: CopyRoom, graph: NodeArrays
) -> Any:
    """Return the cost of an order (see `_cost`) whose copies `hold_with_copies` has found; fills the whole `graph`."""
    cost = _cost(order, stages, rank_starts, room)
    if cost >= _STUCK:
        return cost
    size = add_copies(order, stages, rank_starts, rank_of, room.graph, copies, graph)
    return _path_cost(graph, size, order, stages)


@compiled
def _critical_arcs(order: Order, stages: Stages, graph: NodeArrays, critical: Any) -> int:
    """Fill `critical` from one critical path, ties broken at random; returns the number of its actions there."""
    position = 0
    for last in graph.rank_lasts:
        if graph.ends[last] > graph.ends[position]:
            position = last
    count = 0
    while position:
        start = graph.ends[position] - stages.durations[graph.classes[position - 1]]
        if start <= 0:
            break
        before, needed = graph.rank_predecessors[position - 1], graph.dependencies[position - 1]
        arrival = 0
        if needed:
            arrival = graph.ends[needed]
            if graph.crosses_ranks[position - 1]:
                action = graph.sequence[position - 1]
                arrival += stages.messages[
                    _own_class(
                        graph.classes[position - 1], order.stages[action], order.ops[action], len(stages.messages)
                    )
                ]
        by_rank = before > 0 and graph.ends[before] == start
        if by_rank and (arrival < start or np.random.random() < 0.5):
            if graph.sequence[position - 1] < len(order.ops):  # no copy, nor a wait for one
                critical[count] = graph.sequence[position - 1]
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
    """Move an action to another place of its rank and shift those in between by one; pairs stay where they were."""
    op, stage, unit = order.ops[source], order.stages[source], order.units[source]
    step = 1 if target > source else -1
    for index in range(source, target, step):
        order.ops[index] = order.ops[index + step]
        order.stages[index] = order.stages[index + step]
        order.units[index] = order.units[index + step]
    order.ops[target], order.stages[target], order.units[target] = op, stage, unit


@compiled
def _may_pair(first: int, last: int, order: Order, stages: Stages) -> Any:
    """Return whether two neighbours of a rank, neither in a pair, can be one that saves time."""
    return (
        order.ops[first] == FORWARD
        and order.ops[last] == FULL_BACKWARD
        and stages.pair_classes[order.stages[first], stages.chunks[order.stages[last]]] > 0
    )


@compiled
def _is_paired(index: int, low: int, order: Order) -> Any:
    """Return whether an action of a rank whose actions begin at `low` is in a pair."""
    return order.pairs[index] or (index > low and order.pairs[index - 1])


@compiled
def _move_pairs(source: int, target: int, low: int, high: int, order: Order, stages: Stages) -> None:
    """Let pairs follow their forwards after `_shift`; the action that moved leaves its pair and parts another.

    It is put beside its new neighbour where that saves time. The rank's actions are those in [low, high).
    """
    pairs = order.pairs
    pairs[source] = False
    if source > low:
        pairs[source - 1] = False
    step = 1 if target > source else -1
    for index in range(source, target, step):
        pairs[index] = pairs[index + step]
    pairs[target] = False
    if target > low:
        pairs[target - 1] = False
    if target > low and not _is_paired(target - 1, low, order) and _may_pair(target - 1, target, order, stages):
        pairs[target - 1] = True
    elif target + 1 < high and not pairs[target + 1] and _may_pair(target, target + 1, order, stages):
        pairs[target] = True


@compiled
def _pair(late: int, low: int, order: Order, stages: Stages) -> bool:
    """Put an action and the one before it beside each other, or in turn again; returns whether they can be.

    A forward changes places with a backward before it. The rank's actions begin at `low`.
    """
    early, pairs = late - 1, order.pairs
    if pairs[early]:
        pairs[early] = False
        return True
    if _is_paired(early, low, order) or pairs[late]:
        return False
    if _may_pair(early, late, order, stages):
        pairs[early] = True
        return True
    if _may_pair(late, early, order, stages):
        _shift(late, early, order)
        pairs[early] = True
        return True
    return False


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
        during = held
        if len(stages.pair_bytes) and len(order.pairs) and order.pairs[index]:
            backward = order.stages[index + 1]
            both = stages.activation[stage] + stages.activation[backward]
            during += stages.pair_bytes[stage, stages.chunks[backward]] - both
        order.held[index] = held
        fits &= during <= stages.room[rank]
    return fits


@compiled
def _place(late: int, begin: int, end: int, order: Order) -> tuple[int, int]:
    """Return an action, the one at `late` or the one before it, and a place of its rank where it may go, at random."""
    forward = np.random.random() < 0.5
    source = late - 1 if forward else late
    target = source
    while True:
        after = target + (1 if forward else -1)
        if after < begin or after >= end:
            break
        if _blocked(source, after, order) if forward else _blocked(after, source, order):
            break
        target = after
        if np.random.random() < _STOP:
            break
    return source, target


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
    copies: CopyRoom,
    copied: NodeArrays,
) -> int:
    """Improve `order` in place for a number of moves; keeps the shortest order in `best` and returns its makespan.

    `copies` and `copied` are working arrays, and empty where nothing is copied to the host.
    """
    np.random.seed(seed)
    num_ranks, count = len(rank_starts) - 1, len(order.ops)
    has_copies = len(stages.copies.offloaded) > 0
    rank_of = np.zeros(count, dtype=np.int64)
    for rank in range(num_ranks):
        begin, end = rank_starts[rank], rank_starts[rank + 1]
        rank_of[begin:end] = rank
        if has_copies:
            hold_with_copies(begin, end, stages.room[rank], order, stages, copies)
        else:
            hold(begin, end - 1, rank, rank_starts, order, stages)
    in_pairs = len(order.pairs) > 0
    graph = copied if has_copies else room.graph
    if has_copies:
        cost = _cost_with_copies(order, stages, rank_starts, rank_of, room, copies, graph)
    else:
        cost = _cost(order, stages, rank_starts, room)
    arcs = _critical_arcs(order, stages, graph, room.critical)
    cooling = (cold / hot) ** (1 / max(1, steps))
    temperature = hot
    for _ in range(steps):
        temperature *= cooling
        if arcs == 0 or np.random.random() < _ANYWHERE:
            late = np.random.randint(0, count)
        else:
            late = room.critical[np.random.randint(0, arcs)]
        rank = rank_of[late]
        begin, end = rank_starts[rank], rank_starts[rank + 1]
        if late == begin:
            continue
        source = target = late
        if in_pairs:
            room.pairs_before[begin:end] = order.pairs[begin:end]
        if in_pairs and np.random.random() < _PAIRING:
            if order.ops[late] == FORWARD:  # it changes places with the backward before it
                target = late - 1
            if not _pair(late, begin, order, stages):
                continue
        else:
            source, target = _place(late, begin, end, order)
            if target == source:
                continue
            _shift(source, target, order)
            if in_pairs:
                _move_pairs(source, target, begin, end, order, stages)
        low, high = (begin, end - 1) if in_pairs else (min(source, target), max(source, target))
        if has_copies:
            fits = hold_with_copies(begin, end, stages.room[rank], order, stages, copies)
        else:
            fits = hold(low, high, rank, rank_starts, order, stages)
        if fits:
            if has_copies:
                candidate = _cost_with_copies(order, stages, rank_starts, rank_of, room, copies, graph)
            else:
                candidate = _cost(order, stages, rank_starts, room)
            if candidate <= cost or np.random.random() < np.exp((cost - candidate) / temperature):
                cost = candidate
                arcs = _critical_arcs(order, stages, graph, room.critical)
                makespan = graph.ends[graph.rank_lasts].max()
                if makespan < best_ns:
                    best_ns = makespan
                    best.ops[:], best.stages[:], best.units[:] = order.ops, order.stages, order.units
                    best.pairs[:] = order.pairs
                continue
        _shift(target, source, order)
        if in_pairs:
            order.pairs[begin:end] = room.pairs_before[begin:end]
        if has_copies:
            hold_with_copies(begin, end, stages.room[rank], order, stages, copies)
        else:
            hold(low, high, rank, rank_starts, order, stages)
    return best_ns
