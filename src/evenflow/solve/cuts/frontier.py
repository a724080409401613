"""The open nodes of a search over cuts, which several threads take up and give back.

A node that a thread works on is as open as before: it counts for the bound until it is given back.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from threading import Condition

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import Integers
from evenflow.solve.cuts.cut_graph import CutGraph
from evenflow.solve.master.matrix import Floats

_WAIT_S = 0.05
"""Seconds between two looks at whether the search goes on, where others have all open nodes."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Threshold:
    """The most that ranks are to take for a microbatch in a phase of the schedule."""

    ops: Floats
    """1 for each duration of a rank that the phase has, otherwise 0, shape [num_chunks * num_ops]."""
    most_ns: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OpenNode:
    """An open node: a part of the graph with the mixtures, plans and paths handed down to it."""

    graph: CutGraph
    arcs: NDArray[np.int32]
    """Indices among the arcs of `graph`, ascending."""
    bound_ns: float
    mixtures: tuple[Floats, ...]
    """Best mixtures of the nodes above: mean counts of all durations and time of messages, each [num_slots + 1]."""
    plans: Integers
    """Arcs of mixed plans that are in this part, shape [num_plans, num_steps]."""
    paths: Floats
    """Mixed paths, shape [num_paths, num_slots + 1]."""
    threshold: Threshold | None = None
    """The threshold by which the node above was split."""


class Frontier:
    """Cuts between the chunks whose graphs have not been looked at, and open nodes, least bound first."""

    def __init__(self, middles: Sequence[int]) -> None:
        """Begin with these cuts, the last of them first."""
        self._middles = list(middles)
        self._open: list[tuple[float, int, OpenNode]] = []
        """Heap of open nodes."""
        self._taken: dict[int, int | OpenNode] = {}
        """What threads work on, by its number."""
        self._numbers = count()
        self._changed = Condition()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left."""
        with self._changed:
            return not (self._middles or self._open or self._taken)

    @property
    def has_middles(self) -> bool:
        """Whether there are graphs that nobody has taken up."""
        return bool(self._middles)

    @property
    def middles(self) -> set[int]:
        """All cuts between the chunks of which something is left."""
        with self._changed:
            taken = (task if isinstance(task, int) else task.graph.middle for task in self._taken.values())
            return {*self._middles, *(node.graph.middle for *_order, node in self._open), *taken}

    @property
    def bound_ns(self) -> float:
        """The least bound of what is left: 0 where a graph has not been looked at; infinite where nothing is left."""
        with self._changed:
            bounds = [0.0 if isinstance(task, int) else task.bound_ns for task in self._taken.values()]
            bounds += [0.0 for _middle in self._middles[:1]] + [bound_ns for bound_ns, *_node in self._open[:1]]
            return min(bounds, default=float("inf"))

    def take(self, goes_on: Callable[[], bool]) -> tuple[int, int | OpenNode] | None:
        """Return a number with a cut between the chunks or a node to look at; None where there is none any more.

        Where others have all that is left, it waits for what they give back while `goes_on` says so.
        """
        with self._changed:
            while goes_on():
                if self._middles:
                    return self._take(self._middles.pop())
                if self._open:
                    return self._take(heapq.heappop(self._open)[2])
                if not self._taken:
                    break
                self._changed.wait(_WAIT_S)
            return None

    def _take(self, task: int | OpenNode) -> tuple[int, int | OpenNode]:
        number = next(self._numbers)
        self._taken[number] = task
        return number, task

    def give(self, number: int, nodes: Sequence[OpenNode]) -> None:
        """Take the nodes that are left of what has this number."""
        with self._changed:
            del self._taken[number]
            for node in nodes:
                heapq.heappush(self._open, (node.bound_ns, next(self._numbers), node))
            self._changed.notify_all()

    def give_back(self, number: int) -> None:
        """Take back what has this number: nobody has looked at it to the end."""
        with self._changed:
            task = self._taken.pop(number)
            if isinstance(task, int):
                self._middles.append(task)
            else:
                heapq.heappush(self._open, (task.bound_ns, next(self._numbers), task))
            self._changed.notify_all()
