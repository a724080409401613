"""Copies to the host's memory and back: which activations leave, when, and their place in the dependency graph.

What leaves, and during which actions it is on the device, follows from the rank's order alone, as all memory does (see
`HostLink`): during its forward and the action behind it, and from the action `ahead` of its backward on, or less where
there are too few buffers. Of a rank's first backwards less may leave than of all others, or nothing (`FirstMoved`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.model import HostLink
from evenflow.schedule import NUM_OPS, Op, Schedule
from evenflow.simulate.compiled import for_size
from evenflow.simulate.first_moved import FirstMoved
from evenflow.simulate.graph import Graph

Positions = NDArray[np.int64]

_LEAVING = 1
"""Actions behind a forward during which what it made leaves."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Away:
    """What leaves a rank and comes back, as positions in its order; arrays have an entry for each."""

    forwards: Positions
    backwards: Positions
    """Its backwards, or input gradients."""
    lasts: Positions
    """The last action behind each forward during which what it made is still on the device."""
    firsts: Positions
    """The first action ahead of each backward during which that is on the device again."""
    places: Positions
    """How many backwards of the rank come before each."""


def away(schedule: Schedule, host_link: HostLink, rank: int, *, first_moved: FirstMoved = ()) -> Away:
    """Return what leaves a rank: all that would be away during an action.

    With a number of buffers, fetches begin so late, and copies to the host are waited for so early, that no more
    microbatches are on the device than that, as far as this is enough. Backwards of which nothing leaves by
    `first_moved` count there as if it did, so that they change no other.
    """
    forwards, backwards = kept_between(schedule, rank)
    if schedule.is_forward_only:
        forwards = backwards = forwards[:0]
    lasts, firsts = forwards + _LEAVING, backwards - host_link.ahead
    leaves = firsts > lasts + 1
    if host_link.buffers is not None:
        size = schedule.rank_starts[rank + 1] - schedule.rank_starts[rank]
        _make_room(forwards, backwards, lasts, firsts, leaves, host_link, size)
    places = np.argsort(np.argsort(backwards))
    if first_moved:
        leaves &= ~np.isin(places, np.flatnonzero(np.array(first_moved[rank]) == 0))
    return Away(
        forwards=forwards[leaves],
        backwards=backwards[leaves],
        lasts=lasts[leaves],
        firsts=firsts[leaves],
        places=places[leaves],
    )


def _make_room(
    forwards: Positions,
    backwards: Positions,
    lasts: Positions,
    firsts: Positions,
    leaves: NDArray[np.bool_],
    host_link: HostLink,
    size: int,
) -> None:
    """Move `firsts` and `lasts`, of what leaves, so that no more is on the device at a time than there are buffers."""
    buffers = host_link.buffers
    assert buffers is not None
    counts = np.zeros(size + 1, dtype=np.int64)
    np.add.at(counts, forwards, 1)
    np.add.at(counts, backwards + 1, -1)
    np.add.at(counts, lasts[leaves] + 1, -1)
    np.add.at(counts, firsts[leaves], 1)
    held = np.cumsum(counts)
    of_forward, of_backward = np.full((2, size + 1), -1, dtype=np.int64)
    of_forward[forwards[leaves]] = of_backward[backwards[leaves]] = np.flatnonzero(leaves)
    for place in np.flatnonzero(held > buffers).tolist():
        over = int(held[place]) - buffers
        for later in range(min(place + host_link.ahead, size), place, -1):  # the fetch that has most time left
            moved = of_backward[later]
            if over > 0 and moved >= 0 and firsts[moved] <= place:
                firsts[moved] = place + 1
                over -= 1
        left = of_forward[place - 1] if place else -1
        if over > 0 and left >= 0:
            lasts[left] = place - 1


def kept_between(schedule: Schedule, rank: int) -> tuple[Positions, Positions]:
    """Return the positions of a rank's forwards in its order, and those of the backward or input gradient of each."""
    return _pairs(schedule, rank, (Op.F,), (Op.B, Op.I))


def weights_of(schedule: Schedule, rank: int) -> tuple[Positions, Positions]:
    """Return the positions of a rank's input gradients in its order, and those of the weight gradient of each."""
    return _pairs(schedule, rank, (Op.I,), (Op.W,))


def _pairs(
    schedule: Schedule, rank: int, first_ops: tuple[Op, ...], second_ops: tuple[Op, ...]
) -> tuple[Positions, Positions]:
    """Return the positions of the first of these actions in a rank's order, and of the second of the same pass.

    That is -1 where there is none.
    """
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    ops = schedule.ops[span]
    keys = schedule.stages[span].astype(np.int64) * schedule.num_units + schedule.units[span]
    firsts, seconds = np.flatnonzero(np.isin(ops, first_ops)), np.flatnonzero(np.isin(ops, second_ops))
    by_key = np.full(schedule.num_stages * schedule.num_units, -1, dtype=np.int64)
    by_key[keys[seconds]] = seconds
    return firsts, by_key[keys[firsts]]


