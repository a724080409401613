"""The timeline of a schedule: every action's time, the longest path to it through rank order and dependencies."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenflow.model import Communication
from evenflow.schedule import NUM_OPS, Op, Schedule
from evenflow.simulate.compiled import COMPILE_FROM_ACTIONS, for_size
from evenflow.simulate.graph import Graph, no_time_class
from evenflow.simulate.kernels import longest_path, longest_path_in_turn, longest_path_with_messages

Times = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class InTurn:
    """Messages of which each rank sends one at a time."""

    times_ns: Times
    """Time that the input of actions travels without waiting for others, by class of `Graph`."""
    latency_ns: int
    """The part of each that does not keep the sender's link busy."""


Messages = Communication | Times | InTurn | None
"""The cost of messages: the same for all, by class of the action that waits, in turn; None: no time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Timeline:
    """Start and end of every action, indexed as in the schedule's arrays.

    Of a forward and a backward that run beside each other, the forward is given the first part of their time and the
    backward the rest, in proportion to what each takes by itself; what both give is there at the end.
    """

    graph: Graph
    start_ns: Times
    """Start of every action, shape [num_actions]."""
    end_ns: Times
    """End of every action, shape [num_actions]."""
    copy_start_ns: Times | None = None
    """Start of every copy to the host, then of every one back, shape [2, num_copies]; None: nothing is copied."""
    copy_end_ns: Times | None = None
    wait_end_ns: Times | None = None
    """End of every wait for a copy, as the graph numbers them."""
    saved_ns: Times | None = None
    """What every pair takes less than its two parts one after the other, in the order of `Schedule.paired`; None where
    there are no pairs.
    """
    makespan_ns: int
    """Time from the beginning of the step to the end of its last action."""
    message_ns: Times | None = None
    """Time that the input of every action travels, shape [num_actions]; None: messages take no time, or none is known.
    """

    @property
    def schedule(self) -> Schedule:
        """The schedule that was run."""
        return self.graph.schedule

    @property
    def has_copies(self) -> bool:
        """Whether any copy to the host or back takes time."""
        starts_ns, ends_ns = self.copy_start_ns, self.copy_end_ns
        return starts_ns is not None and ends_ns is not None and bool((ends_ns > starts_ns).any())

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
        starts, ends = self.start_ns, self.end_ns
        if self.copy_start_ns is not None and self.copy_end_ns is not None:
            assert self.wait_end_ns is not None
            waits = self.wait_end_ns
            starts = np.concatenate((starts, self.copy_start_ns.reshape(-1), waits))
            ends = np.concatenate((ends, self.copy_end_ns.reshape(-1), waits))
        index = int(np.argmax(self.end_ns))
        path = [index]
        while starts[index] > 0:
            position = positions[index]
            before = int(graph.rank_predecessors[position])
            predecessor = int(graph.sequence[before - 1]) if before else -1
            if predecessor >= 0 and ends[predecessor] == starts[index]:
                index = predecessor
            else:  # the rank waited: its input decided, of a pair that of one of both
                index = self._awaited(index, positions)
            path.append(index)
        return [index for index in reversed(path) if index < len(self.end_ns)]

    def _awaited(self, index: int, positions: Times) -> int:
        """Return the action whose end an action waited for, or whose end the pair did that it leads."""
        graph, schedule = self.graph, self.schedule
        own = [index]
        if index < schedule.num_actions and schedule.pairs is not None and schedule.pairs[index]:
            own.append(index + 1)
        dependencies = [(int(graph.dependencies[positions[action]]), action) for action in own]
        awaited = [(int(graph.sequence[position - 1]), action) for position, action in dependencies if position]
        message = np.zeros(len(positions), dtype=np.int64) if self.message_ns is None else self.message_ns
        return max(awaited, key=lambda found: self._end(found[0]) + (message[found[1]] if len(own) > 1 else 0))[0]

    def _end(self, index: int) -> int:
        return int(self.end_ns[index]) if index < len(self.end_ns) else 0


def run(graph: Graph, durations: Times, communication: Messages = None) -> Timeline:
    """Return the timeline of `graph` for `durations` [NUM_OPS * num_stages], indexed by the graph's classes, in ns.

    Where forwards run beside backwards, the times of these pairs are behind (see `pair_class`); without them each takes
    as long as its two parts. `communication` is the cost of every message or, where messages differ, an array like
    `durations`: the time in ns that an input from another rank takes to the actions of each class.
    """
    count = len(graph.sequence)
    durations = _with_pairs(graph, durations)
    messages, latency_ns = _messages(graph, communication)
    if messages is not None and latency_ns is not None:
        ends, messages = _ends_in_turn(graph, durations, messages, latency_ns, num_actions=count)
    else:
        ends = _ends(graph, durations, messages, num_actions=count)
    end_ns = _by_action(graph, ends[1:])
    taken_ns = _by_action(graph, durations[graph.classes])
    start_ns = end_ns - taken_ns
    saved_ns = _share_out(graph.schedule, durations, start_ns, end_ns) if graph.schedule.has_pairs else None
    num_actions = graph.schedule.num_actions
    num_copies = 0 if graph.copied is None else 2 * graph.copied.shape[1]
    copies = slice(num_actions, num_actions + num_copies)
    return Timeline(
        graph=graph,
        start_ns=start_ns[:num_actions],
        end_ns=end_ns[:num_actions],
        copy_start_ns=None if graph.copied is None else start_ns[copies].reshape(2, -1),
        copy_end_ns=None if graph.copied is None else end_ns[copies].reshape(2, -1),
        wait_end_ns=None if graph.copied is None else end_ns[copies.stop :],
        saved_ns=saved_ns,
        makespan_ns=int(ends[graph.rank_lasts].max()),
        message_ns=None if messages is None else _by_action(graph, messages)[:num_actions],
    )


def _with_pairs(graph: Graph, durations: Times) -> Times:
    """Return `durations` with those of pairs, if forwards run beside backwards and they are not there."""
    schedule = graph.schedule
    if not schedule.has_pairs or len(durations) > no_time_class(schedule.num_stages):
        return durations
    table = durations[: NUM_OPS * schedule.num_stages].reshape(-1, NUM_OPS)
    of_rank = schedule.stage_table[:, list(schedule.stage_ranks)].T  # stages of the rank of every stage, by chunk
    pairs = table[:, Op.F, np.newaxis] + table[of_rank, Op.B]
    return np.concatenate((table.reshape(-1), np.zeros(schedule.num_stages + 1, dtype=np.int64), pairs.reshape(-1)))


def _share_out(schedule: Schedule, durations: Times, start_ns: Times, end_ns: Times) -> Times:
    """Give the forward of each pair the first part of the time of both, in proportion to what each takes by itself.

    Return what each pair takes less than that.
    """
    forwards = schedule.paired
    backwards = forwards + 1
    alone = [
        durations[NUM_OPS * schedule.stages[actions].astype(np.int64) + schedule.ops[actions]]
        for actions in (forwards, backwards)
    ]
    begins = start_ns[backwards]
    takes = end_ns[backwards] - begins
    share = takes * alone[0] // np.maximum(alone[0] + alone[1], 1)
    start_ns[forwards] = begins
    end_ns[forwards] = start_ns[backwards] = begins + share
    return np.asarray(alone[0] + alone[1] - takes)


def makespan_ns(graph: Graph, durations: Times, communication: Messages = None) -> int:
    """Return the makespan of `run` alone, for callers that try many durations: compiled, whatever the size."""
    durations = _with_pairs(graph, durations)
    messages, latency_ns = _messages(graph, communication)
    if messages is not None and latency_ns is not None:
        ends, _arrivals = _ends_in_turn(graph, durations, messages, latency_ns, num_actions=COMPILE_FROM_ACTIONS)
    else:
        ends = _ends(graph, durations, messages, num_actions=COMPILE_FROM_ACTIONS)
    return int(ends[graph.rank_lasts].max())


def _messages(graph: Graph, communication: Messages) -> tuple[Times | None, int | None]:
    """Return the time that every input travels, in the order of `graph.sequence`; None where none takes any.

    With it comes the latency of messages that are sent in turn, else None.
    """
    if isinstance(communication, InTurn):
        return graph.message_times(communication.times_ns), communication.latency_ns
    if isinstance(communication, np.ndarray):
        return graph.message_times(communication), None
    if communication and communication.message_ns:
        times_ns = np.asarray(graph.crosses_ranks * np.int64(communication.message_ns))
        return times_ns, communication.latency_ns if communication.one_at_a_time else None
    return None, None


def _ends_in_turn(
    graph: Graph, durations: Times, messages: Times, latency_ns: int, *, num_actions: int
) -> tuple[Times, Times]:
    """Return the same as `_ends` where ranks send one message at a time, and how long every input is under way."""
    count = len(graph.sequence)
    ends, arrivals = np.zeros(count + 1, dtype=np.int64), np.zeros(count + 1, dtype=np.int64)
    for_size(longest_path_in_turn, num_actions)(
        graph.rank_predecessors, graph.dependencies, graph.classes, durations, messages, latency_ns, graph.receivers,
        graph.ranks, arrivals, np.zeros(graph.schedule.num_ranks, dtype=np.int64), ends,
    )  # fmt: skip
    return ends, np.where(graph.crosses_ranks, arrivals[1:] - ends[graph.dependencies], 0)


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
