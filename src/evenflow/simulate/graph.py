"""The dependency graph of a schedule in the order in which it can be evaluated in one pass."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import ScheduleError
from evenflow.schedule.action import NUM_OPS
from evenflow.schedule.grid import fault_grid
from evenflow.schedule.schedule import Schedule
from evenflow.simulate.compiled import for_size
from evenflow.simulate.kernels import order_actions

Indices = NDArray[np.int32]


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """Actions in topological order. Position 0 stands for time zero, positions 1… for the actions."""

    schedule: Schedule
    sequence: Indices
    """Action index (as in the schedule's arrays) at each position, shape [num_actions]."""
    rank_predecessors: Indices
    """Position of the action before on the same rank (0: none), shape [num_actions]."""
    dependencies: Indices
    """Position of the action on a neighbouring stage that must end first (0: none), shape [num_actions]."""
    classes: Indices
    """Index into a duration table: ``NUM_OPS * stage + op``, shape [num_actions]."""
    crosses_ranks: NDArray[np.bool_]
    """Whether the dependency is on another rank, shape [num_actions]."""


def build_graph(schedule: Schedule) -> Graph:
    """The graph of a complete schedule; raises ScheduleError with the grid when the order can never finish."""
    count = schedule.num_actions
    sequence = np.empty(count, dtype=np.int32)
    positions = np.empty(count, dtype=np.int32)
    dependencies = np.empty(count, dtype=np.int32)
    last_op = np.zeros((NUM_OPS, schedule.num_stages, schedule.num_units), dtype=np.int32)
    rank_starts = np.array(schedule.rank_starts, dtype=np.int32)
    placed = for_size(order_actions, count)(
        schedule.ops, schedule.stages, schedule.units, rank_starts, schedule.num_stages, schedule.num_units,
        last_op, sequence, positions, dependencies,
    )
    if placed < count:
        done = np.zeros(count, dtype=bool)
        done[sequence[:placed]] = True
        raise ScheduleError(
            value=f"{count - placed} of {count} actions",
            rule="every action can start once the actions before it on its rank and its dependency have ended",
            place=f"schedule {schedule.name}",
            remedy="the ranks below wait for each other",
            grid=fault_grid(schedule, done),
        )
    own_previous = np.zeros(count, dtype=np.int32)
    own_previous[1:] = positions[:-1]
    own_previous[rank_starts[:-1][np.diff(rank_starts) > 0]] = 0
    classes = (schedule.stages * np.int32(NUM_OPS) + schedule.ops)[sequence].astype(np.int32)
    ranks = schedule.ranks
    depends_on = sequence[dependencies - 1]
    crosses = (dependencies > 0) & (ranks[sequence] != ranks[depends_on])
    return Graph(
        schedule=schedule, sequence=sequence, rank_predecessors=own_previous[sequence], dependencies=dependencies,
        classes=classes, crosses_ranks=crosses,
    )
