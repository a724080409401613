"""What every rank contributes to the step: its part of a longest path, and what less work on it alone would save."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from evenflow.schedule import NUM_OPS
from evenflow.simulate.costs import Integers
from evenflow.simulate.simulation import Simulation
from evenflow.simulate.timeline import run

_UNITS_NS = (1_000_000, 1_000, 1)
_LEAST_SHARE = 10
"""Of the work of a rank on a microbatch, at most one part in so many is taken off: more would be another plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathShare:
    """A rank's part of a longest path through the step."""

    path_ns: int
    """Time of its actions on the path."""
    off_ns: int
    """Work that is taken off every microbatch on this rank alone, from all of its actions in proportion."""
    saved_ns: int
    """By how much that makes the step shorter, from a simulation of its own."""


def path_shares(simulation: Simulation) -> tuple[PathShare, ...]:
    """Return the share of every rank; none where forwards run beside backwards, whose time is not that of an action.

    Messages and copies to the host are on the path and on no rank: shares add up to the step only without them.
    """
    timeline, schedule = simulation.timeline, simulation.timeline.schedule
    if schedule.has_pairs:
        return ()
    path = np.array(timeline.critical_path(), dtype=np.int64)
    path_ns = np.zeros(schedule.num_ranks, dtype=np.int64)
    np.add.at(path_ns, schedule.ranks[path], (timeline.end_ns - timeline.start_ns)[path])
    return tuple(
        PathShare(path_ns=own_ns, off_ns=off_ns, saved_ns=saved_ns)
        for own_ns, (off_ns, saved_ns) in zip(path_ns.tolist(), _relieved(simulation), strict=True)
    )


def _relieved(simulation: Simulation) -> Iterator[tuple[int, int]]:
    """Give for every rank what is taken off a microbatch, and what the step is shorter then."""
    timeline, costs = simulation.timeline, simulation.costs
    schedule = timeline.schedule
    classes = np.unique(schedule.stages.astype(np.int64) * NUM_OPS + schedule.ops)
    ranks = np.array(schedule.stage_ranks)[classes // NUM_OPS]
    messages = costs.messages(simulation.communication)
    for rank in range(schedule.num_ranks):
        own = classes[ranks == rank]
        works_ns = costs.durations[own]
        most = int(works_ns.sum()) // _LEAST_SHARE
        off_ns = next((unit for unit in _UNITS_NS if unit <= most), 0)
        durations = costs.durations.copy()
        durations[own] -= _in_proportion(works_ns, off_ns)
        shorter = run(timeline.graph, durations, messages).makespan_ns
        yield off_ns * schedule.sequence_splits, timeline.makespan_ns - shorter


def _in_proportion(values: Integers, amount: int) -> Integers:
    """Return whole numbers in proportion to `values` that add up to `amount`."""
    ends = list(accumulate(values.tolist()))  # whole numbers of any size: their products overflow 64 bits
    return np.diff([end * amount // max(ends[-1], 1) for end in ends], prepend=0)
