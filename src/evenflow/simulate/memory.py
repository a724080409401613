"""Live memory: the bytes that a rank holds at every moment, and the few live vectors of which one is its peak.

A stage's activation is held from the start of its forward to the end of its backward or input gradient; a split
backward then holds what the weight gradient needs until that has ended. Which activations are live together follows
from the rank's own order alone, so a memory limit is a few rows linear in the layer counts. Without any backward, an
activation is held during its forward only.

What a layer moves to the host is on the device near its forward and its backward alone (see `copies`). Live vectors
know nothing of first backwards of which less leaves; peaks and curves do. So do they of what a rank sets aside for
others (see `pools`).

A pair goes layer by layer: what its backward keeps goes while what its forward keeps comes, so both together never hold
all of both (see `held_beside`). Live vectors know what is live before and behind a pair, `beside_pairs` the rest.

An action also needs working memory for itself. A rank runs one at a time, so the largest of all its actions is counted,
at every moment: exact with one chunk per rank, whose actions all run where most is live, and never too little.
"""

from bisect import bisect_left
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.model import HostLink
from evenflow.schedule import Op, Schedule
from evenflow.simulate.compiled import for_size
from evenflow.simulate.copies import away, kept_between, weights_of
from evenflow.simulate.costs import Integers, StageCosts
from evenflow.simulate.first_moved import FirstMoved
from evenflow.simulate.kernels import pareto_live
from evenflow.simulate.pools import leaving, maximal, pool_bytes
from evenflow.simulate.timeline import Timeline

Codes = NDArray[Any]


class BesidePairs(NamedTuple):
    """What is live on a rank while a forward runs beside a backward, but for these two."""

    live: Integers
    """Vectors as those of `live_vectors`, shape [num_vectors, as wide]."""
    forward_chunks: Integers
    """Chunk of the forward of each, shape [num_vectors]."""
    backward_chunks: Integers


def live_vectors(
    schedule: Schedule, rank: int, *, host_link: HostLink | None = None, from_backward: int = 0
) -> NDArray[np.int64]:
    """Return the maximal vectors of live microbatches per chunk along `rank`'s order, shape [num_vectors, num_chunks].

    While a forward runs beside a backward more is live (see `beside_pairs`); before and behind that, no more than this.

    Where backwards are split, the shape is [num_vectors, 2 * num_chunks]: microbatches whose activation is held, then
    those that wait for their weight gradient. With a `host_link` come as many for those on the device of which the host
    keeps a part; `from_backward` leaves out the passes whose backwards are among the first so many then.
    """
    if schedule.is_forward_only:
        every = np.eye(schedule.num_chunks, dtype=np.int64)
        return every if host_link is None else np.hstack((every, every))
    if host_link is not None:
        return maximal(_live_during(schedule, rank, host_link, from_backward=from_backward))
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    chunks = schedule.stage_chunks[schedule.stages[span]]
    kernel = for_size(pareto_live, schedule.num_actions)
    ops, chunks = _backwards_first(schedule, rank, schedule.ops[span], chunks)
    capacity = 64
    while True:
        vectors = np.zeros((capacity, schedule.num_chunks * (2 if schedule.splits_backward else 1)), dtype=np.int64)
        count = kernel(ops, chunks, schedule.num_chunks, vectors)
        if count >= 0:
            return vectors[:count]
        capacity *= 4


def _backwards_first(schedule: Schedule, rank: int, *columns: Codes) -> tuple[Codes, ...]:
    """Return columns of a rank's order with the backward of every pair before its forward."""
    forwards = _paired(schedule, rank)
    if not len(forwards):
        return columns
    swapped = tuple(column.copy() for column in columns)
    for column, before in zip(swapped, columns, strict=True):
        column[forwards], column[forwards + 1] = before[forwards + 1], before[forwards]
    return swapped


def _paired(schedule: Schedule, rank: int) -> Integers:
    """Return the places in a rank's order of the forwards that run beside the backward behind them."""
    paired = schedule.paired.astype(np.int64)
    start, end = schedule.rank_starts[rank : rank + 2]
    return paired[(paired >= start) & (paired < end)] - start


