"""Copies to the host's memory and back: which activations leave, when, and their place in the dependency graph.

What leaves, and during which actions it is on the device, follows from the rank's order alone, as all memory does (see
`HostLink`): during its forward and the action behind it, and from the action `ahead` of its backward on.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.model import HostLink
from evenflow.schedule import NUM_OPS, Op, Schedule
from evenflow.simulate.compiled import for_size
from evenflow.simulate.graph import Graph

Positions = NDArray[np.int64]

_LEAVING = 1
"""Actions behind a forward during which what it made leaves."""


def away(schedule: Schedule, host_link: HostLink, rank: int) -> tuple[Positions, Positions]:
    """Return the forwards of a rank whose activations leave, and their backwards, as positions in its order."""
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    forwards, backwards = kept_between(schedule, rank)
    if schedule.is_forward_only or not len(schedule.ops[span]):
        return forwards[:0], backwards[:0]
    leaves = backwards - host_link.ahead > forwards + _LEAVING + 1
    return forwards[leaves], backwards[leaves]


def kept_between(schedule: Schedule, rank: int) -> tuple[Positions, Positions]:
    """Return the positions of a rank's forwards in its order, and those of the backward or input gradient of each."""
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    ops = schedule.ops[span]
    keys = schedule.stages[span].astype(np.int64) * schedule.num_units + schedule.units[span]
    forwards = np.flatnonzero(ops == Op.F)
    backwards = np.flatnonzero((ops == Op.B) | (ops == Op.I))
    by_key = np.full(schedule.num_stages * schedule.num_units, -1, dtype=np.int64)
    by_key[keys[backwards]] = backwards
    return forwards, by_key[keys[forwards]]


def weights_of(schedule: Schedule, rank: int) -> tuple[Positions, Positions]:
    """Return the positions of a rank's input gradients in its order, and those of the weight gradient of each."""
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    ops = schedule.ops[span]
    keys = schedule.stages[span].astype(np.int64) * schedule.num_units + schedule.units[span]
    gradients, weights = np.flatnonzero(ops == Op.I), np.flatnonzero(ops == Op.W)
    by_key = np.full(schedule.num_stages * schedule.num_units, -1, dtype=np.int64)
    by_key[keys[weights]] = weights
    return gradients, by_key[keys[gradients]]


def on_device(forwards: Positions, backwards: Positions, host_link: HostLink) -> tuple[Positions, Positions]:
    """Return the first and the last positions of the spans in which what leaves is on the device, two for each pair."""
    firsts = np.concatenate((forwards, backwards - host_link.ahead))
    return firsts, np.concatenate((forwards + _LEAVING, backwards))


def with_copies(graph: Graph, host_link: HostLink) -> Graph:
    """Return `graph` with the copies of all that leaves, on lines of their own beside those of the ranks.

    A copy has the class ``NUM_OPS * num_stages + stage``. Where a rank waits for one there is an action without
    duration, of the class behind these.
    """
    schedule = graph.schedule
    count = schedule.num_actions
    pairs = [(*away(schedule, host_link, rank), schedule.rank_starts[rank]) for rank in range(schedule.num_ranks)]
    forwards = np.concatenate([own + start for own, _backwards, start in pairs])
    backwards = np.concatenate([own + start for _forwards, own, start in pairs])
    leaving, returning = np.zeros((2, count), dtype=np.int64)
    leaving[forwards] = returning[backwards] = 1 + np.arange(len(forwards))
    size = count + 4 * len(forwards)
    sequence, rank_predecessors, dependencies, classes, ranks = (np.zeros(size, dtype=np.uint32) for _ in range(5))
    crosses_ranks = np.zeros(size, dtype=np.bool_)
    rank_lasts = np.zeros(schedule.num_ranks, dtype=np.uint32)
    for_size(insert_copies, size)(
        graph.sequence.astype(np.int64),
        graph.dependencies,
        graph.classes,
        graph.crosses_ranks,
        np.array(schedule.rank_starts, dtype=np.int64),
        schedule.ranks.astype(np.int64),
        schedule.stages.astype(np.int64),
        leaving,
        returning,
        len(forwards),
        host_link.ahead,
        host_link.one_engine,
        NUM_OPS * schedule.num_stages,
        schedule.num_stages,
        sequence,
        rank_predecessors,
        dependencies,
        classes,
        ranks,
        crosses_ranks,
        rank_lasts,
    )
    return Graph(
        schedule=schedule,
        sequence=sequence,
        rank_predecessors=rank_predecessors,
        dependencies=dependencies,
        classes=classes,
        crosses_ranks=crosses_ranks,
        rank_lasts=rank_lasts,
        ranks=ranks,
        copied=np.stack((forwards, backwards)),
        without_copies=graph,
    )


def insert_copies(
    base: Any,
    base_dependencies: Any,
    base_classes: Any,
    base_crosses: Any,
    rank_starts: Any,
    action_ranks: Any,
    action_stages: Any,
    leaving: Any,
    returning: Any,
    num_copies: int,
    ahead: int,
    one_engine: bool,
    first_class: int,
    num_stages: int,
    sequence: Any,
    rank_predecessors: Any,
    dependencies: Any,
    classes: Any,
    ranks: Any,
    crosses_ranks: Any,
    rank_lasts: Any,
) -> None:
    """Put copies and the waits for them between the actions of `base`, which are in topological order.

    `leaving` and `returning` [num_actions] have 1 + the number of the copy that an action asks for, or waits for.
    """
    count = len(base)
    places = np.zeros(count + 1, dtype=np.int64)
    at_copies = np.zeros((2, num_copies + 1), dtype=np.int64)
    lasts = np.zeros((2, len(rank_lasts)), dtype=np.int64)
    inward = 0 if one_engine else 1
    placed = 0
    waits = 0
    for index in range(count):
        action = base[index]
        rank = action_ranks[action]
        for step in range(5):
            node = copy = 0
            before = dependency = 0
            kind = first_class + num_stages
            if step == 0:  # the memory of what left with the action before the last
                copy = leaving[action - 2] if action - 2 >= rank_starts[rank] else 0
                node, before, dependency = count + 2 * num_copies + waits, rank_lasts[rank], at_copies[0, copy]
            elif step == 1:
                asks = action + ahead
                copy = returning[asks] if asks < rank_starts[rank + 1] else 0
                if copy > 0:
                    node, before, dependency = count + num_copies + copy - 1, lasts[inward, rank], rank_lasts[rank]
                    kind = first_class + action_stages[asks]
            elif step == 2:
                copy = returning[action]
                node, before, dependency = count + 2 * num_copies + waits, rank_lasts[rank], at_copies[1, copy]
            elif step == 3:
                copy = 1
                node, before, dependency = action, rank_lasts[rank], places[base_dependencies[index]]
                kind = base_classes[index]
                crosses_ranks[placed] = base_crosses[index]
            else:
                copy = leaving[action]
                node, before, dependency = count + copy - 1, lasts[0, rank], rank_lasts[rank]
                kind = first_class + action_stages[action]
            if copy == 0:
                continue
            sequence[placed], rank_predecessors[placed], dependencies[placed] = node, before, dependency
            classes[placed], ranks[placed] = kind, rank
            placed += 1
            if step == 1:
                lasts[inward, rank] = at_copies[1, copy] = placed
            elif step == 4:
                lasts[0, rank] = at_copies[0, copy] = placed
            else:
                rank_lasts[rank] = placed
                if step == 3:
                    places[index + 1] = placed
                else:
                    waits += 1
