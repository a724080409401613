"""Programs with one choice per node and a cost for each pair of choices along an edge, and at most one limit.

minimise    sum over nodes  cost[i][x_i]  +  sum over edges  cost[i, j][x_i, x_j]
subject to  sum over nodes  memory[i][x_i]  <=  limit
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evenflow.solve import Status

Costs = NDArray[np.float64]
"""Whole numbers, not negative, so that sums are exact; infinite where a choice is not allowed."""

Choices = tuple[int, ...]
"""The choice of each node."""


@dataclass(kw_only=True)
class Pairwise:
    """A program with one choice per node and costs of nodes and edges, built one by one."""

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

    @property
    def has_choices(self) -> bool:
        """Whether every node, taken alone, has an allowed choice."""
        return all(bool(np.isfinite(costs).any()) for costs in self.costs)

    def cost_of(self, choices: Sequence[int]) -> float:
        """Return the cost of one choice per node."""
        total = sum(float(costs[choice]) for costs, choice in zip(self.costs, choices, strict=True))
        return total + sum(float(costs[choices[i], choices[j]]) for (i, j), costs in self.edges.items())

    def memory_of(self, choices: Sequence[int]) -> int:
        """Return the memory of one choice per node."""
        return int(sum(float(memory[choice]) for memory, choice in zip(self.memory, choices, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheapest:
    """The cheapest choices that a search found, and its lower bound, not yet rounded to whole numbers."""

    choices: Choices | None = None
    """The cheapest choices that were found, one per node."""
    lower_bound: float = -np.inf
    """The cost that no choices undercut; infinite where none are allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseSolution:
    """The outcome of solving a program: its status, the cheapest choices met and the lower bound."""

    status: Status
    """Feasible: the time ran out, and `lower_bound` says how far the choices may be from the cheapest."""
    choices: Choices = ()
    cost: int = 0
    lower_bound: int = 0