def beside_pairs(schedule: Schedule, rank: int) -> BesidePairs:
    """Return what is live beside the forwards and backwards that run beside each other, with the chunks of these.

    Of the same chunks only maximal vectors are there.
    """
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    ops, chunks = schedule.ops[span], schedule.stage_chunks[schedule.stages[span]]
    forwards, num_chunks = _paired(schedule, rank), schedule.num_chunks
    changes = np.zeros((len(ops) + 1, 2, num_chunks), dtype=np.int64)
    places = np.arange(len(ops)) + 1
    for op, (held, waiting) in {Op.F: (1, 0), Op.B: (-1, 0), Op.I: (-1, 1), Op.W: (0, -1)}.items():
        own = ops == op
        changes[places[own], 0, chunks[own]] += held
        changes[places[own], 1, chunks[own]] += waiting
    live = np.cumsum(changes, axis=0)[forwards]
    ahead, back = chunks[forwards], chunks[forwards + 1]
    live[np.arange(len(forwards)), 0, back] -= 1
    vectors = live.reshape(len(forwards), 2 * num_chunks)[:, : num_chunks * (2 if schedule.splits_backward else 1)]
    of_chunks = [np.flatnonzero((ahead == one) & (back == other)) for one, other in np.ndindex(num_chunks, num_chunks)]
    kept = [(maximal(vectors[own]), ahead[own[0]], back[own[0]]) for own in of_chunks if len(own)]
    if not kept:
        return BesidePairs(vectors, ahead.astype(np.int64), back.astype(np.int64))
    sizes = [len(own) for own, _ahead, _back in kept]
    return BesidePairs(
        np.concatenate([own for own, _ahead, _back in kept]),
        *(np.repeat([chunk[index] for chunk in kept], sizes).astype(np.int64) for index in (1, 2)),
    )


def held_amounts(costs: StageCosts, stages: Integers, *, splits_backward: bool) -> Integers:
    """Return the bytes of the stages of a rank for each entry of its live vectors."""
    amounts = [costs.activation_bytes[stages]]
    amounts += [costs.until_weight_bytes[stages]] if splits_backward else []
    amounts += [costs.offloaded_bytes[stages]] if costs.offloaded_bytes is not None else []
    return np.concatenate(amounts)


def kept_as_if_none_left(schedule: Schedule, rank: int, host_link: HostLink) -> int:
    """Return from how many first backwards on that keep all on the device a rank holds as much as if nothing left.

    It is the least number with which, for every live vector of a rank where nothing leaves, as many passes are on the
    device with all that they keep at some time.
    """
    needed, num_chunks = live_vectors(schedule, rank), schedule.num_chunks

    def is_enough(count: int) -> bool:
        first_moved = tuple((0,) * count for _rank in range(schedule.num_ranks))
        live = _live_during(schedule, rank, host_link, first_moved=first_moved)
        whole = np.hstack((live[:, -num_chunks:], live[:, num_chunks:-num_chunks]))  # then what waits for weights
        return all((whole >= vector).all(axis=1).any() for vector in needed)

    return bisect_left(range(len(kept_between(schedule, rank)[0])), True, key=is_enough)


