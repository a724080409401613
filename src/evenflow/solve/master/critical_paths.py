"""The part of the dependency graph that the proof needs: the union of all critical paths met so far.

Keeping whole paths apart would need very many of them; their union, with its chains merged, describes exponentially
many paths in a few hundred rows. Any subset of the graph bounds the makespan from below, so what is missing can cost
time but never correctness.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import Graph, Integers
from evenflow.simulate.compiled import compiled
from evenflow.solve.master.path_kernels import (
    count_paths,
    find_junctions,
    heads_and_tails,
    keep_chains,
    mark,
    path_from,
    path_to,
    walk_chains,
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Chains:
    """Chains of actions between junctions; at a junction paths part, meet or end.

    Chain i says ``end[target] >= end[source] + sum(counts * durations[classes]) + message``, its pairs of class and
    count being those from ``starts[i]`` to ``starts[i + 1]``; the target counts and the source does not.
    """

    ends: Integers
    """Position of the source (0: the start of the step), of the target, and the mark of its edge, [num_chains, 3]."""
    starts: Integers
    """First pair of each chain and the end of all, shape [num_chains + 1]."""
    classes: Integers
    """Duration class of each pair."""
    counts: Integers
    """Number of actions of its class in each pair."""
    messages_ns: NDArray[np.float64]
    """Time of the messages on each chain."""
    sinks: Integers
    """Positions at which paths end."""

    def __len__(self) -> int:
        return len(self.ends)


class LongestPaths(NamedTuple):
    """Different longest paths, one a row."""

    counts: Integers
    """Actions of each class of durations (see `Graph`), shape [num_paths, NUM_OPS * num_stages]."""
    message_counts: Integers
    """Those whose input from another action the path waits for, in the same shape."""
    messages_ns: Integers
    """Time of its messages, shape [num_paths]."""


class CriticalPaths:
    """A collection of critical paths of a graph, whose union it returns as chains."""

    def __init__(self, graph: Graph, messages_ns: Integers) -> None:
        """Begin with none; `messages_ns` is how long the input of each action travels, in the order of the graph."""
        self._graph = graph
        count = len(graph.sequence)
        self._messages = messages_ns
        self._ranks = graph.ranks
        self._actions_of_rank = [np.flatnonzero(self._ranks == rank) for rank in range(graph.schedule.num_ranks)]
        self._successors = np.zeros((count + 1, 3 if graph.copied is None else 5), dtype=np.int64)
        positions = np.arange(1, count + 1)
        own = graph.rank_predecessors > 0
        self._successors[graph.rank_predecessors[own], 0] = positions[own]
        for position, dependency in zip(positions, graph.dependencies, strict=True):
            if dependency:
                own_successors = self._successors[dependency]
                own_successors[1 + np.count_nonzero(own_successors[1:])] = position
        self._heads = np.zeros(count + 1, dtype=np.int64)
        self._tails = np.zeros(count + 1, dtype=np.int64)
        self._path = np.zeros(count + 1, dtype=np.int64)
        self._marks = np.zeros(count + 1, dtype=np.int64)
        """Marks of the edges into each position that belong to the union (`path_kernels`)."""
        self._sinks = np.zeros(count + 1, dtype=np.bool_)
        self._junctions = np.zeros(count + 1, dtype=np.int64)
        self._has_grown = False
        """Whether a path was added since the latest `chains`."""

    @property
    def arrays(self) -> tuple[NDArray[np.integer], ...]:
        """What a compiled loop needs to count paths (see `count_paths`), from the ranks to the time of messages."""
        graph = self._graph
        return (
            self._ranks,
            graph.rank_predecessors,
            graph.dependencies,
            self._successors,
            graph.classes,
            graph.action_classes,
            self._messages,
        )

    def makespan(self, durations: Integers) -> int:
        """Return the exact makespan for `durations` [NUM_OPS * num_stages]; prepares `add_longest`."""
        return self._measure(durations, self._messages)

    def _measure(self, durations: Integers, messages_ns: Integers) -> int:
        """Measure the paths to and from every action; returns the makespan."""
        graph = self._graph
        compiled(heads_and_tails)(
            graph.rank_predecessors,
            graph.dependencies,
            graph.classes,
            durations,
            messages_ns,
            self._heads,
            self._tails,
        )
        return int(self._heads[graph.rank_lasts].max())

    def add_longest(self, durations: Integers, *, above_ns: float) -> bool:
        """Add a longest path through each rank if it is longer than `above_ns`; returns whether any is new."""
        is_new = False
        for path in self.longest(durations, above_ns=above_ns):
            self._sinks[path[0]] = True
            is_new |= bool(compiled(mark)(path, len(path), self._graph.rank_predecessors, self._marks))
        self._has_grown |= is_new
        return is_new

    def longest(self, durations: Integers, *, above_ns: float) -> list[NDArray[np.int64]]:
        """Return a longest path through each rank if it is longer than `above_ns`: its positions, last first.

        A rank gets none through whose longest path one of another rank goes.
        """
        self.makespan(durations)
        through = self._heads[1:] + self._tails[1:]
        covered = np.zeros(len(through) + 1, dtype=bool)
        paths = []
        for own in self._actions_of_rank:
            if through[own].max(initial=0) <= above_ns:
                continue
            position = int(own[np.argmax(through[own])]) + 1
            if not covered[position]:
                path = self._path_through(position, durations)
                covered[path] = True
                paths.append(path)
        return paths

    def count_longest(
        self, durations: Integers, *, above_ns: float, messages_ns: Integers | None = None
    ) -> LongestPaths:
        """Return the different longest paths through ranks that are longer than `above_ns`.

        `messages_ns` are other times of messages than those of the collection, in the order of the graph.
        """
        messages = self._messages if messages_ns is None else messages_ns
        self._measure(durations, messages)
        graph = self._graph
        counts = np.zeros((graph.schedule.num_ranks, len(durations)), dtype=np.int64)
        message_counts = np.zeros_like(counts)
        path_messages_ns = np.zeros(len(counts), dtype=np.int64)
        num_paths = compiled(count_paths)(
            self._ranks,
            graph.rank_predecessors,
            graph.dependencies,
            self._successors,
            graph.classes,
            graph.action_classes,
            durations,
            messages,
            self._heads,
            self._tails,
            int(above_ns),
            counts,
            message_counts,
            path_messages_ns,
        )
        return LongestPaths(counts[:num_paths], message_counts[:num_paths], path_messages_ns[:num_paths])

    def _path_through(self, position: int, durations: Integers) -> NDArray[np.int64]:
        """Return the positions of a longest path through `position`, last first."""
        graph = self._graph
        length = compiled(path_from)(
            position, self._successors, graph.classes, durations, self._messages, self._tails, self._path
        )
        behind = self._path[:length][::-1].copy()
        length = compiled(path_to)(
            position, graph.rank_predecessors, graph.dependencies, self._messages, self._heads, self._path
        )
        return np.concatenate((behind, self._path[:length]))

    def chains(self) -> Chains:
        """Return the union of the paths as chains between junctions."""
        self._has_grown = False
        graph, marks = self._graph, self._marks
        count = compiled(find_junctions)(
            marks, self._sinks, graph.rank_predecessors, graph.dependencies, self._junctions
        )
        num_edges = int(np.count_nonzero(marks & 1) + np.count_nonzero(marks & 2))
        ends = np.zeros((count, 3), dtype=np.int64)
        messages, starts = np.zeros(count), np.zeros(count + 1, dtype=np.int64)
        classes, counts = np.zeros(num_edges, dtype=np.int64), np.zeros(num_edges, dtype=np.int64)
        pairs = compiled(walk_chains)(
            marks,
            self._junctions,
            graph.rank_predecessors,
            graph.dependencies,
            graph.classes,
            self._messages,
            np.zeros(int(graph.classes.max(initial=0)) + 1, dtype=np.int64),
            ends,
            messages,
            starts,
            classes,
            counts,
        )
        return Chains(
            ends=ends,
            starts=starts,
            classes=classes[:pairs],
            counts=counts[:pairs],
            messages_ns=messages,
            sinks=np.flatnonzero(self._sinks & (marks > 0)),
        )

    def keep(self, chains: Chains, needed: NDArray[np.bool_]) -> None:
        """Remove those of the latest `chains` that are not `needed` [num_chains]; nothing where paths came since."""
        if self._has_grown:
            return
        self._has_grown = True  # what is left makes other chains
        graph = self._graph
        compiled(keep_chains)(
            needed, chains.ends, self._marks, self._junctions, graph.rank_predecessors, graph.dependencies
        )
