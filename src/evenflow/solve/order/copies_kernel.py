"""Copies to the host and back in the search for orders: the memory of a rank with them, and their place in the graph.

What leaves and when follows from each rank's order, by the loops of the simulator (see `evenflow.simulate.copies`).

Importing this module imports the compiler; only a search does, when it starts.
"""

from typing import Any, NamedTuple

import numpy as np

from evenflow.schedule import FORWARD, INPUT_GRADIENT, NUM_OPS, WEIGHT_GRADIENT
from evenflow.simulate.compiled import compiled
from evenflow.simulate.copy_kernels import STAYS, find_away, insert_copies

_find_away = compiled(find_away)
_insert_copies = compiled(insert_copies)


class Copies(NamedTuple):
    """What moves, and the link for it (see `HostLink`)."""

    offloaded: Any
    """Bytes per stage that move; empty where nothing does."""
    one_engine: bool
    aheads: Any
    """Actions by which the fetches of each stage are ahead; empty where nothing moves."""
    behind: int
    buffers: int
    """-1: any number."""


class Order(NamedTuple):
    """The actions of all ranks, one rank after the other (see `Schedule`)."""

    ops: Any
    stages: Any
    units: Any
    held: Any
    """Bytes on the rank after each action begins (a forward) or ends; not kept where anything is copied."""
    pairs: Any
    """Whether each action is a forward beside the backward behind it; empty where none may be."""


class NodeArrays(NamedTuple):
    """Working arrays of a graph (see `Graph`), with an entry for each of its nodes."""

    sequence: Any
    dependencies: Any
    rank_predecessors: Any
    classes: Any
    crosses_ranks: Any
    messages: Any
    """Time that the input of each action travels."""
    ends: Any
    """One entry more: the first is time 0."""
    rank_lasts: Any


class CopyRoom(NamedTuple):
    """Working arrays for copies, with an entry for each action, or one more; empty where nothing is copied."""

    by_pass: Any
    backwards: Any
    lasts: Any
    firsts: Any
    """Positions on the rank (see `find_away`)."""
    at_start: Any
    at_end: Any
    """Bytes that each action takes, or frees if below 0, at its start and at its end."""
    leaving: Any
    returning: Any
    gone: Any
    gone_starts: Any
    fetched: Any
    fetched_starts: Any
    fetched_from: Any
    """Action at whose beginning the fetch of each copy may begin, by its number from 1 on."""
    cursors: Any
    node_ranks: Any
    """Rank of each node of a graph with copies."""


def copy_room(*, num_stages: int, num_units: int, num_actions: int) -> CopyRoom:
    """Return working arrays for copies among so many actions."""
    of_actions = [np.zeros(num_actions, dtype=np.int64) for _ in range(7)]
    lists = [np.zeros(num_actions + 1, dtype=np.int64) for _ in range(6)]
    by_pass = np.zeros((num_stages, num_units), dtype=np.int64)
    node_ranks = np.zeros(most_nodes(num_actions), dtype=np.uint32)
    return CopyRoom(by_pass, *of_actions, *lists, node_ranks)  # type: ignore[call-arg]


