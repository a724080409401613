"""The game of plans and paths of a part of a cut graph (see `cut_game`), which bounds its plans or yields one in time.

The plan that is shortest under a mixture of paths and the longest paths of that plan join the game, whose solution
mixes anew, until the bound exceeds the target or the value of the game says that it cannot.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from evenflow.schedule import NUM_OPS
from evenflow.simulate import Integers
from evenflow.solve.cuts.cut_game import Game
from evenflow.solve.cuts.cut_graph import CutGraph
from evenflow.solve.cuts.cut_part import CutPart
from evenflow.solve.master.critical_paths import CriticalPaths
from evenflow.solve.master.matrix import Floats

_CLOSE = 1e-4
"""Fraction of the target: where bound and value of the game differ by less, splitting helps more than bounding."""
_VIOLATION = 1e-5
"""Fraction by which a path must exceed the value of a game to be missing from it; less is within the tolerance."""


class Played(NamedTuple):
    """The end of a game: a refuter, a plan, or neither and what is known of the game."""

    best: Floats
    """Mixture that bounds best."""
    plans: Integers
    """Plans of the game, as arcs of the part's whole graph, shape [num_plans, num_steps]."""
    shares: Floats
    """Share of each in the best mixture of plans."""
    paths: Floats
    """Paths of the game, shape [num_paths, num_slots + 1]."""
    path_shares: Floats
    """Share of each in the best mixture of paths."""
    refuter: Floats | None = None
    """Mixture under which all plans exceed the target."""
    plan: Integers | None = None
    """Plan within the target."""


class Player:
    """Plays the games of one target, with the longest paths that `paths` measures."""

    def __init__(self, paths: CriticalPaths, classes: Integers, *, target_ns: int) -> None:
        """Prepare games of durations of these `classes` (see `CutGraph`)."""
        self._paths, self._classes = paths, classes.ravel()
        self._num_classes = NUM_OPS * (int(classes.max()) // NUM_OPS + 1)
        self._target_ns = target_ns
        self.keep_going: Callable[[], bool] = lambda: True
        """Games end when it says no."""

    def durations(self, graph: CutGraph, plans: Integers) -> Floats:
        """Return the durations of plans given by their arcs, shape [..., num_slots]."""
        return graph.durations_ns[plans].reshape(*plans.shape[:-1], len(self._classes))

    def longest(self, durations: Floats, *, above_ns: float = -1.0) -> Floats:
        """Return longest paths through each rank, shape [num_paths, num_slots + 1]."""
        paths = self._paths.count_longest(self._by_class(durations), above_ns=above_ns)
        rows = (paths.counts[:, self._classes], paths.messages_ns[:, np.newaxis])
        return np.concatenate(rows, axis=1).astype(np.float64)

    def _is_within(self, durations: Floats) -> bool:
        """Return whether a step with these durations [num_slots] takes at most the target."""
        return self._paths.makespan(self._by_class(durations)) <= self._target_ns

    def _by_class(self, durations: Floats) -> Integers:
        """Return `durations` [num_slots] as a table by class, rounded down."""
        result = np.zeros(self._num_classes, dtype=np.int64)
        result[self._classes] = durations
        return result

    def play(
        self, part: CutPart, mixtures: Sequence[Floats], *, plans: Integers, paths: Floats, most_turns: int
    ) -> Played:
        """Play the game of a part, which loses arcs, with these plans and paths in it from the beginning.

        The `mixtures`, at least one of them, are tried first.
        """
        begun = Played(mixtures[-1], plans, np.zeros(len(plans)), paths, np.zeros(len(paths)))
        for mixture in mixtures:
            if part.shortest(mixture) is None:
                return begun._replace(refuter=mixture)
        game = Game(len(self._classes), self._target_ns, self.keep_going)
        game.add(paths=paths, plans=self.durations(part.whole, plans))
        met = [*plans]
        best_ns, mixture = 0.0, mixtures[-1]
        best = mixture
        for turn in range(1, most_turns + 1):
            shortest = part.shortest(mixture)
            if shortest is None:
                return begun._replace(refuter=mixture)
            bound_ns, plan = shortest
            if bound_ns > best_ns:
                best_ns, best = bound_ns, mixture
            durations = self.durations(part.whole, plan)
            if self._is_within(durations):
                return begun._replace(plan=plan)
            met.append(plan)
            game.add(paths=self.longest(durations), plans=durations[np.newaxis])
            mixed, known = game.solve(), game.paths
            mean = mixed.plans @ game.plans
            # No mixture of paths refutes plans that have a mixture within the target.
            if self._is_within(mean) or not self.keep_going():
                break
            missed = self.longest(mean, above_ns=mixed.value_ns * (1 + _VIOLATION))
            if len(missed):
                game.add(paths=missed)
            elif mixed.value_ns <= max(self._target_ns, best_ns + _CLOSE * self._target_ns):
                break
            latest = mixed.paths @ known
            # Between the best and the latest mixture the bound is steadier than at either.
            mixture = latest if turn % 3 == 0 else (best + latest) / 2
        return Played(best, np.array(met), mixed.plans, known, mixed.paths)