def _live_during(
    schedule: Schedule, rank: int, host_link: HostLink, *, first_moved: FirstMoved = (), from_backward: int = 0
) -> Integers:
    """Return what is live during every action of a rank, shape [num_actions, as wide as live vectors].

    Of backwards of which less leaves than of others, all leaves or, if that is nothing, nothing. The first ones up to
    `from_backward` are left out.
    """
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    ops, chunks = schedule.ops[span], schedule.stage_chunks[schedule.stages[span]]
    size, num_chunks = len(ops), schedule.num_chunks
    parts = [np.zeros((size + 1, num_chunks), dtype=np.int64) for _ in range(3 if schedule.splits_backward else 2)]

    def add(part: Integers, firsts: Integers, lasts: Integers, places: Integers) -> None:
        """Count what is live during the actions from each of `firsts` to the same of `lasts`."""
        np.add.at(part, (firsts, chunks[places]), 1)
        np.add.at(part, (lasts + 1, chunks[places]), -1)

    forwards, backwards = kept_between(schedule, rank)
    counts = np.argsort(np.argsort(backwards)) >= from_backward
    forwards, backwards = forwards[counts], backwards[counts]
    add(parts[0], forwards, backwards, forwards)
    moved = away(schedule, host_link, rank, first_moved=first_moved)
    own = moved.places >= from_backward
    stays = ~np.isin(forwards, moved.forwards)
    add(parts[-1], forwards[stays], backwards[stays], forwards[stays])
    add(parts[-1], moved.forwards[own], moved.lasts[own], moved.forwards[own])
    add(parts[-1], moved.firsts[own], moved.backwards[own], moved.backwards[own])
    if schedule.splits_backward:
        gradients, weights = weights_of(schedule, rank)
        add(parts[1], gradients + 1, weights, gradients)
    return np.cumsum(np.hstack(parts), axis=0)[:size]


def peak_bytes(schedule: Schedule, costs: StageCosts) -> Integers:
    """Return the highest memory of every rank, shape [num_ranks]."""
    peaks = costs.static_bytes + costs.working_bytes + pool_bytes(schedule, costs)
    for rank in range(schedule.num_ranks):
        peaks[rank] += np.cumsum(_changes(schedule, costs, rank)).max(initial=0)
    return peaks


def live_at_peak(schedule: Schedule, costs: StageCosts, rank: int) -> NDArray[np.int64] | NDArray[np.float64]:
    """Return the vector of `live_vectors` with which `rank` holds most.

    Where that is while a forward runs beside a backward, each counts with the share of both that is live. Where less
    leaves of some backwards than of others, all that leaves counts as that of the others.
    """
    stages = schedule.stage_table[:, rank]
    if costs.host_link is not None:
        vectors = live_vectors(schedule, rank, host_link=costs.host_link)
        held = vectors @ held_amounts(costs, stages, splits_backward=schedule.splits_backward)
        return np.asarray(vectors[int(np.argmax(held))])
    if schedule.is_forward_only:
        fullest = int(np.argmax(costs.activation_bytes[stages]))
        return np.array([chunk == fullest for chunk in range(len(stages))], dtype=np.int64)
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    fullest = int(np.argmax(np.cumsum(_changes(schedule, costs, rank))))
    all_chunks = schedule.stage_chunks[schedule.stages[span]]
    ops, chunks = schedule.ops[span][: fullest + 1], all_chunks[: fullest + 1]

    def count(op: Op) -> Integers:
        return np.bincount(chunks[ops == op], minlength=schedule.num_chunks)

    held, waiting = count(Op.F) - count(Op.B) - count(Op.I), count(Op.I) - count(Op.W)
    if costs.pair_bytes is not None and fullest in _paired(schedule, rank):
        both = all_chunks[fullest : fullest + 2]
        of_both = max(1, int(costs.activation_bytes[stages[both]].sum()))
        share = 1 - int(costs.pair_bytes[stages[both[0]], both[1]]) / of_both
        held = held - share * np.bincount(both, minlength=schedule.num_chunks)
    return np.concatenate((held, waiting)) if schedule.splits_backward else held


def memory_curve(timeline: Timeline, costs: StageCosts, rank: int) -> tuple[Integers, Integers]:
    """Return the memory of one rank as steps ``(times_ns, bytes)``; ``bytes[i]`` is held from ``times_ns[i]`` on.

    What it sets aside for others is part of all, working memory of all but the first, so that the highest is the peak.
    """
    schedule = timeline.schedule
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    starts, ends = timeline.start_ns[span], timeline.end_ns[span]
    if schedule.is_forward_only or costs.host_link is not None:
        times = np.stack((starts, ends), axis=1).reshape(-1)
    else:
        times = np.where(schedule.ops[span] == Op.F, starts, ends)
    base = int(costs.static_bytes[rank] + pool_bytes(schedule, costs)[rank])
    held = np.cumsum(_changes(schedule, costs, rank)) + base + costs.working_bytes[rank]
    return np.concatenate(([0], times)), np.concatenate(([base], held))


