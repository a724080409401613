"""The dependency graph of a schedule, in an order in which one pass evaluates it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import ScheduleError
from evenflow.language import _
from evenflow.schedule import NUM_OPS, Op, Schedule, fault_grid
from evenflow.simulate.compiled import for_size
from evenflow.simulate.kernels import order_actions

Indices = NDArray[np.uint32]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """The actions of a schedule in topological order: position 0 stands for time zero, positions 1… for the actions.

    A forward that runs beside a backward takes no time by itself: the position behind it, of the backward, stands for
    both, and what waits for either waits for that one.

    Copies to the host and back (see `evenflow.simulate.copies`), and the waits for them, count as actions behind those
    of the schedule.
    """

    schedule: Schedule
    sequence: Indices
    """Action index (as in the schedule's arrays) at each position, shape [num_actions]."""
    rank_predecessors: Indices
    """Position of the action before it on the same rank (0: none), shape [num_actions]."""
    dependencies: Indices
    """Position of the action on a neighbouring stage, or of the own forward on the last one, that must end first (0:
    none), shape [num_actions].
    """
    classes: Indices
    """Index of each action in a duration table, shape [num_actions]: ``NUM_OPS * stage + op``, or that of a pair (see
    `pair_class`) and, for its forward, `no_time_class`."""
    crosses_ranks: NDArray[np.bool_]
    """Whether the dependency is on another rank, shape [num_actions]."""
    rank_lasts: Indices
    """Position of each rank's last action, shape [num_ranks]."""
    ranks: Indices
    """Rank of the action at each position, shape [num_actions]."""
    copied: NDArray[np.int64] | None = None
    """Forward and backward of each copy, shape [2, num_copies]; None: nothing is copied to the host.

    Copies to the host have the action indices behind those of the schedule, then come those back.
    """
    without_copies: "Graph | None" = None
    """The graph of the schedule's actions alone; None: that is this one."""

    @property
    def of_actions(self) -> "Graph":
        """The graph of the schedule's actions alone."""
        return self.without_copies or self

    @cached_property
    def receivers(self) -> Indices:
        """Position of the action that waits for what each action sends to another rank (0: none), [num_actions]."""
        receivers = np.zeros(len(self.sequence), dtype=np.uint32)
        waiting = np.flatnonzero(self.crosses_ranks)
        receivers[self.dependencies[waiting] - 1] = waiting + 1
        return receivers

    def classes_of(self, actions: Sequence[int]) -> Integers:
        """Return the class of each of the schedule's `actions`."""
        classes = np.empty(len(self.sequence), dtype=np.int64)
        classes[self.sequence] = self.classes
        return np.asarray(classes[actions])

    def message_times(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the time that every input travels, from that to the actions of each class; copies wait for none."""
        classes = self.action_classes
        more = np.zeros(max(0, int(classes.max(initial=0)) + 1 - len(times_ns)), dtype=np.int64)
        return np.asarray(self.crosses_ranks * np.concatenate((times_ns, more))[classes])

    @cached_property
    def action_classes(self) -> Indices:
        """The class that each action has by itself, outside of any pair, shape [num_actions]."""
        schedule = self.schedule
        if not schedule.has_pairs:
            return self.classes
        own = NUM_OPS * schedule.stages + schedule.ops
        return own[self.sequence].astype(np.uint32)

    @cached_property
    def inputs(self) -> NDArray[np.int64]:
        """Action index of what each action waits for beside its rank's order (-1: nothing), shape [num_actions]."""
        inputs = np.full(len(self.sequence), -1, dtype=np.int64)
        waits = self.dependencies > 0
        inputs[self.sequence[waits]] = self.sequence[self.dependencies[waits] - 1]
        if self.schedule.has_pairs:  # what waits for the forward of a pair waits for the end of its backward
            schedule = self.schedule
            of_forwards = (schedule.ops == Op.F) | (schedule.stages == schedule.num_stages - 1)
            waiting = np.flatnonzero(of_forwards & (inputs >= 0))
            inputs[waiting] -= schedule.ops[inputs[waiting]] == Op.B
        return inputs


def no_time_class(num_stages: int) -> int:
    """Return the class of what takes no time, behind those of copies: waits for these, and forwards of pairs."""
    return NUM_OPS * num_stages + num_stages


def pair_class(forward_stage: Integers, backward_chunk: Integers, *, num_stages: int, num_chunks: int) -> Integers:
    """Return the class of a forward of a stage beside a backward of a chunk of the same rank."""
    return no_time_class(num_stages) + 1 + forward_stage * num_chunks + backward_chunk


def pair_classes(schedule: Schedule) -> Indices:
    """Return the class of the pair at every forward that runs beside a backward, else 0; empty without any pairs."""
    if not schedule.has_pairs:
        return np.zeros(0, dtype=np.uint32)
    classes = np.zeros(schedule.num_actions, dtype=np.uint32)
    forwards = schedule.paired
    classes[forwards] = pair_class(
        schedule.stages[forwards].astype(np.int64),
        schedule.stage_chunks[schedule.stages[forwards + 1]].astype(np.int64),
        num_stages=schedule.num_stages,
        num_chunks=schedule.num_chunks,
    )
    return classes


def build_graph(schedule: Schedule) -> Graph:
    """Return the graph of a complete schedule; raise ScheduleError with the grid when the order can never finish."""
    count = schedule.num_actions
    sequence, dependencies, rank_predecessors, classes = (np.empty(count, dtype=np.uint32) for _ in range(4))
    crosses_ranks = np.empty(count, dtype=np.bool_)
    rank_lasts = np.zeros(schedule.num_ranks, dtype=np.uint32)
    placed = for_size(order_actions, count)(
        schedule.ops,
        schedule.stages,
        schedule.units,
        np.array(schedule.rank_starts, dtype=np.int64),
        np.array(schedule.stage_ranks, dtype=np.int32),
        NUM_OPS,
        pair_classes(schedule),
        np.zeros((2, schedule.num_stages, schedule.num_units), dtype=np.uint32),
        sequence,
        dependencies,
        rank_predecessors,
        classes,
        crosses_ranks,
        rank_lasts,
    )
    if placed < count:
        done = np.zeros(count, dtype=bool)
        done[sequence[:placed]] = True
        raise ScheduleError(
            rule=_(
                "must let every action start once the actions before it on its rank and its dependency have ended, "
                "but {stuck} of {count} actions never can",
                stuck=count - placed,
                count=count,
            ),
            place=_("schedule {name}", name=schedule.name),
            remedy=_("change the order of the ranks below, which wait for each other"),
            grid=fault_grid(schedule, done),
        )
    return Graph(
        schedule=schedule,
        sequence=sequence,
        rank_predecessors=rank_predecessors,
        dependencies=dependencies,
        classes=classes,
        crosses_ranks=crosses_ranks,
        rank_lasts=rank_lasts,
        ranks=schedule.ranks[sequence].astype(np.uint32),
    )
