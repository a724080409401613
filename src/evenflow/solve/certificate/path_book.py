"""Paths through the dependency graph that are written down whole, so that others can follow them."""

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import NUM_OPS
from evenflow.simulate import Integers
from evenflow.solve.master.critical_paths import CriticalPaths
from evenflow.solve.problem import Problem

Counts = NDArray[np.float64]
WrittenPath = tuple[int, int, int, str]


class PathBook:
    """Different paths, numbered, with what they count."""

    def __init__(self, problem: Problem, stages: list[list[int]]) -> None:
        """Begin with none; `stages` are those of each step and chunk, to which counts are laid out."""
        self._problem = problem
        self._paths = CriticalPaths(problem.graph, problem.shortest_messages)
        self._classes = np.array([[NUM_OPS * stage + op for stage in own for op in range(NUM_OPS)] for own in stages])
        self._numbers: dict[bytes, int] = {}
        self._rows: list[Counts] = []
        self.written: list[WrittenPath] = []
        """Each as in a certificate."""

    @property
    def num_slots(self) -> int:
        """Number of durations of a plan."""
        return self._classes.size

    def makespan_ns(self, durations: Integers) -> int:
        """Return how long the step of a plan takes whose durations are laid out [num_steps, 4 * num_chunks]."""
        return self._paths.makespan(self._table(durations))

    def longest(self, durations: Integers, *, above_ns: float) -> list[int]:
        """Return the numbers of the longest paths through ranks that are longer than `above_ns`."""
        return [self._number(path) for path in self._paths.longest(self._table(durations), above_ns=above_ns)]

    def counts(self, numbers: list[int]) -> Counts:
        """Return how often paths have each duration, and the time of their messages, [num_paths, num_slots + 1]."""
        return np.array([self._rows[number] for number in numbers]).reshape(-1, self.num_slots + 1)

    def _table(self, durations: Integers) -> Integers:
        table = np.zeros(int(self._classes.max()) + 1, dtype=np.int64)
        table[self._classes] = durations
        return table

    def _number(self, path: NDArray[np.int64]) -> int:
        """Return the number of a path of these positions, last first; another with the same counts will do."""
        graph, schedule = self._problem.graph, self._problem.schedule
        classes = graph.classes[path - 1].astype(np.int64)
        table = np.bincount(classes, minlength=int(self._classes.max()) + 1)
        via_rank = graph.rank_predecessors[path[:-1] - 1] == path[1:]
        messages_ns = int(self._problem.shortest_messages[path[:-1] - 1][~via_rank].sum())
        row = np.append(table[self._classes].ravel(), messages_ns).astype(np.float64)
        number = self._numbers.setdefault(row.tobytes(), len(self._rows))
        if number == len(self._rows):
            self._rows.append(row)
            last = int(graph.sequence[path[0] - 1])
            rank = int(schedule.ranks[last])
            steps = sum(1 << step for step, via in enumerate(via_rank.tolist()) if not via)
            self.written.append((rank, last - schedule.rank_starts[rank], len(path) - 1, f"{steps:x}"))
        return number
