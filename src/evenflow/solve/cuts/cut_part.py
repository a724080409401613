"""The part of a cut graph that a search works on; it loses arcs while its bound rises."""

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import Integers
from evenflow.solve.clock import spend
from evenflow.solve.cuts.cut_graph import CutGraph
from evenflow.solve.master.matrix import Floats

NOISE = 1e-9
"""Fraction by which a bound is lowered before it counts: it is a sum in floating point."""
WORTH_COPYING = 0.8
"""Fraction of the arcs left below which they are copied together."""
_ARC_SECONDS = 1e-8
"""Work to look at one arc under a mixture."""


class CutPart:
    """Some arcs of a cut graph, and a bound on the plans of them that meet a target."""

    def __init__(
        self,
        whole: CutGraph,
        arcs: NDArray[np.int32],
        *,
        target_ns: int,
        bound_ns: float,
        graph: CutGraph | None = None,
    ) -> None:
        """Take these arcs of `whole`, indices in ascending order; `graph` is the graph of them, if there is one."""
        self.whole, self.arcs, self.target_ns, self.bound_ns = whole, arcs, target_ns, bound_ns
        self.graph = whole.select(arcs) if graph is None else graph

    def keep(self, alive: Integers) -> None:
        """Drop all arcs but those at the indices `alive`."""
        self.arcs = self.arcs[alive]
        self.graph = self.graph.select(alive)

    def states_behind(self, step: int) -> NDArray[np.int32]:
        """Return the states behind a step, indices into ``graph.states[step + 1]``."""
        return np.unique(self.graph.targets[self.graph.step(step)])

    def through(self, step: int, state: int) -> "CutPart":
        """Return the plans that have this state behind the step."""
        chosen = np.flatnonzero(self._meets(step, state))
        return CutPart(
            self.whole,
            self.arcs[chosen],
            target_ns=self.target_ns,
            bound_ns=self.bound_ns,
            graph=self.graph.select(chosen),
        )

    def avoid(self, step: int, state: int) -> None:
        """Drop the plans that have this state behind the step."""
        beside = ~self._meets(step, state)
        beside[: self.graph.starts[step]] = True
        beside[self.graph.starts[step + 2] :] = True
        self.keep(np.flatnonzero(beside))

    def _meets(self, step: int, state: int) -> NDArray[np.bool_]:
        """Return which arcs do not go past a state behind a step."""
        graph = self.graph
        result = np.ones(len(graph), dtype=np.bool_)
        before, behind = graph.step(step), graph.step(step + 1)
        result[before] = graph.targets[before] == state
        result[behind] = graph.sources[behind] == state
        return result

    def narrow(self, mixture: Floats) -> bool:
        """Drop the arcs of no plan within the target under a mixture; returns whether any are left."""
        weights, limit = self._weigh(mixture)
        alive = np.flatnonzero(self.graph.sweep(weights, limit=limit).alive)
        if len(alive) < len(self.graph):
            self.keep(alive)
        return len(alive) > 0

    def shortest(self, mixture: Floats) -> tuple[float, Integers] | None:
        """Bound the part under a mixture and drop arcs of no plan within the target, where they are many.

        Returns the bound and the arcs, of `whole`, of the plan that attains it; None when no arc is left.
        """
        weights, limit = self._weigh(mixture)
        path = self.graph.shortest(weights, limit=limit)
        if path is None:
            return None
        plan = self.arcs[path.arcs].astype(np.int64)
        bound_ns = path.length + float(mixture[-1])
        self.bound_ns = max(self.bound_ns, bound_ns)
        if len(path.within) < WORTH_COPYING * len(self.graph):
            self.keep(path.within)
        return bound_ns, plan

    def _weigh(self, mixture: Floats) -> tuple[Floats, float]:
        """Return the weights of durations under a mixture, and how long a path within the target is at most."""
        spend(len(self.graph) * _ARC_SECONDS)
        weights = mixture[:-1].reshape(self.graph.classes.shape)
        return weights, self.target_ns * (1 + NOISE) - float(mixture[-1])
