"""Programs with one choice per node and a cost for each pair of choices along an edge, and at most one limit.

    minimise    sum over nodes  cost[i][x_i]  +  sum over edges  cost[i, j][x_i, x_j]
    subject to  sum over nodes  memory[i][x_i]  <=  limit

Solved exactly in three steps. A choice is dropped where another one of its node is never dearer, whatever the
neighbours choose. A node with at most two neighbours is solved for every pair of their choices and becomes an edge
between them; under a limit only nodes without memory may go. The rest is an integer program (`pairwise_milp`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float64]
"""Whole numbers, so that sums are exact; infinite where a choice is not allowed."""


@dataclass(kw_only=True)
class Pairwise:
    """A program, built node by node and edge by edge."""

    costs: list[Costs] = field(default_factory=list)
    memory: list[Costs] = field(default_factory=list)
    edges: dict[tuple[int, int], Costs] = field(default_factory=dict)
    """Costs by pair of nodes, lower index first."""

    def node(self, costs: Costs, memory: Costs) -> int:
        """Add a node and return its index."""
        self.costs.append(costs)
        self.memory.append(memory)
        return len(self.costs) - 1

    def edge(self, first: int, second: int, costs: Costs) -> None:
        """Add ``costs[x_first, x_second]``; edges between the same nodes add up."""
        if first == second:
            self.costs[first] = self.costs[first] + np.diagonal(costs)
            return
        if first > second:
            first, second, costs = second, first, costs.T
        self.edges[first, second] = self.edges[first, second] + costs if (first, second) in self.edges else costs

    def cost_of(self, choices: Sequence[int]) -> int:
        """Return the cost of one choice per node."""
        total = sum(float(costs[choice]) for costs, choice in zip(self.costs, choices, strict=True))
        total += sum(float(costs[choices[i], choices[j]]) for (i, j), costs in self.edges.items())
        return int(total)

    def memory_of(self, choices: Sequence[int]) -> int:
        """Return the memory of one choice per node."""
        return int(sum(float(memory[choice]) for memory, choice in zip(self.memory, choices, strict=True)))

    def settled(self, choices: Sequence[int]) -> tuple[int, ...]:
        """Improve allowed choices, one node at a time, until no change costs less without more memory."""
        now = list(choices)
        around: list[list[tuple[int, Costs]]] = [[] for _ in now]
        for (i, j), costs in self.edges.items():
            around[i].append((j, costs))
            around[j].append((i, costs.T))
        better = True
        while better:
            better = False
            for i, costs in enumerate(self.costs):
                total = costs + sum(edge[:, now[j]] for j, edge in around[i])
                memory = self.memory[i]
                total = np.where(memory > memory[now[i]], np.inf, total)
                best = int(np.lexsort((memory, total))[0])
                if (total[best], memory[best]) < (total[now[i]], memory[now[i]]):
                    now[i] = best
                    better = True
        return tuple(now)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Removed:
    """A node that was solved for all choices of its neighbours: ``best[x_first, x_second]``, fewer axes if fewer."""

    node: int
    neighbours: tuple[tuple[int, NDArray[np.intp]], ...]
    """Neighbours, with the choices that each had left then."""
    best: NDArray[np.intp]


class Reduction:
    """The rest of a program after everything that can be settled exactly without search."""

    def __init__(self, program: Pairwise, *, keep_memory: bool) -> None:
        """`keep_memory`: there is a limit, so what a choice needs matters as much as what it costs."""
        self.keep_memory = keep_memory
        self.constant: float = 0.0
        self.choices = [np.arange(len(costs)) for costs in program.costs]
        """The choices that each node has left."""
        self.costs = dict(enumerate(program.costs))
        self.memory = dict(enumerate(program.memory))
        self.neighbours: dict[int, dict[int, Costs]] = {i: {} for i in self.costs}
        for (i, j), costs in program.edges.items():
            self._link(i, j, costs)
        self._removed: list[_Removed] = []
        self._reduce()

    def expand(self, chosen: dict[int, int]) -> tuple[int, ...]:
        """Return the choices of all nodes of the program, from those of the nodes that are left, by position."""
        result = {i: int(self.choices[i][position]) for i, position in chosen.items()}
        for removed in reversed(self._removed):
            where = tuple(int(np.flatnonzero(then == result[j])[0]) for j, then in removed.neighbours)
            result[removed.node] = int(self.choices[removed.node][removed.best[where]])
        return tuple(result[i] for i in range(len(self.choices)))

    def _link(self, i: int, j: int, costs: Costs) -> None:
        if j in self.neighbours[i]:
            costs = costs + self.neighbours[i][j]
        self.neighbours[i][j] = costs
        self.neighbours[j][i] = costs.T

    def _reduce(self) -> None:
        waiting = set(self.costs)
        while waiting:
            i = min(waiting, key=lambda one: (len(self.neighbours[one]), one))
            waiting.discard(i)
            changed = set(self.neighbours[i]) if self._prune(i) else set()
            if not len(self.costs[i]):
                self.constant = np.inf  # no choice is left: there is no solution
                return
            if len(self.neighbours[i]) <= 2 and not (self.keep_memory and self.memory[i].any()):
                changed |= set(self.neighbours[i])
                self._remove(i)
            waiting |= changed

    def _prune(self, i: int) -> bool:
        """Drop dominated choices of node i; tell whether there were any."""
        costs = self.costs[i]
        with np.errstate(invalid="ignore"):
            margin = costs[:, None] - costs[None, :]  # [a, b]: a is dearer than b by at least this
            np.nan_to_num(margin, copy=False, nan=np.inf, posinf=np.inf, neginf=-np.inf)
            for edge in self.neighbours[i].values():
                difference = edge[:, None, :] - edge[None, :, :]
                difference[np.isnan(difference)] = np.inf  # neither of the two goes with this choice of the neighbour
                margin += difference.min(axis=2)
        if self.keep_memory:
            margin[self.memory[i][:, None] < self.memory[i][None, :]] = -np.inf
        alive = np.isfinite(costs)
        for a in reversed(range(len(costs))):
            if alive[a]:
                alive[a] = False
                alive[a] = not (alive & (margin[a] >= 0)).any()
        if alive.all():
            return False
        self._keep(i, np.flatnonzero(alive))
        return True

    def _keep(self, i: int, kept: NDArray[np.intp]) -> None:
        self.choices[i] = self.choices[i][kept]
        self.costs[i] = self.costs[i][kept]
        self.memory[i] = self.memory[i][kept]
        for j, edge in self.neighbours[i].items():
            self.neighbours[i][j] = edge[kept]
            self.neighbours[j][i] = edge[kept].T

    def _remove(self, i: int) -> None:
        """Solve node i for every choice of its neighbours."""
        around = tuple(self.neighbours[i])
        for j in around:
            del self.neighbours[j][i]
        costs = self.costs.pop(i)
        edges = [self.neighbours[i][j] for j in around]
        if not around:
            total = costs
        elif len(around) == 1:
            total = costs[:, None] + edges[0]
        else:
            total = costs[:, None, None] + edges[0][:, :, None] + edges[1][:, None, :]
        then = tuple((j, self.choices[j]) for j in around)
        self._removed.append(_Removed(node=i, neighbours=then, best=np.argmin(total, axis=0)))
        least = total.min(axis=0)
        if not around:
            self.constant += float(least)
        elif len(around) == 1:
            self.costs[around[0]] = self.costs[around[0]] + least
        else:
            self._link(around[0], around[1], least)
        del self.neighbours[i]
