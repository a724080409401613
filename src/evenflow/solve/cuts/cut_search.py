"""Branch and bound on the cuts of the network, to decide whether a plan takes at most a target.

A mixture of paths through the dependency graph (shares that add up to 1) weighs every duration, and no plan is shorter
than the time so weighed. That time is a sum over ranks, so the plan of least weight is a shortest path through the cut
graph, found in microseconds. At each node, for its part of the cut graph,

1. a shortest path bounds all its plans, and arcs that are on no path within the target go;
2. the plan of that path and its own longest paths join the game of plans and paths (`cut_game`), whose solution weighs
   anew, until the bound exceeds the target or the value of the game says that it cannot;
3. then a cut on which the mixed plans disagree is split: at most here, or behind.

The bound of a node mixes whole plans with one cut between the chunks, so it is higher than that of the linear program
over columns, and it rises fast with every split.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np

from evenflow.schedule import NUM_OPS
from evenflow.simulate import Integers
from evenflow.simulate.compiled import compiled
from evenflow.solve.cuts.cut_game import Game, Mixture
from evenflow.solve.cuts.cut_graph import CutGraph
from evenflow.solve.cuts.cut_kernels import follow, sweep
from evenflow.solve.master.critical_paths import CriticalPaths
from evenflow.solve.master.matrix import Floats

_NOISE = 1e-9
"""Fraction by which a bound is lowered before it counts: it is a sum in floating point."""
_CLOSE = 1e-4
"""Fraction of the target: where bound and value of the game differ by less, splitting helps more than bounding."""
_REMEMBERED = 4
"""Number of mixtures that a node tries from the nodes above it, and of those that last refuted others, before it plays.
"""
_ROUNDS = 50
"""Most games solved after one new plan: within the solver's tolerance the same paths could return without end."""
_VIOLATION = 1e-5
"""Fraction by which a path must exceed the value of a game to be missing from it; less is within the tolerance."""
_WORTH_COPYING = 0.8
"""Fraction of the arcs left below which they are copied together."""
_SHARE = 1e-9
"""Share of a mixture below which a path is not handed down."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Node:
    """An open node: a part of the graph with the mixtures, plans and paths handed down to it."""

    arcs: Integers
    """Indices among the arcs of the whole graph, ascending."""
    ends: tuple[int, int]
    bound_ns: float
    mixtures: tuple[Floats, ...]
    """Best mixtures of the nodes above: mean counts of all durations and time of messages, each [num_slots + 1]."""
    plans: Integers
    """Arcs of mixed plans that are in this part, shape [num_plans, num_steps]."""
    paths: Floats
    """Mixed paths, shape [num_paths, num_slots + 1]."""


class _Part:
    """The part of the graph at the node being worked on, which loses arcs while its bound rises."""

    def __init__(self, whole: CutGraph, node: _Node) -> None:
        self.arcs, self.ends, self.bound_ns = node.arcs, node.ends, node.bound_ns
        self._whole = whole
        self.graph = whole.select(node.arcs)

    def keep(self, alive: Integers) -> None:
        """Drop all arcs but those at the indices `alive`."""
        self.arcs = self.arcs[alive]
        self.graph = self._whole.select(self.arcs)


class CutSearch:
    """A search for a plan that meets one target; it can be interrupted and resumed."""

    def __init__(self, graph: CutGraph, paths: CriticalPaths, *, target_ns: int) -> None:
        self.target_ns = target_ns
        self._graph, self._paths = graph, paths
        self._classes = graph.classes.ravel()
        self._behind = np.empty((len(graph.states), max(map(len, graph.states))))
        self._before = np.empty_like(self._behind)
        self._keep_going: Callable[[], bool] = lambda: True
        middle = np.concatenate([graph.durations_ns[graph.step(step)].mean(axis=0) for step in range(len(graph.ranks))])
        self._refuters = [self._longest(middle, above_ns=-1.0).mean(axis=0)]
        """Mixtures that refuted nodes, after an initial one."""
        every = np.arange(len(graph))
        no_plans = np.zeros((0, len(graph.ranks)), dtype=np.int64)
        no_paths = np.zeros((0, len(self._classes) + 1))
        self._open = [
            (0.0, number, _Node(arcs=every, ends=ends, bound_ns=0.0, mixtures=(), plans=no_plans, paths=no_paths))
            for number, ends in enumerate(graph.ends)
        ]
        """Heap of open nodes, least bound first."""
        self._numbers = count(len(self._open))
        self.found: list[tuple[int, int]] | None = None
        """Plan that meets the target: each rank with the index of its column."""

    @property
    def refuted(self) -> bool:
        """Whether it is proven that no plan of the graph meets the target."""
        return not self._open

    @property
    def bound_ns(self) -> float:
        """Lower bound on the plans of the graph that meet the target; infinite where there is none."""
        return self._open[0][0] * (1 - _NOISE) if self._open else float("inf")

    def run(self, keep_going: Callable[[], bool], report: Callable[[float], None]) -> None:
        """Search until a plan is `found`, the target is `refuted` or `keep_going` says no; `report` gets the bound."""
        self._keep_going = keep_going
        while self._open and keep_going():
            report(self.bound_ns)
            children = self._expand(self._open[0][2])
            if self.found is not None:
                return
            heapq.heappop(self._open)
            for child in children:
                heapq.heappush(self._open, (child.bound_ns, next(self._numbers), child))

    def _expand(self, node: _Node) -> list[_Node]:
        """Return the children of a node: none if all its plans exceed the target, or one that does not is found."""
        part = _Part(self._graph, node)
        known = (*self._refuters, *node.mixtures)
        if any(self._shortest(part, mixture) is None for mixture in known):
            return []
        game = Game(len(self._classes), self.target_ns, self._keep_going)
        game.add(paths=node.paths, plans=self._durations(node.plans))
        plans = [*node.plans]
        best_ns, mixture = 0.0, known[-1]
        best = mixture
        for turn in count(1):
            shortest = self._shortest(part, mixture)
            if shortest is None:
                self._refuters = [*self._refuters[1 - _REMEMBERED :], mixture]
                return []
            bound_ns, plan = shortest
            if bound_ns > best_ns:
                best_ns, best = bound_ns, mixture
            durations = self._durations(plan)
            if self._paths.makespan(self._by_class(durations)) <= self.target_ns:
                columns = self._graph.columns[plan].tolist()
                self.found = list(zip(self._graph.ranks, columns, strict=True))
                return []
            plans.append(plan)
            game.add(paths=self._longest(durations, above_ns=-1.0), plans=durations[np.newaxis])
            mixed = self._settle(game)
            if mixed.value_ns <= max(self.target_ns, best_ns + _CLOSE * self.target_ns) or not self._keep_going():
                break
            latest = mixed.paths @ game.paths
            # Between the best and the latest mixture the bound is steadier than at either.
            mixture = latest if turn % 3 == 0 else (best + latest) / 2
        paths = game.paths[mixed.paths > _SHARE]
        return self._split(part, (*node.mixtures[1 - _REMEMBERED :], best), np.array(plans), mixed.plans, paths)

    # 1. ---------------------------------------------------------------------------------------------------------

    def _shortest(self, part: _Part, mixture: Floats) -> tuple[float, Integers] | None:
        """Bound a part under a mixture and drop the arcs of no plan within the target.

        Returns the bound and the arcs of the plan that attains it; None when no arc is left.
        """
        graph, message_ns = part.graph, float(mixture[-1])
        lengths, alive = np.empty(len(graph)), np.empty(len(graph), dtype=np.bool_)
        compiled(sweep)(
            graph.starts,
            graph.sources,
            graph.targets,
            graph.durations_ns,
            mixture[:-1].reshape(graph.classes.shape),
            *part.ends,
            self.target_ns * (1 + _NOISE) - message_ns,
            self._behind,
            self._before,
            lengths,
            alive,
        )
        left = np.flatnonzero(alive)
        if not len(left):
            return None
        plan = np.zeros(len(graph.ranks), dtype=np.int64)
        compiled(follow)(graph.starts, graph.sources, graph.targets, lengths, self._behind, part.ends[0], plan)
        plan = part.arcs[plan]
        bound_ns = float(self._behind[0, part.ends[0]]) + message_ns
        part.bound_ns = max(part.bound_ns, bound_ns)
        if len(left) < _WORTH_COPYING * len(graph):
            part.keep(left)
        return bound_ns, plan

    # 2. ---------------------------------------------------------------------------------------------------------

    def _settle(self, game: Game) -> Mixture:
        """Solve the game; while its value does not exceed the target, add the paths it misses and solve again."""
        mixed = game.solve()
        for _ in range(_ROUNDS):
            if mixed.value_ns == 0 or mixed.value_ns > self.target_ns or not self._keep_going():
                break
            new = self._longest(mixed.plans @ game.plans, above_ns=mixed.value_ns * (1 + _VIOLATION))
            if not len(new):
                break
            game.add(paths=new)
            mixed = game.solve()
        return mixed

    def _durations(self, plans: Integers) -> Floats:
        """Return the durations of plans given by their arcs, shape [..., num_slots]."""
        return self._graph.durations_ns[plans].reshape(*plans.shape[:-1], len(self._classes))

    def _by_class(self, durations: Floats) -> Integers:
        """Return `durations` [num_slots] as a table by class, rounded down."""
        result = np.zeros(NUM_OPS * (int(self._classes.max()) // NUM_OPS + 1), dtype=np.int64)
        result[self._classes] = durations
        return result

    def _longest(self, durations: Floats, *, above_ns: float) -> Floats:
        """Return longest paths through each rank, shape [num_paths, num_slots + 1]."""
        paths = self._paths.count_longest(self._by_class(durations), above_ns=above_ns)
        rows = (paths.counts[:, self._classes], paths.messages_ns[:, np.newaxis])
        return np.concatenate(rows, axis=1).astype(np.float64)

    # 3. ---------------------------------------------------------------------------------------------------------

    def _split(
        self, part: _Part, mixtures: tuple[Floats, ...], plans: Integers, shares: Floats, paths: Floats
    ) -> list[_Node]:
        """Split a part with more than one plan into two that share none."""
        graph = self._graph
        cuts = np.stack([states[graph.targets[plans[:, step]]] for step, states in enumerate(graph.states[1:])], axis=1)
        mean = np.tensordot(shares, cuts, 1)
        spread = np.tensordot(shares, (cuts - mean) ** 2, 1)
        step, chunk = divmod(int(np.argmax(spread)), spread.shape[1])
        own = part.graph.step(step)
        positions = graph.states[step + 1][part.graph.targets[own], chunk]
        low = positions <= mean[step, chunk]
        if low.all() or not low.any():  # the plans agree on cuts, or nearly: halve the widest choice that is left
            step = int(np.argmax(np.diff(part.graph.starts)))
            own = part.graph.step(step)
            order = np.argsort(part.graph.durations_ns[own].sum(axis=1), kind="stable")
            low = np.zeros(len(order), dtype=np.bool_)
            low[order[: len(order) // 2]] = True
        children = []
        for side in (low, ~low):
            keep = np.ones(len(part.arcs), dtype=np.bool_)
            keep[own] = side
            arcs = part.arcs[keep]
            inside = np.isin(plans, arcs).all(axis=1)
            children.append(
                _Node(
                    arcs=arcs,
                    ends=part.ends,
                    bound_ns=part.bound_ns,
                    mixtures=mixtures,
                    plans=plans[inside],
                    paths=paths,
                )
            )
        return children