def with_copies(graph: Graph, host_link: HostLink, *, first_moved: FirstMoved = ()) -> Graph:
    """Return `graph` with the copies of all that leaves, on lines of their own beside those of the ranks.

    A copy has the class ``NUM_OPS * num_stages + stage``. Where a rank waits for one there is an action without
    duration, of the class behind these. Those of `first_moved` have classes of their own, behind those of all pairs of
    a forward and a backward, whether there are any or not (see `StageCosts.durations`).
    """
    schedule = graph.schedule
    count = schedule.num_actions
    own = [
        (away(schedule, host_link, rank, first_moved=first_moved), schedule.rank_starts[rank])
        for rank in range(schedule.num_ranks)
    ]
    forwards, backwards, lasts, firsts = (
        np.concatenate([getattr(of_rank, name) + start for of_rank, start in own])
        for name in ("forwards", "backwards", "lasts", "firsts")
    )
    numbers, by_backward = 1 + np.arange(len(forwards)), np.argsort(backwards, kind="stable")
    leaving, returning = np.zeros((2, count), dtype=np.int64)
    leaving[forwards], returning[backwards] = numbers, numbers
    size = count + 4 * len(forwards)
    sequence, rank_predecessors, dependencies, classes, ranks = (np.zeros(size, dtype=np.uint32) for _ in range(5))
    crosses_ranks = np.zeros(size, dtype=np.bool_)
    rank_lasts = np.zeros(schedule.num_ranks, dtype=np.uint32)
    for_size(insert_copies, size)(
        graph.sequence.astype(np.int64),
        graph.dependencies,
        graph.classes,
        graph.crosses_ranks,
        schedule.ranks.astype(np.int64),
        schedule.stages.astype(np.int64),
        leaving,
        returning,
        *by_action(lasts + 1, numbers, count),
        *by_action(firsts[by_backward], numbers[by_backward], count),
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
    if first_moved:
        copies = np.flatnonzero((sequence >= count) & (sequence < count + 2 * len(forwards)))
        own_classes = _first_classes(schedule, first_moved, [of_rank.places for of_rank, _start in own])
        of_copies = own_classes[(sequence[copies] - count) % len(forwards)]
        classes[copies] = np.where(of_copies, of_copies, classes[copies])
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


def first_class(schedule: Schedule) -> int:
    """Return the class of the first copy of which less leaves than its stage says."""
    return NUM_OPS * schedule.num_stages + schedule.num_stages + 1 + schedule.num_stages * schedule.num_chunks


def _first_classes(schedule: Schedule, first_moved: FirstMoved, places: Sequence[Positions]) -> Positions:
    """Return the class of every copy that is of one of `first_moved`, 0 for all others, rank by rank."""
    classes = []
    begin = first_class(schedule)
    for own, of_rank in zip(first_moved, places, strict=True):
        classes.append(np.where(of_rank < len(own), begin + of_rank, 0))
        begin += len(own)
    return np.concatenate(classes)


def by_action(actions: Positions, numbers: Positions, num_actions: int) -> tuple[Positions, Positions]:
    """Return `numbers` in the order of their actions, and where those of each action begin, [num_actions + 1]."""
    order = np.argsort(actions, kind="stable")
    return numbers[order], np.searchsorted(actions[order], np.arange(num_actions + 1))


def insert_copies(
    base: Any,
    base_dependencies: Any,
    base_classes: Any,
    base_crosses: Any,
    action_ranks: Any,
    action_stages: Any,
    leaving: Any,
    returning: Any,
    gone: Any,
    gone_starts: Any,
    fetched: Any,
    fetched_starts: Any,
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

    `leaving` and `returning` [num_actions] have 1 + the number of the copy that an action asks for, or waits for. Those
    of `gone` from ``gone_starts[action]`` on have left before an action, and those of `fetched` begin to come back.
    """
    count, num_copies = len(base), len(gone)
    places = np.zeros(count + 1, dtype=np.int64)
    at_copies = np.zeros((2, num_copies + 1), dtype=np.int64)
    lasts = np.zeros((2, len(rank_lasts)), dtype=np.int64)
    stages = np.zeros(num_copies + 1, dtype=np.int64)
    inward = 0 if one_engine else 1
    placed = 0
    waits = 0
    for index in range(count):
        action = base[index]
        rank = action_ranks[action]
        gone_end, fetched_end = gone_starts[action + 1], fetched_starts[action + 1]
        num_gone, num_fetched = gone_end - gone_starts[action], fetched_end - fetched_starts[action]
        for step in range(num_gone + num_fetched + 3):
            copy = 1
            before = rank_lasts[rank]
            kind = first_class + num_stages
            if step < num_gone:  # the memory of what has left
                copy = gone[gone_starts[action] + step]
                node, dependency = count + 2 * num_copies + waits, at_copies[0, copy]
                waits += 1
            elif step < num_gone + num_fetched:
                copy = fetched[fetched_starts[action] + step - num_gone]
                node, dependency = count + num_copies + copy - 1, before
                before = lasts[inward, rank]
                kind = first_class + stages[copy]
            elif step == num_gone + num_fetched:
                copy = returning[action]
                node, dependency = count + 2 * num_copies + waits, at_copies[1, copy]
                waits += copy > 0
            elif step == num_gone + num_fetched + 1:
                node, dependency = action, places[base_dependencies[index]]
                kind = base_classes[index]
                crosses_ranks[placed] = base_crosses[index]
            else:
                copy = leaving[action]
                node, dependency = count + copy - 1, before
                before = lasts[0, rank]
                kind = first_class + action_stages[action]
                stages[copy] = action_stages[action]
            if copy == 0:
                continue
            sequence[placed], rank_predecessors[placed], dependencies[placed] = node, before, dependency
            classes[placed], ranks[placed] = kind, rank
            placed += 1
            if num_gone <= step < num_gone + num_fetched:
                lasts[inward, rank] = at_copies[1, copy] = placed
            elif step == num_gone + num_fetched + 2:
                lasts[0, rank] = at_copies[0, copy] = placed
            else:
                rank_lasts[rank] = placed
                if step == num_gone + num_fetched + 1:
                    places[index + 1] = placed
