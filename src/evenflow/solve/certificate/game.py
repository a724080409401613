"""The game of plans and paths (see `evenflow.solve.cuts.play`), of which every mixture can be written down."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import Integers
from evenflow.simulate.compiled import compiled
from evenflow.solve.certificate.path_book import Counts, PathBook
from evenflow.solve.clock import spend
from evenflow.solve.cuts.cut_kernels import follow, sweep
from evenflow.solve.cuts.cut_part import NOISE
from evenflow.verify import ContentGraph

Shares = dict[int, float]
"""Shares of numbered paths."""
_CLOSE = 1e-4
"""Fraction of the target: where bound and value of the game differ by less, splitting helps more."""
_MOST_PATHS = 400
"""Paths that join a game at most."""
_MARGIN = 1e-6
"""Fraction by which plans must exceed a target in a game, so that they still do when shares are rounded."""
_VIOLATION = 1e-5
"""Fraction by which a path must exceed the longest one of a game to be missing from it."""

_TURN_SECONDS, _ARC_SECONDS = 3e-3, 2e-8
"""Work of a turn, beside that by the number of arcs."""


class GameEnd(NamedTuple):
    """The end of a game."""

    shares: Shares
    """The mixture that bounds best."""
    plans: Integers
    """Times of the plans against it, [num_plans, num_steps, 4 * num_chunks]."""
    plan_shares: Counts
    """Their shares, [num_plans]."""
    refuted: bool = False
    """Whether all plans exceed the target under it."""
    within: bool = False
    """Whether there is a plan within the target."""
    near: Sequence[int] = ()
    """Paths that nearly belong to it."""


class Sweeper:
    """Shortest paths in graphs of contents, compiled; in floating point, so that no arc goes that may stay."""

    def __init__(self, graph: ContentGraph) -> None:
        """Prepare for one graph."""
        self.graph = graph
        size = len(graph.states), max(map(len, graph.states))
        self._behind, self._before = np.empty(size), np.empty(size)
        self._lengths = np.empty(len(graph.sources))
        self._alive = np.empty(len(graph.sources), dtype=np.bool_)

    def alive(self, mixture: Counts, most_ns: float) -> NDArray[np.bool_]:
        """Return which arcs are on a plan of at most `most_ns` under a mixture [num_slots + 1]."""
        graph = self.graph
        weights = np.ascontiguousarray(mixture[:-1].reshape(len(graph.states) - 1, -1))
        limit = most_ns * (1 + NOISE) - float(mixture[-1])
        compiled(sweep)(
            graph.starts, graph.sources, graph.targets, graph.durations, weights, limit, self._behind, self._before,
            self._lengths, self._alive,
        )  # fmt: skip
        return self._alive

    @property
    def shortest_ns(self) -> float:
        """Length of the shortest plan, without messages, under the last mixture."""
        return float(self._behind[0, 0])

    def shortest(self) -> Integers:
        """Return the arcs of the shortest plan under the last mixture."""
        graph = self.graph
        arcs = np.zeros(len(graph.states) - 1, dtype=np.int64)
        compiled(follow)(graph.starts, graph.sources, graph.targets, self._lengths, self._behind, arcs)
        return arcs


def play(
    graph: ContentGraph, book: PathBook, shares: Shares, *, target_ns: int, most_turns: int, near: Sequence[int] = ()
) -> GameEnd:
    """Play for the plans of a graph, beginning with a mixture; `near` are further paths that are in the game."""
    from evenflow.solve.cuts.game_kernel import mix

    sweeper, goal_ns = Sweeper(graph), target_ns * (1 + _MARGIN)
    numbers = list(dict.fromkeys([*shares, *near]))
    size = len(numbers) + _MOST_PATHS
    paths = np.zeros((size, book.num_slots + 1))
    paths[: len(numbers)] = book.counts(numbers)
    place_of = {number: place for place, number in enumerate(numbers)}
    plans = np.zeros((most_turns, book.num_slots), dtype=np.int64)
    times = np.zeros((size, most_turns))
    plan_regrets, path_regrets = np.zeros(most_turns), np.zeros(size)
    plan_shares, path_shares = np.zeros(most_turns), np.zeros(size)
    latest = np.zeros(size)
    latest[: len(numbers)] = [shares.get(number, 0.0) for number in numbers]
    best, best_ns = latest.copy(), 0.0

    def ended(own: Counts, *, refuted: bool = False, within: bool = False) -> GameEnd:
        mixed = {numbers[place]: float(own[place]) for place in np.flatnonzero(own[: len(numbers)])}
        near = [numbers[place] for place in np.flatnonzero(path_regrets[: len(numbers)])]
        used = np.flatnonzero(plan_shares)
        against = plans[used].reshape(len(used), len(graph.states) - 1, graph.durations.shape[1])
        return GameEnd(mixed, against, plan_shares[used], refuted, within, near)

    for turn in range(most_turns):
        spend(_TURN_SECONDS + len(graph.sources) * _ARC_SECONDS)
        mixture = latest @ paths
        if not sweeper.alive(mixture, goal_ns).any():
            return ended(latest, refuted=True)
        bound_ns = sweeper.shortest_ns + float(mixture[-1])
        if bound_ns > best_ns:
            best, best_ns = latest.copy(), bound_ns
        plans[turn] = graph.durations[sweeper.shortest()].ravel()
        times[: len(numbers), turn] = (paths[: len(numbers)] @ np.append(plans[turn], 1)) / goal_ns - 1
        value, above = 0.0, -1
        for of_mean in (False, True):
            durations = plans[turn]
            if of_mean:
                durations = np.floor(plan_shares[: turn + 1] @ plans[: turn + 1]).astype(np.int64)
            durations = durations.reshape(len(graph.states) - 1, -1)
            longest_ns = book.makespan_ns(durations)
            if longest_ns <= (goal_ns if of_mean else target_ns):
                return ended(best, within=not of_mean)
            if longest_ns > above:
                for number in book.longest(durations, above_ns=above):
                    if number not in place_of and len(numbers) < size:
                        place_of[number] = len(numbers)
                        paths[len(numbers)] = book.counts([number])[0]
                        times[len(numbers), : turn + 1] = (
                            plans[: turn + 1] @ paths[len(numbers), :-1] + paths[len(numbers), -1]
                        ) / goal_ns - 1
                        numbers.append(number)
            elif value <= max(goal_ns, best_ns + _CLOSE * goal_ns):
                return ended(best)
            if not of_mean:
                value = mix(
                    times, plan_regrets, path_regrets, plan_shares, path_shares, turn + 1, len(numbers), goal_ns
                )
                above = int(value * (1 + _VIOLATION))
        latest = path_shares.copy() if (turn + 1) % 3 == 0 else (best + path_shares) / 2
    return ended(best)
