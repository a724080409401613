"""Every gap between the actions of a rank by cause, from the runs of `evenflow.simulate.bubbles`.

The gap before an action is there in each of the runs, and grows or shrinks from one to the next. Growth is the
share of the cause that was switched on; where a gap shrinks, the causes before lose, the last of them first. The parts
of a gap are therefore never negative and add up to it.

A gap may also move along the rank without growing: what the next cause seems to add in one place it saves in another.
The parts are therefore shifted between causes until their sums over a rank are those of its `IdleTime`, each gap in
proportion.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.schedule import Schedule
from evenflow.simulate.bubbles import IdleTime, RunsByCause
from evenflow.simulate.costs import Integers
from evenflow.simulate.timeline import Timeline


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class IdleGaps:
    """Gaps by cause, ns, none negative; every array has the shape [num_actions + num_ranks].

    Entry i is the gap before action i on its rank, and entry ``num_actions + r`` what is left of the step behind the
    last action of rank r. The causes add up to `total_ns`, and over a rank to its `IdleTime` where nothing of that is
    negative.
    """

    total_ns: Integers
    fill_drain_ns: Integers
    imbalance_ns: Integers
    recompute_ns: Integers
    communication_ns: Integers
    host_copies_ns: Integers


def gaps_ns(timeline: Timeline) -> Integers:
    """Return the idle time before every action on its rank, then behind the last one of every rank, ns."""
    schedule = timeline.schedule
    starts = np.array(schedule.rank_starts)
    used = starts[1:] > starts[:-1]
    ends_before = np.concatenate(([0], timeline.end_ns))[:-1]
    ends_before[starts[:-1][used]] = 0
    last_ends = np.zeros(schedule.num_ranks, dtype=np.int64)
    last_ends[used] = timeline.end_ns[starts[1:][used] - 1]
    return np.concatenate((timeline.start_ns - ends_before, timeline.makespan_ns - last_ends))


def idle_gaps(runs: RunsByCause, idle: Sequence[IdleTime]) -> IdleGaps:
    """Return the gaps of the real run by cause; `idle` is the idle time of the ranks by the same runs."""
    schedule = runs.real.schedule
    steps = (runs.balanced, runs.plain, runs.recomputing, runs.communicating, runs.real)
    growing = np.stack([gaps_ns(timeline) for timeline in steps])
    parts = np.empty_like(growing)
    for rank, causes in enumerate(idle):
        own = own_gaps(schedule, rank)
        grown = growing[:, own]
        before = np.cumsum(grown[0]) // schedule.num_stages  # rounded along the rank, so that sums stay exact
        grown[0] = np.diff(before, prepend=0)
        sums = (
            causes.fill_drain_ns,
            causes.imbalance_ns,
            causes.recompute_ns,
            causes.communication_ns,
            causes.host_copies_ns,
        )
        parts[:, own] = _with_sums(_parts(grown), _parts(np.cumsum(sums)))
    return IdleGaps(
        total_ns=growing[-1],
        fill_drain_ns=parts[0],
        imbalance_ns=parts[1],
        recompute_ns=parts[2],
        communication_ns=parts[3],
        host_copies_ns=parts[4],
    )


def own_gaps(schedule: Schedule, rank: int) -> Integers:
    """Return the indices of a rank's gaps in the order of time."""
    return np.append(np.arange(*schedule.rank_starts[rank : rank + 2]), schedule.num_actions + rank)


def _parts(growing: Integers) -> Integers:
    """Return what each running sum along the first axis adds that no later sum takes away again.

    >>> _parts(np.array([5, 8, 6, 7]))
    array([5, 1, 0, 1])
    """
    kept = np.minimum.accumulate(growing[::-1])[::-1]
    return np.diff(kept, axis=0, prepend=np.zeros_like(kept[:1]))


def _with_sums(parts: Integers, sums: Integers) -> Integers:
    """Shift `parts` [causes, gaps] between causes until each cause has its sum, without changing any gap's total."""
    parts = parts.copy()
    surplus = parts.sum(axis=1) - sums
    for giver in np.flatnonzero(surplus > 0).tolist():
        for taker in np.flatnonzero(surplus < 0).tolist():
            amount = min(int(surplus[giver]), -int(surplus[taker]))
            shifted = _shares(parts[giver], amount)
            parts[giver] -= shifted
            parts[taker] += shifted
            surplus[giver] -= amount
            surplus[taker] += amount
    return parts


def _shares(values: Integers, amount: int) -> Integers:
    """Return integers of the sum `amount` in proportion to `values`, none of them larger than its value."""
    before = np.cumsum(values)
    total = int(before[-1])
    if not amount:
        return np.zeros_like(values)
    if total.bit_length() + amount.bit_length() > 62:  # products of 64 bits would overflow
        before = before.astype(object)
    taken: Integers = (before * amount // total).astype(np.int64)
    return np.diff(taken, prepend=0)