def most_nodes(num_actions: int) -> int:
    """Return the most nodes of a graph with copies: four for every forward, at most half of the actions."""
    return num_actions + 4 * (num_actions // 2)


def node_arrays(num_nodes: int, num_ranks: int) -> NodeArrays:
    """Return working arrays for a graph of so many nodes."""
    return NodeArrays(
        *(np.zeros(num_nodes, dtype=np.uint32) for _ in range(4)),  # type: ignore[call-arg]
        np.zeros(num_nodes, dtype=np.bool_),
        np.zeros(num_nodes, dtype=np.int64),
        np.zeros(num_nodes + 1, dtype=np.int64),
        np.zeros(num_ranks, dtype=np.uint32),
    )


@compiled
def hold_with_copies(begin: int, end: int, most: int, order: Order, stages: Any, room: CopyRoom) -> bool:
    """Find what of the rank with the actions [begin, end) is away and when; returns whether it holds at most `most`."""
    copies = stages.copies
    ops, own_stages = order.ops[begin:end], order.stages[begin:end]
    lasts, firsts, backwards = room.lasts[begin:end], room.firsts[begin:end], room.backwards[begin:end]
    _find_away(
        ops, own_stages, order.units[begin:end], copies.aheads, copies.behind, copies.buffers, room.by_pass,
        backwards, lasts, firsts,
    )  # fmt: skip
    at_start, at_end = room.at_start[begin:end], room.at_end[begin:end]
    at_start[:] = 0
    at_end[:] = 0
    for index in range(end - begin):
        op, stage = ops[index], own_stages[index]
        kept, moved, waiting = stages.activation[stage], copies.offloaded[stage], stages.waiting[stage]
        if op == FORWARD:
            at_start[index] += kept + moved
            if firsts[index] != STAYS:
                at_end[lasts[index]] -= moved
                at_start[firsts[index]] += moved
        elif op == WEIGHT_GRADIENT:
            at_end[index] -= waiting
        else:
            at_end[index] -= kept + moved
            if op == INPUT_GRADIENT:
                at_end[index] += waiting
    held = 0
    for index in range(end - begin):
        held += at_start[index]
        if held > most:
            return False
        held += at_end[index]
        if held > most:
            return False
    return True


@compiled
def _number_copies(order: Order, rank_starts: Any, room: CopyRoom) -> int:
    """Number all copies and list them by the actions with which they leave and return; returns how many there are."""
    count = 0
    room.leaving[:] = 0
    room.returning[:] = 0
    room.gone_starts[:] = 0
    room.fetched_starts[:] = 0
    for rank in range(len(rank_starts) - 1):
        begin = rank_starts[rank]
        for index in range(begin, rank_starts[rank + 1]):
            if order.ops[index] == FORWARD and room.firsts[index] != STAYS:
                count += 1
                room.leaving[index] = room.returning[begin + room.backwards[index]] = count
                room.fetched_from[count] = begin + room.firsts[index]
                room.gone_starts[begin + room.lasts[index] + 2] += 1
                room.fetched_starts[begin + room.firsts[index] + 1] += 1
    for index in range(len(order.ops)):
        room.gone_starts[index + 1] += room.gone_starts[index]
        room.fetched_starts[index + 1] += room.fetched_starts[index]
    room.cursors[:] = room.gone_starts
    for rank in range(len(rank_starts) - 1):
        begin = rank_starts[rank]
        for index in range(begin, rank_starts[rank + 1]):
            if room.leaving[index]:
                after = begin + room.lasts[index] + 1
                room.gone[room.cursors[after]] = room.leaving[index]
                room.cursors[after] += 1
    room.cursors[:] = room.fetched_starts
    for index in range(len(order.ops)):
        copy = room.returning[index]
        if copy:
            ahead = room.fetched_from[copy]
            room.fetched[room.cursors[ahead]] = copy
            room.cursors[ahead] += 1
    return count


@compiled
def add_copies(
    order: Order, stages: Any, rank_starts: Any, rank_of: Any, actions: NodeArrays, room: CopyRoom, graph: NodeArrays
) -> int:
    """Fill `graph` with that of `actions` and the copies of all that leaves; returns its number of nodes."""
    count = _number_copies(order, rank_starts, room)
    size: int = len(order.ops) + 4 * count
    graph.crosses_ranks[:size] = False
    graph.rank_lasts[:] = 0
    _insert_copies(
        actions.sequence, actions.dependencies, actions.classes, actions.crosses_ranks, rank_of, order.stages,
        room.leaving, room.returning, room.gone[:count], room.gone_starts, room.fetched[:count], room.fetched_starts,
        stages.copies.one_engine, NUM_OPS * len(stages.ranks), len(stages.ranks), graph.sequence,
        graph.rank_predecessors, graph.dependencies, graph.classes, room.node_ranks, graph.crosses_ranks,
        graph.rank_lasts,
    )  # fmt: skip
    return size
