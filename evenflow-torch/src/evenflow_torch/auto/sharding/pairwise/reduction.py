"""Reduces a program by everything that can be settled exactly without search.

A choice is dropped where another one of its node is never dearer, whatever the neighbours choose. A node with at most
two neighbours is solved for every pair of their choices and becomes an edge between them, and one with a single choice
becomes a cost of its neighbours. Under a limit nodes that differ in memory stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow_torch.auto.sharding.pairwise.program import Costs, Pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Removed:
    """A removed node with its best choice for all choices of its at most two neighbours, as a table."""

    node: int
    neighbours: tuple[tuple[int, NDArray[np.intp]], ...]
    """The neighbours, with the choices that each had left at that moment."""
    best: NDArray[np.intp]


class Reduction:
    """A program that shrinks, and the way back from its choices to those of the whole program."""

    def __init__(self, program: Pairwise, *, keep_memory: bool) -> None:
        """`keep_memory`: there is a limit, so what a choice needs matters as much as what it costs."""
        self.keep_memory = keep_memory
        self.constant: float = 0.0
        """The cost of all that is settled; infinite where there is no solution."""
        self.memory_constant: float = 0.0
        self.choices = [np.arange(len(costs)) for costs in program.costs]
        """The choices that each node has left."""
        self.costs = dict(enumerate(program.costs))
        self.memory = dict(enumerate(program.memory))
        self.neighbours: dict[int, dict[int, Costs]] = {i: {} for i in self.costs}
        for (i, j), costs in program.edges.items():
            self._link(i, j, costs)
        self._removed: list[_Removed] = []
        self._reduce()

    def rest(self) -> Pairwise:
        """Return what is left of the program, with nodes in the order of `costs`."""
        position = {i: at for at, i in enumerate(self.costs)}
        rest = Pairwise(costs=list(self.costs.values()), memory=list(self.memory.values()))
        for i, edges in self.neighbours.items():
            for j, costs in edges.items():
                if i < j:
                    rest.edge(position[i], position[j], costs)
        return rest

    def expand(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """Return the choices of all nodes of the program, from those of `rest`."""
        result = {i: int(self.choices[i][choice]) for i, choice in zip(self.costs, chosen, strict=True)}
        for removed in reversed(self._removed):
            place = tuple(int(np.flatnonzero(then == result[j])[0]) for j, then in removed.neighbours)
            result[removed.node] = int(self.choices[removed.node][removed.best[place]])
        return tuple(result[i] for i in range(len(self.choices)))

    def _link(self, i: int, j: int, costs: Costs) -> None:
        if j in self.neighbours[i]:
            costs = costs + self.neighbours[i][j]
        self.neighbours[i][j] = costs
        self.neighbours[j][i] = costs.T

    def _reduce(self) -> None:
        waiting = set(self.costs)
        while waiting:
            i = min(waiting, key=lambda node: (len(self.neighbours[node]), node))
            waiting.discard(i)
            changed = set(self.neighbours[i]) if self._prune(i) else set()
            if not len(self.costs[i]):
                self.constant = np.inf  # no choice is left: there is no solution
                return
            if len(self.costs[i]) == 1 or (len(self.neighbours[i]) <= 2 and not self._differs_in_memory(i)):
                changed |= set(self.neighbours[i])
                self._remove(i)
            waiting |= changed

    def _differs_in_memory(self, i: int) -> bool:
        return self.keep_memory and bool(np.ptp(self.memory[i]))

    def _prune(self, i: int) -> bool:
        """Drop the dominated choices of node i; tell whether there were any."""
        costs = self.costs[i]
        alive = np.isfinite(costs)
        if len(costs) > 1:
            margin = self._margins(i)
            for a in reversed(range(len(costs))):
                if alive[a]:
                    alive[a] = False
                    alive[a] = not (alive & (margin[a] >= 0)).any()
        if alive.all():
            return False
        self._keep(i, np.flatnonzero(alive))
        return True

    def _margins(self, i: int) -> Costs:
        """Return by how much choice a of node i is at least dearer than choice b, at [a, b]."""
        costs = self.costs[i]
        with np.errstate(invalid="ignore"):
            margin = costs[:, None] - costs[None, :]
            np.nan_to_num(margin, copy=False, nan=np.inf, posinf=np.inf, neginf=-np.inf)
            for edge in self.neighbours[i].values():
                difference = edge[:, None, :] - edge[None, :, :]
                difference[np.isnan(difference)] = np.inf  # neither of the two goes with this choice of the neighbour
                margin += difference.min(axis=2)
        if self.keep_memory:
            margin[self.memory[i][:, None] < self.memory[i][None, :]] = -np.inf
        return margin

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
        costs, memory, edges = self.costs.pop(i), self.memory.pop(i), self.neighbours.pop(i)
        self.memory_constant += float(memory[0]) if self.keep_memory else 0.0
        if len(costs) == 1:
            self._removed.append(_Removed(node=i, neighbours=(), best=np.array(0)))
            self.constant += float(costs[0])
            for j in around:
                self.costs[j] = self.costs[j] + edges[j][0]
            return
        then = tuple((j, self.choices[j]) for j in around)
        if not around:
            total = costs
        elif len(around) == 1:
            total = costs[:, None] + edges[around[0]]
        else:
            total = costs[:, None, None] + edges[around[0]][:, :, None] + edges[around[1]][:, None, :]
        self._removed.append(_Removed(node=i, neighbours=then, best=np.argmin(total, axis=0)))
        least = total.min(axis=0)
        if not around:
            self.constant += float(least)
        elif len(around) == 1:
            self.costs[around[0]] = self.costs[around[0]] + least
        else:
            self._link(around[0], around[1], least)
