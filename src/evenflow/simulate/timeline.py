"""The timeline of a schedule: every action's time, the longest path to it through rank order and dependencies."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenflow.model import Communication
from evenflow.schedule import NUM_OPS, Schedule
from evenflow.simulate.compiled import COMPILE_FROM_ACTIONS, for_size
from evenflow.simulate.graph import Graph
from evenflow.simulate.kernels import longest_path, longest_path_with_messages

Times = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Timeline:
    """Start and end of every action, indexed as in the schedule's arrays."""

    graph: Graph
    start_ns: Times
    """Start of every action, shape [num_actions]."""
    end_ns: Times
    """End of every action, shape [num_actions]."""
    makespan_ns: int
    """Time from the beginning of the step to the end of its last action."""
    message_ns: Times | None = None
    """Time that the input of every action travels, shape [num_actions]; None: messages take no time, or none is known.
    """

    @property
    def schedule(self) -> Schedule:
        """The schedule that was run."""
        return self.graph.schedule

    @cached_property
    def busy_by_op_ns(self) -> Times:
        """Work of every rank by operation, shape [num_ranks, NUM_OPS]."""
        busy = np.zeros((self.schedule.num_ranks, NUM_OPS), dtype=np.int64)
        np.add.at(busy, (self.schedule.ranks, self.schedule.ops), self.end_ns - self.start_ns)
        return busy

    @property
    def busy_ns(self) -> Times:
        """Work of every rank, shape [num_ranks]."""
        return np.asarray(self.busy_by_op_ns.sum(axis=1))

    @property
    def rank_ends_ns(self) -> Times:
        """When every rank has done its last action, shape [num_ranks]."""
        ends = np.zeros(self.schedule.num_ranks, dtype=np.int64)
        np.maximum.at(ends, self.schedule.ranks, self.end_ns)
        return ends

    def critical_path(self) -> list[int]:
        """Return the action indices of one longest path, first to last: each starts once the one before lets it."""
        graph = self.graph
        positions = np.empty(len(graph.sequence), dtype=np.int64)
        positions[graph.sequence] = np.arange(len(graph.sequence))
        index = int(np.argmax(self.end_ns))
        path = [index]
        while self.start_ns[index] > 0:
            position = positions[index]
            before = int(graph.rank_predecessors[position])
            predecessor = int(graph.sequence[before - 1]) if before else -1
            if predecessor >= 0 and self.end_ns[predecessor] == self.start_ns[index]:
                index = predecessor
            else:  # the rank waited: its input decided
                index = int(graph.sequence[graph.dependencies[position] - 1])
            path.append(index)
        return path[::-1]


def run(graph: Graph, durations: Times, communication: Communication | Times | None = None) -> Timeline:
    """Return the timeline of `graph` for `durations` [NUM_OPS * num_stages], indexed by the graph's classes, in ns.

    `communication` is the cost of every message or, where messages differ, an array like `durations`: the time in ns
    that an input from another rank takes to the actions of each class.
    """
    count = len(graph.sequence)
    messages = _messages(graph, communication)
    ends = _ends(graph, durations, messages, num_actions=count)
    end_ns = _by_action(graph, ends[1:])
    schedule = graph.schedule
    return Timeline(
        graph=graph,
        start_ns=end_ns - durations.reshape(-1, NUM_OPS)[schedule.stages, schedule.ops],
        end_ns=end_ns,
        makespan_ns=int(ends[graph.rank_lasts].max()),
        message_ns=None if messages is None else _by_action(graph, messages),
    )


def makespan_ns(graph: Graph, durations: Times, communication: Communication | Times | None = None) -> int:
    """Return the makespan of `run` alone, for callers that try many durations: compiled, whatever the size."""
    ends = _ends(graph, durations, _messages(graph, communication), num_actions=COMPILE_FROM_ACTIONS)
    return int(ends[graph.rank_lasts].max())


def _messages(graph: Graph, communication: Communication | Times | None) -> Times | None:
    """Return the time that every input travels, in the order of `graph.sequence`; None where none takes any."""
    if isinstance(communication, np.ndarray):
        return np.asarray(graph.crosses_ranks * communication[graph.classes])
    if communication and communication.message_ns:
        return np.asarray(graph.crosses_ranks * np.int64(communication.message_ns))
    return None


def _ends(graph: Graph, durations: Times, messages: Times | None, *, num_actions: int) -> Times:
    """Return 0 and the end of every action in the order of `graph.sequence`; compiled as `num_actions` asks."""
    ends = np.zeros(len(graph.sequence) + 1, dtype=np.int64)
    arguments = (graph.rank_predecessors, graph.dependencies, graph.classes, durations)
    if messages is None:
        for_size(longest_path, num_actions)(*arguments, ends)
    else:
        for_size(longest_path_with_messages, num_actions)(*arguments, messages, ends)
    return ends


def _by_action(graph: Graph, values: Times) -> Times:
    """Reorder `values` from the order of `graph.sequence` to that of the schedule's arrays."""
    result = np.empty_like(values)
    result[graph.sequence] = values
    return result
