"""Copies to the host's memory and back: which activations leave, when, and their place in the dependency graph.

What leaves, and during which actions it is on the device, follows from the rank's order alone, as all memory does (see
`HostLink`): during its forward and the actions `behind` it, and from the action `ahead` of its backward on, or less
where there are too few buffers. Of a rank's first backwards less may leave than of all others, or nothing
(`FirstMoved`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.model import HostLink
from evenflow.schedule import NUM_OPS, Op, Schedule
from evenflow.simulate.compiled import for_size
from evenflow.simulate.copy_kernels import STAYS, find_away, insert_copies
from evenflow.simulate.first_moved import FirstMoved
from evenflow.simulate.graph import Graph

Positions = NDArray[np.int64]


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
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    ops = schedule.ops[span]
    by_pass = np.empty((schedule.num_stages, schedule.num_units), dtype=np.int64)
    backwards, lasts, firsts = np.full((3, len(ops)), STAYS, dtype=np.int64)
    if not schedule.is_forward_only:
        buffers = -1 if host_link.buffers is None else host_link.buffers
        for_size(find_away, schedule.num_actions)(
            *(ops, schedule.stages[span], schedule.units[span]),
            *(aheads(host_link, schedule.stage_table), host_link.behind, buffers, by_pass, backwards, lasts, firsts),
        )
    forwards = np.flatnonzero(backwards >= 0)
    places = np.argsort(np.argsort(backwards[forwards]))
    leaves = firsts[forwards] != STAYS
    if first_moved:
        leaves &= ~np.isin(places, np.flatnonzero(np.array(first_moved[rank]) == 0))
    moved = forwards[leaves]
    return Away(
        forwards=moved, backwards=backwards[moved], lasts=lasts[moved], firsts=firsts[moved], places=places[leaves]
    )


def aheads(host_link: HostLink, stage_table: Positions) -> Positions:
    """Return by how many actions the fetches of every stage are ahead, [num_stages].

    `stage_table` [num_chunks, num_ranks] gives the stages of every rank.
    """
    of_stages = np.full(stage_table.size, host_link.ahead, dtype=np.int64)
    if host_link.cell_ahead:
        of_stages[stage_table] = host_link.cell_ahead  # one row stands for all chunks
    return of_stages


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
        *turns_of(forwards, backwards, lasts, firsts, num_actions=count),
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


class CopyTurns(NamedTuple):
    """Which copies actions ask and wait for, by their numbers from 1 on."""

    leaving: Positions
    """The copy to the host behind each action; 0: none."""
    returning: Positions
    """The copy back that each waits for; 0: none."""
    gone: Positions
    """Copies to the host that have ended before each: those from ``gone_starts[action]`` on."""
    gone_starts: Positions
    fetched: Positions
    """Copies back that begin before each, in the same way."""
    fetched_starts: Positions


def turns_of(
    forwards: Positions, backwards: Positions, lasts: Positions, firsts: Positions, *, num_actions: int
) -> CopyTurns:
    """Return the turns of copies among so many actions, at the positions of `Away`."""
    numbers, by_backward = 1 + np.arange(len(forwards)), np.argsort(backwards, kind="stable")
    leaving, returning = np.zeros((2, num_actions), dtype=np.int64)
    leaving[forwards], returning[backwards] = numbers, numbers
    gone = _by_action(lasts + 1, numbers, num_actions)
    fetched = _by_action(firsts[by_backward], numbers[by_backward], num_actions)
    return CopyTurns(leaving, returning, *gone, *fetched)


def _by_action(actions: Positions, numbers: Positions, num_actions: int) -> tuple[Positions, Positions]:
    """Return `numbers` in the order of their actions, and where those of each action begin, [num_actions + 1]."""
    order = np.argsort(actions, kind="stable")
    return numbers[order], np.searchsorted(actions[order], np.arange(num_actions + 1))
