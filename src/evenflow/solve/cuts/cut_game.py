"""The linear program that mixes plans so that the longest path is as short as possible.

It is a matrix game. One player mixes plans, the other mixes paths through the dependency graph, and an entry is the
time of a path under a plan. The second player's best mixture is the relaxation that bounds all plans best
(Dantzig-Wolfe; Lagrangian duality).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenflow.solve.backends.highs import INFINITY
from evenflow.solve.backends.incremental import LinearProgram
from evenflow.solve.backends.packed import Packed, empty
from evenflow.solve.master.matrix import Floats

_SCALE = 1000.0
"""Size of the usual entry: the solver's tolerances are absolute and suit numbers of this size."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Mixture:
    """The solution of a game: its value and the best mixture of either player."""

    value_ns: float
    plans: Floats
    """Share of each plan."""
    paths: Floats
    """Share of each path."""


class Game:
    """A game of plans and paths as a linear program; plans and paths are added between solves."""

    def __init__(self, num_slots: int, scale_ns: float, keep_going: Callable[[], bool]) -> None:
        """Set up a game of plans with `num_slots` durations, where `scale_ns` is `_SCALE` in the program."""
        self._factor = _SCALE / scale_ns
        self.plans: Floats = np.zeros((0, num_slots))
        """Durations in ns, shape [num_plans, num_slots]."""
        self.paths: Floats = np.zeros((0, num_slots + 1))
        """Counts of each duration, then the time of messages in ns; shape [num_paths, num_slots + 1]."""
        self._program = LinearProgram(keep_going)
        self._program.add_rows(np.ones(1), np.ones(1), empty(1))
        self._program.add_columns(np.ones(1), empty(1))

    def add(self, *, paths: Floats, plans: Floats | None = None) -> None:
        """Add paths and plans, in the shapes of the attributes."""
        if plans is not None and len(plans):
            columns = np.concatenate((np.ones((len(plans), 1)), self._entries(self.paths, plans).T), axis=1)
            self._program.add_columns(np.zeros(len(plans)), _dense(columns))
            self.plans = np.concatenate((self.plans, plans))
        if len(paths):
            rows = np.concatenate((np.ones((len(paths), 1)), self._entries(paths, self.plans)), axis=1)
            self._program.add_rows(np.zeros(len(paths)), np.full(len(paths), INFINITY), _dense(rows))
            self.paths = np.concatenate((self.paths, paths))

    def _entries(self, paths: Floats, plans: Floats) -> Floats:
        """Return the entries of paths (rows) under plans (columns): minus the time of each path under each plan."""
        entries: Floats = -self._factor * (paths[:, :-1] @ plans.T + paths[:, -1:])
        return entries

    def solve(self) -> Mixture:
        """Return the best mixtures, or even ones of value 0 after numerical trouble or when there is no time."""
        solution = self._program.solve()
        if solution is not None:
            # Shares of paths are made exact: then they bound whatever the solver's precision was.
            shares = np.maximum(solution.duals[1:], 0.0)
            if shares.sum() > 0:
                return Mixture(
                    value_ns=solution.objective / self._factor,
                    plans=solution.values[1:],
                    paths=shares / shares.sum(),
                )
        even = [np.full(len(strategies), 1 / max(1, len(strategies))) for strategies in (self.plans, self.paths)]
        return Mixture(value_ns=0.0, plans=even[0], paths=even[1])


def _dense(vectors: Floats) -> Packed:
    """Return vectors packed with all their entries, zeros included."""
    count, size = vectors.shape
    return Packed(
        starts=np.arange(0, count * size + 1, size), indices=np.tile(np.arange(size), count), entries=vectors.ravel()
    )
