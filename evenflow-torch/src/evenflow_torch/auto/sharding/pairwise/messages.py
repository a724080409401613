"""Message passing on a program: bounds that rise, choices that improve, and choices that no optimum can have.

Amounts move between nodes and edges so that the cost of every solution stays what it is, and the sum of all least
costs, a lower bound, rises. Choices read off on the way are solutions. Where both meet, the program is solved; else
choices are dropped with which, as the bound says, no solution beats the best one known.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate.compiled import compiled
from evenflow_torch.auto.sharding.pairwise.message_kernel import bound, settle, survivors, sweep, value
from evenflow_torch.auto.sharding.pairwise.program import Choices, Costs, Pairwise

_EXACT = 2.0**51
"""Multiples of a unit add up exactly as long as they are far below 2**53 of it."""
_ROOM = 2.0**9
"""Amounts that choices of no solution may gather, in costs of the dearest solution."""
_SWEEPS = 4
"""Sweeps there and back between two looks at the bound."""
_MOST_ROUNDS = 50
_LEAST_GAIN = 0.05
"""A round that closes less than this share of the gap is slow, and usually the last one."""
_PATIENCE = 10
"""Slow rounds one after the other that end a patient ascent."""

Positions = NDArray[np.int64]
"""The choice of each node, counted among those that are allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A program with only some choices of another one, and the way back to that one's choices."""

    program: Pairwise
    kept: tuple[NDArray[np.intp], ...]
    """For each node, the choices of the whole program that its choices stand for."""

    def expand(self, choices: Choices) -> Choices:
        """Return the choices of the rest as choices of the whole program."""
        return tuple(int(kept[choice]) for kept, choice in zip(self.kept, choices, strict=True))