def memory_changes(schedule: Schedule, costs: StageCosts, actions: slice = slice(None)) -> Integers:
    """Return the bytes that each of the actions takes (at the start of a forward) or frees (at its end).

    `actions` are those of one rank, or all. Without any backward a forward frees again, at its end, what it took; that
    is not in the result. What leaves or comes back meanwhile changes with the action beside it, no sooner and no later
    than with which all that is there has room.
    """
    if costs.host_link is not None and not schedule.is_forward_only:
        pairs = enumerate(pairwise(schedule.rank_starts))
        ranks = [rank for rank, (start, end) in pairs if start < end and actions.start in (None, start)]
        return np.concatenate([_at_one_end(schedule, _changes(schedule, costs, rank), rank) for rank in ranks])
    return _kept_changes(schedule, costs, actions)


def changes_at_both_ends(schedule: Schedule, costs: StageCosts) -> Integers | None:
    """Return what all actions take or free at their starts and at their ends, shape [num_actions, 2].

    None where nothing is moved to the host: then one change for each action says all (see `memory_changes`).
    """
    if costs.host_link is None or costs.offloaded_bytes is None or schedule.is_forward_only:
        return None
    ranks = range(schedule.num_ranks)
    return np.concatenate([_changes(schedule, costs, rank).reshape(-1, 2) for rank in ranks])


def _at_one_end(schedule: Schedule, changes: Integers, rank: int) -> Integers:
    """Return one change for each action of a rank, of `changes` at its start and at its end."""
    is_forward = schedule.ops[schedule.rank_starts[rank] : schedule.rank_starts[rank + 1]] == Op.F
    held = np.cumsum(changes).reshape(-1, 2)
    during, after = held[:, 0], held[:, 1]
    behind, leads = np.append(during[1:], 0), np.append(is_forward[1:], True)
    # A forward changes what is held at its start, and what follows it, if that is none, does so at its end.
    level = np.where(is_forward, np.maximum(during, np.where(leads, 0, behind)), np.where(leads, after, behind))
    return np.diff(level, prepend=0)


def _kept_changes(schedule: Schedule, costs: StageCosts, actions: slice) -> Integers:
    """Return the bytes that the actions take or free, but for what is moved to the host."""
    stages = schedule.stages[actions]
    taken, waiting = costs.activation_bytes[stages], costs.until_weight_bytes[stages]
    changes = np.choose(schedule.ops[actions], (taken, -taken, waiting - taken, -waiting))
    if costs.pair_bytes is not None:
        own = np.zeros(schedule.num_actions, dtype=np.bool_)
        own[schedule.paired] = True
        forwards = np.flatnonzero(own[actions])
        together = costs.pair_bytes[stages[forwards], schedule.stage_chunks[stages[forwards + 1]]]
        changes[forwards] = together - taken[forwards + 1]
        changes[forwards + 1] = taken[forwards] - together
    return changes


def _changes(schedule: Schedule, costs: StageCosts, rank: int) -> Integers:
    """Return the changes of one rank's memory in order.

    There are two for each action, at its start and at its end, where there is no backward or anything is moved to the
    host.
    """
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    changes = _kept_changes(schedule, costs, span)
    if schedule.is_forward_only:
        moved = 0 if costs.offloaded_bytes is None else costs.offloaded_bytes[schedule.stages[span]]
        return np.stack((changes + moved, -changes - moved), axis=1).reshape(-1)
    if costs.host_link is None or costs.offloaded_bytes is None:
        return changes
    is_forward = schedule.ops[span] == Op.F
    at_start, at_end = np.where(is_forward, changes, 0), np.where(is_forward, 0, changes)
    moved = costs.offloaded_bytes[schedule.stages[span]]
    forwards, backwards = kept_between(schedule, rank)
    at_start[forwards] += moved[forwards]
    at_end[backwards] -= moved[backwards]
    own, leaves = leaving(schedule, costs, rank)
    np.add.at(at_end, own.lasts, -leaves)
    np.add.at(at_start, own.firsts, leaves)
    return np.stack((at_start, at_end), axis=1).reshape(-1)
