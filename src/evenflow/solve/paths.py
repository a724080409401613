"""The part of the dependency graph that matters: the union of all critical paths met so far.

Keeping whole paths apart would need very many of them; their union, with its chains merged, describes exponentially
many paths in a few hundred rows. Any subset of the graph bounds the makespan from below, so what is missing can cost
time but never correctness.
"""

from dataclasses import dataclass

import numpy as np

from evenflow.simulate import Graph
from evenflow.simulate.compiled import compiled
from evenflow.simulate.costs import Integers
from evenflow.solve.path_kernels import heads_and_tails, path_from, path_to


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Actions in a row: ``end[target] >= end[source] + sum(count * duration[class]) + message_ns``."""

    source: int
    """Position of the junction before the chain; 0 is the start of the step."""
    target: int
    classes: dict[int, int]
    """How often each duration class occurs, the target included and the source not."""
    message_ns: int


class CriticalPaths:
    """Collects critical paths of a graph and hands out their union as chains."""

    def __init__(self, graph: Graph, message_ns: int) -> None:
        self._graph = graph
        count = len(graph.sequence)
        self._messages = graph.crosses_ranks * np.int64(message_ns)
        ranks = graph.schedule.ranks[graph.sequence]
        self._actions_of_rank = [np.flatnonzero(ranks == rank) for rank in range(graph.schedule.num_ranks)]
        self._successors = np.zeros((count + 1, 3), dtype=np.int64)
        positions = np.arange(1, count + 1)
        own = graph.rank_predecessors > 0
        self._successors[graph.rank_predecessors[own], 0] = positions[own]
        for position, dependency in zip(positions, graph.dependencies, strict=True):
            if dependency:
                self._successors[dependency, 1 if self._successors[dependency, 1] == 0 else 2] = position
        self._heads = np.zeros(count + 1, dtype=np.int64)
        self._tails = np.zeros(count + 1, dtype=np.int64)
        self._path = np.zeros(count + 1, dtype=np.int64)
        self._sources: dict[int, set[int]] = {}
        self._sinks: set[int] = set()

    def makespan(self, durations: Integers) -> int:
        """The exact makespan for `durations` [NUM_OPS * num_stages]; prepares `add_longest`."""
        graph = self._graph
        compiled(heads_and_tails)(
            graph.rank_predecessors,
            graph.dependencies,
            graph.classes,
            durations,
            self._messages,
            self._heads,
            self._tails,
        )
        return int(self._heads[graph.rank_lasts].max())

    def add_longest(self, durations: Integers, *, above_ns: float) -> bool:
        """Add, for every rank, a longest path through it, if it is longer than `above_ns`. True if any is new."""
        self.makespan(durations)
        through = self._heads[1:] + self._tails[1:]
        is_new = False
        covered = np.zeros(len(through) + 1, dtype=bool)
        for own in self._actions_of_rank:
            if through[own].max(initial=0) <= above_ns:
                continue
            position = int(own[np.argmax(through[own])]) + 1
            if not covered[position]:
                path = self._path_through(position, durations)
                covered[path] = True
                is_new |= self._add(path)
        return is_new

    def _path_through(self, position: int, durations: Integers) -> list[int]:
        """Positions of a longest path through `position`, first to last."""
        graph = self._graph
        length = compiled(path_to)(
            position, graph.rank_predecessors, graph.dependencies, self._messages, self._heads, self._path
        )
        path: list[int] = self._path[:length][::-1].tolist()
        length = compiled(path_from)(
            position, self._successors, graph.classes, durations, self._messages, self._tails, self._path
        )
        path += self._path[:length].tolist()
        return path

    def _add(self, path: list[int]) -> bool:
        """Add a path to the union; True if any of it is new."""
        is_new = False
        before = 0
        for after in path:
            sources = self._sources.setdefault(after, set())
            if before not in sources:
                sources.add(before)
                is_new = True
            before = after
        self._sinks.add(before)
        return is_new

    @property
    def sinks(self) -> set[int]:
        """Positions at which a path ends."""
        return self._sinks

    def chains(self) -> list[Chain]:
        """The union of the paths between junctions: positions where paths part, meet, or end."""
        leaving: dict[int, int] = {}
        for sources in self._sources.values():
            for source in sources:
                leaving[source] = leaving.get(source, 0) + 1
        junctions = {
            position
            for position, sources in self._sources.items()
            if len(sources) != 1 or leaving.get(position, 0) != 1 or position in self._sinks
        }
        chains = []
        for target in sorted(junctions):
            for source in sorted(self._sources[target]):
                classes: dict[int, int] = {}
                message = 0
                position, before = target, source
                while True:
                    kind = int(self._graph.classes[position - 1])
                    classes[kind] = classes.get(kind, 0) + 1
                    if before != self._graph.rank_predecessors[position - 1]:
                        message += int(self._messages[position - 1])
                    if before == 0 or before in junctions:
                        break
                    position, before = before, next(iter(self._sources[before]))
                chains.append(Chain(source=before, target=target, classes=classes, message_ns=message))
        return chains