class Messages:
    """A program of the allowed choices in which message passing has moved costs between nodes and edges.

    Every node must have an allowed choice.
    """

    def __init__(self, program: Pairwise) -> None:
        self.allowed = [np.flatnonzero(np.isfinite(costs)) for costs in program.costs]
        """The choices of the program that are allowed, by node."""
        self._costs = _flat(program.costs, self.allowed)
        self._memory = _flat(program.memory, self.allowed)
        self._first = _starts([len(kept) for kept in self.allowed])
        self._ends = np.array(sorted(program.edges), dtype=np.int64).reshape(-1, 2)
        ends = self._ends.tolist()
        tables = [program.edges[i, j][np.ix_(self.allowed[i], self.allowed[j])].ravel() for i, j in ends]
        self._place = _starts([len(table) for table in tables])
        self._pair = np.concatenate([np.zeros(0), *tables])
        around: list[list[int]] = [[] for _ in self.allowed]
        for edge, (i, j) in enumerate(ends):
            around[i].append(edge)
            around[j].append(edge)
        self._around_first = _starts([len(edges) for edges in around])
        self._around = np.array([edge for edges in around for edge in edges], dtype=np.int64)
        self._potential = self._costs.copy()
        self._dearest_pairs = sum(float(table[np.isfinite(table)].max(initial=0.0)) for table in tables)
        self._set_unit()
        self.is_exact = True
        """False once amounts were met that are too large to add up."""

    def change_costs(self, costs: Sequence[Costs]) -> bool:
        """Take other costs of nodes and keep the messages; False if they do not allow the same choices."""
        allowed = [np.flatnonzero(np.isfinite(table)) for table in costs]
        if not all(map(np.array_equal, allowed, self.allowed)):
            return False
        changed = _flat(costs, allowed)
        self._potential += changed - self._costs
        self._costs = changed
        self._set_unit()
        return True

    def ascend(
        self, best: Positions | None, deadline: float, *, patient: bool = False
    ) -> tuple[float, Positions | None]:
        """Raise the bound until it meets the best solution or hardly rises; return both.

        The bound is infinite where nothing is allowed. A patient ascent goes on after a slow round, since faster ones
        may follow.
        """
        lower, largest = self._bound()
        cost = np.inf if best is None else self.cost_of(best)
        best = best if cost < np.inf else None
        met = np.zeros(len(self.allowed), dtype=np.int64)
        no_memory = np.zeros_like(self._memory)
        slow = 0
        for _round in range(_MOST_ROUNDS):
            gap = cost - lower
            for forward in (True, False) * _SWEEPS:
                largest += compiled(sweep)(*self._tables, forward, self._unit, met)
                if largest > _EXACT * min(1.0, self._unit):
                    self.is_exact = False
                    return lower, best
                compiled(settle)(*self._tables, no_memory, met)
                if self.cost_of(met) < cost:
                    best, cost = met.copy(), self.cost_of(met)
            lower, largest = self._bound()
            slow = slow + 1 if cost - lower > (1 - _LEAST_GAIN) * gap else 0
            if lower > cost - 1 or slow == (_PATIENCE if patient else 1) or time.monotonic() > deadline:
                break
        return lower, best

    def cost_of(self, choices: Positions) -> float:
        """Return the cost of one choice per node."""
        cost: float = compiled(value)(self._potential, self._first, self._pair, self._place, self._ends, choices)
        return cost

    def settled(self, choices: Choices) -> Choices:
        """Improve allowed choices, one node at a time, until no change costs less, or as much with less memory.

        No change takes more memory.
        """
        positions = self.among_allowed(choices)
        assert positions is not None
        compiled(settle)(*self._tables, self._memory, positions)
        return self.among_all(positions)

    def among_allowed(self, choices: Choices) -> Positions | None:
        """Return choices as positions among the allowed ones; None if one of them is not allowed."""
        positions = [np.flatnonzero(kept == choice) for kept, choice in zip(self.allowed, choices, strict=True)]
        return np.array(positions, dtype=np.int64)[:, 0] if all(map(len, positions)) else None

    def among_all(self, positions: Positions) -> Choices:
        """Return positions among the allowed choices as choices of the program."""
        return tuple(int(kept[position]) for kept, position in zip(self.allowed, positions.tolist(), strict=True))

    def rest(self, slack: float) -> Rest | None:
        """Return the program of only those choices that a solution within `slack` of the bound may have.

        None if a node has none. Its solutions cost what they cost here.
        """
        alive = np.zeros(len(self._potential), dtype=np.bool_)
        compiled(survivors)(*self._tables, float(slack), alive)
        kept = [np.flatnonzero(alive[start:end]) for start, end in pairwise(self._first.tolist())]
        if not all(map(len, kept)):
            return None
        starts = self._first.tolist()[:-1]
        rest = Pairwise(
            costs=[self._potential[start + positions] for start, positions in zip(starts, kept, strict=True)],
            memory=[self._memory[start + positions] for start, positions in zip(starts, kept, strict=True)],
        )
        for (i, j), (start, end) in zip(self._ends.tolist(), pairwise(self._place.tolist()), strict=True):
            table = self._pair[start:end].reshape(len(self.allowed[i]), len(self.allowed[j]))
            rest.edges[i, j] = table[np.ix_(kept[i], kept[j])]
        return Rest(
            program=rest, kept=tuple(those[positions] for those, positions in zip(self.allowed, kept, strict=True))
        )

    def _set_unit(self) -> None:
        """Set the unit of all amounts to the power of two that leaves enough room for exact sums."""
        dearest = self._dearest_pairs + sum(
            float(self._costs[start:end].max()) for start, end in pairwise(self._first.tolist())
        )
        self._unit = 2.0 ** math.ceil(math.log2(max(1.0, dearest) * _ROOM / _EXACT))

    @property
    def _tables(self) -> tuple[Any, ...]:
        return self._potential, self._first, self._pair, self._place, self._ends, self._around, self._around_first

    def _bound(self) -> tuple[float, float]:
        bounds: tuple[float, float] = compiled(bound)(self._potential, self._first, self._pair, self._place)
        return bounds


def _flat(values: Sequence[Costs], kept: Sequence[NDArray[np.intp]]) -> Costs:
    return np.concatenate([table[those] for table, those in zip(values, kept, strict=True)]).astype(np.float64)


def _starts(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
