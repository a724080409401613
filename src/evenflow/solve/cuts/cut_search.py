"""Branch and bound on the cuts of the network, to decide whether a plan takes at most a target.

A mixture of paths through the dependency graph (shares that add up to 1) weighs every duration, and no plan is shorter
than the time so weighed. That time is a sum over ranks, so the plan of least weight is a shortest path through a cut
graph, found in microseconds. The graphs, one for each cut between the chunks, are the first nodes; at each node, for
its part of a cut graph,

1. arcs go by which a rank alone would exceed the target (`rank_alone`), or that are on no path within it under a
   mixture that has refuted others (`refuters`);
2. the game of plans and paths (`play`) looks for a mixture that refutes the rest, too;
3. all plans that are left are tried for a moment, from the first rank on and from the last (`trial`); then the game is
   played for the plans through each state of the graph, and those that are left are tried again; where that says no
   more, the plans through the states of one step are decided, one state after the other, in the same way;
4. where there are too many plans to remember what was tried, the part is split in two: the plans in which a rank keeps
   to a threshold, and those in which it does not.

The bound of a node mixes whole plans with one cut between the chunks, so it is higher than that of the linear program
over columns, and it rises fast with every split.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import permutations
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import Integers
from evenflow.solve.clock import counts_work, now_s
from evenflow.solve.cuts.cut_graph import CutGraph, CutGraphs, middles_outwards
from evenflow.solve.cuts.cut_part import NOISE, CutPart
from evenflow.solve.cuts.frontier import Frontier, OpenNode, Threshold
from evenflow.solve.cuts.play import Played, Player
from evenflow.solve.cuts.refuters import Refuters
from evenflow.solve.cuts.trial import Trial, may_try
from evenflow.solve.master.critical_paths import CriticalPaths
from evenflow.solve.master.matrix import Floats

_REMEMBERED = 4
"""Number of mixtures that a node tries from the nodes above it before it plays."""
_TRIAL_S, _STATE_TRIAL_S = 0.3, 0.1
"""Seconds of a trial of a whole part, and of the plans through one of its states."""
_WORTH_LOOKING_AGAIN = 0.7
"""Fraction of the arcs left above which the states of a part are not looked at again."""
_TRIED_MIXTURES = 40
"""Mixtures that bound the plans of a trial beside single paths."""
_PROBE_TURNS = 40
"""Most turns of the game of the plans through a state."""
_MOST_TURNS = 300
"""Most games of a node: within the solver's tolerance the same plans and paths could return without end."""
_WORTH_NARROWING = 0.8
"""Fraction of the arcs left above which ranks alone are not looked at again."""
_WORTH_KEEPING = 0.25
"""Fraction of the arcs of a graph left below which the parts of a node get a graph of their own."""
_MOST_ARCS = 20_000_000
"""Most arcs of all graphs together: about a gigabyte and a half."""
_FEW = 0.05
"""Share of the mixed plans that may exceed a threshold at a rank without its being split."""
_SHARE = 1e-9
"""Share of a mixture below which a path is not handed down."""
_MOST_THREADS = 4
"""Threads of a search at most: each may have a trial, which takes memory."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Split:
    """A split of a part of the graph in two, by the arcs of a step."""

    step: int
    low: NDArray[np.bool_]
    """Which of its arcs are in the first part, shape [num_arcs]."""
    threshold: Threshold | None


class CutSearch:
    """A search for a plan that meets one target; it can be interrupted and resumed."""

    def __init__(
        self,
        graphs: CutGraphs,
        paths: CriticalPaths,
        *,
        target_ns: int,
        middles: Sequence[int],
        mixtures: Sequence[Floats] = (),
        refuters: Refuters | None = None,
    ) -> None:
        """Prepare a search of the graphs whose first chunk ends at one of `middles`, the last of them first.

        `mixtures` of paths are known to bound plans well: mean counts of every class of durations (see `Graph`), then
        the time of messages in ns; shape [NUM_OPS * num_cells + 1] each. `refuters` are those of earlier searches of
        the same problem, which this one adds to.
        """
        self.target_ns = target_ns
        self.graphs = graphs
        self._keep_going: Callable[[], bool] = lambda: True
        self._player = Player(paths, graphs.classes, target_ns=target_ns)
        classes = graphs.classes.ravel()
        self._first = [mixture[np.append(classes, -1)] for mixture in mixtures]
        """Mixtures to begin with."""
        self._refuters = Refuters() if refuters is None else refuters
        self._root_mixtures: tuple[Floats, ...] = ()
        self._root_paths: Floats = np.zeros((0, len(classes) + 1))
        self._phases = _phases(graphs)
        """Durations of a rank that paths meet about as often as each other, and a weight of each of these phases."""
        self.num_middles = len(middles)
        """Number of cuts between the chunks that it began with."""
        self._frontier = Frontier(middles)
        self._lock = Lock()
        """Held by a thread that begins with a graph."""
        self.found: Integers | None = None
        """Plan that meets the target, shape [num_cells, num_kinds]."""
        self.is_too_large = False
        """Whether it ended since a graph, or all of them together, would have too many arcs."""
        self.spent_s = 0.0
        """Seconds of the search so far, when the graphs had been made."""
        self._num_arcs = 0
        """Arcs of the graphs of all nodes, when they were new."""

    @property
    def refuted(self) -> bool:
        """Whether it is proven that no plan of the graphs meets the target."""
        return self._frontier.is_empty

    @property
    def open_middles(self) -> list[int]:
        """Cuts between the chunks for which the target is not refuted yet, those in the middle of the network first."""
        are_open = self._frontier.middles
        return [middle for middle in middles_outwards(self.graphs.problem) if middle in are_open]

    @property
    def bound_ns(self) -> float:
        """Lower bound on the plans of the graphs that meet the target; infinite where there is none."""
        return self._frontier.bound_ns * (1 - NOISE)

    def run(self, keep_going: Callable[[], bool], report: Callable[[float], None]) -> None:
        """Search until a plan is `found`, the target is `refuted` or `keep_going` says no; `report` gets the bound.

        It also ends where a graph `is_too_large`.
        """
        if self._frontier.has_middles and not self.graphs.make(keep_going):
            return
        began, has_failed = now_s(), False

        def goes_on() -> bool:
            return self.found is None and not self.is_too_large and not has_failed and keep_going()

        self._keep_going = self._player.keep_going = goes_on
        num_threads = 1 if counts_work() else num_search_threads()
        try:
            with ThreadPoolExecutor(num_threads) as others:
                running = [others.submit(self._work, lambda _bound_ns: None) for _thread in range(num_threads - 1)]
                try:
                    self._work(report)
                except BaseException:
                    has_failed = True
                    raise
                for thread in running:
                    thread.result()
        finally:
            self.spent_s += now_s() - began

    def _work(self, report: Callable[[float], None]) -> None:
        """Look at one node after the other, as long as there are any."""
        while (taken := self._frontier.take(self._keep_going)) is not None:
            report(self.bound_ns)
            number, task = taken
            left: Sequence[OpenNode] | None = None
            try:
                left = self._begun(task) if isinstance(task, int) else self._expand(task)
            finally:
                if left is None or self.found is not None:
                    self._frontier.give_back(number)
                else:
                    self._frontier.give(number, left)

    def _begun(self, middle: int) -> Sequence[OpenNode] | None:
        """Return what is left of the plans with a cut between the chunks; None where there are too many arcs."""
        with self._lock:
            graph = self.graphs.graph(middle)
            root = None if graph is None or not graph.is_connected else self._root(graph)
        if graph is None:
            self.is_too_large = True
            return None
        left = [] if root is None else self._expand(root)
        if left:
            with self._lock:
                self._num_arcs += len(left[0].graph)
                self.is_too_large |= self._num_arcs > _MOST_ARCS
        return left

    def _root(self, graph: CutGraph) -> OpenNode:
        """Return the node of all plans with one cut between the chunks."""
        if not self._first:
            steps = range(len(graph.classes))
            middle = np.concatenate([graph.durations_ns[graph.step(step)].mean(axis=0) for step in steps])
            self._first = [self._player.longest(middle).mean(axis=0)]
        return OpenNode(
            graph=graph,
            arcs=np.arange(len(graph), dtype=np.int32),
            bound_ns=0.0,
            mixtures=self._root_mixtures,
            plans=np.zeros((0, len(graph.classes)), dtype=np.int64),
            paths=self._root_paths,
        )

    def _expand(self, node: OpenNode) -> list[OpenNode]:
        """Return the children of a node: none if all its plans exceed the target, or one that does not is found."""
        part = CutPart(node.graph, node.arcs, target_ns=self.target_ns, bound_ns=node.bound_ns)
        if not self._narrow(part) or not self._refuters.narrow(part):
            return []
        mixtures = (*self._first, *node.mixtures)
        played = self._player.play(part, mixtures, plans=node.plans, paths=node.paths, most_turns=_MOST_TURNS)
        if self._is_over(played, part) or self._is_decided(part, played.paths):
            return []
        split = self._split(part, played.plans, played.shares, node.threshold)
        mixtures = (*node.mixtures[1 - _REMEMBERED :], played.best)
        paths = played.paths[played.path_shares > _SHARE]
        if self._frontier.has_middles:
            self._root_mixtures, self._root_paths = mixtures, paths
        return self._children(part, split, played.plans, mixtures, paths)

    def _is_over(self, played: Played, part: CutPart) -> bool:
        """Take note of a refuter or plan; returns whether there is one."""
        if played.plan is not None:
            self.found = self.graphs.counts(part.whole, played.plan)
        if played.refuter is not None:
            self._refuters.add(played.refuter)
        return played.plan is not None or played.refuter is not None

    def _narrow(self, part: CutPart) -> bool:
        """Drop arcs by which a rank alone exceeds the target, until few go; returns whether any are left."""
        while True:
            number = len(part.graph)
            part.keep(np.flatnonzero(self.graphs.in_time(part.graph)))
            if not part.graph.is_connected:
                return False
            if len(part.graph) > _WORTH_NARROWING * number:
                return True

    # 3. ---------------------------------------------------------------------------------------------------------

    def _is_decided(self, part: CutPart, paths: Floats) -> bool:
        """Decide a part that has few enough arcs; returns whether that is done: a plan is `found`, or none is in time.

        Where it is interrupted, the part has lost what is known to hold no plan within the target.
        """
        return may_try(part.graph, num_paths=len(paths) + _TRIED_MIXTURES) and self._settle(part, paths, _TRIAL_S)

    def _settle(self, part: CutPart, paths: Floats, trial_s: float) -> bool:
        """Decide a part by trials that take at most `trial_s`, by looks at its states, and by those of a step in turn.

        The plans through a state are far fewer than all, and the game says more of them: what lies before the state and
        behind it can be mixed only apart.
        """
        if self._is_tried(part, paths, seconds=trial_s):
            return True
        number = float("inf")
        while len(part.graph) < _WORTH_LOOKING_AGAIN * number:
            number = len(part.graph)
            for step in _widest_first(part):
                if not self._probe(part, step, paths):
                    return True
                if not self._keep_going():
                    return False
            if self._is_tried(part, paths, seconds=trial_s):
                return True
        steps = _widest_first(part)
        if not steps:
            return self._is_tried(part, paths, seconds=float("inf"))
        for state in part.states_behind(steps[0]).tolist():
            through = part.through(steps[0], state)
            if through.graph.is_connected and not self._settle(through, paths, _STATE_TRIAL_S):
                return False
            if self.found is not None:
                return True
            part.avoid(steps[0], state)
        return True

    def _probe(self, part: CutPart, step: int, paths: Floats) -> bool:
        """Drop the states behind a step through which no plan is in time; returns whether it is open what is left."""
        for state in part.states_behind(step).tolist():
            if not self._keep_going():
                return True
            through = part.through(step, state)
            mixtures = (*self._first, *self._refuters.latest)
            played = self._player.play(
                through, mixtures, plans=np.zeros((0, len(part.graph.classes)), dtype=np.int64), paths=paths,
                most_turns=_PROBE_TURNS,
            )  # fmt: skip
            if not self._is_over(played, part):
                continue
            if played.refuter is None:
                return False
            part.avoid(step, state)
            if not part.narrow(played.refuter):
                return False
        return True

    def _is_tried(self, part: CutPart, paths: Floats, *, seconds: float) -> bool:
        """Try all plans of a part, from both ends; returns whether one is `found` or it is known that none meets it."""
        mixtures = self._refuters.rounded(_TRIED_MIXTURES, target_ns=self.target_ns)
        known = np.concatenate((mixtures, paths)) if len(mixtures) else paths
        trials = [
            Trial(part.graph, self.graphs.problem, paths=known, target_ns=self.target_ns, from_last=from_last)
            for from_last in (False, True)
        ]
        end_s = now_s() + seconds
        while now_s() < end_s and self._keep_going():
            for trial in trials:
                if not trial.goes_on():
                    if trial.found is not None:
                        self.found = self.graphs.counts(part.graph, trial.found)
                    return True
        return False

    # 4. ---------------------------------------------------------------------------------------------------------

    def _split(self, part: CutPart, plans: Integers, shares: Floats, threshold: Threshold | None) -> _Split:
        """Return where to split a part whose plans are mixed in these shares; `threshold` is that of the node above.

        A mixture is short because the plans in it are long at different ranks. So a threshold is set that the longest
        rank of half of them exceeds, for what a rank does for a microbatch in all or in one phase of the schedule; and
        one rank after the other is split by it, the one that exceeds it in most of them first.
        """
        durations = part.whole.durations_ns[plans]
        if threshold is not None:
            exceeds = shares @ (durations @ threshold.ops > threshold.most_ns)
            if exceeds.max() <= _FEW:
                threshold = None
        if threshold is None:
            threshold = self._threshold(durations, shares)
            exceeds = shares @ (durations @ threshold.ops > threshold.most_ns)
        step = int(np.argmax(exceeds))
        low = part.graph.durations_ns[part.graph.step(step)] @ threshold.ops <= threshold.most_ns
        if low.any() and not low.all():
            return _Split(step=step, low=low, threshold=threshold)
        return self._split_at_cut(part, plans, shares)

    def _threshold(self, durations: Floats, shares: Floats) -> Threshold:
        """Return the threshold at which a mixture of plans with these durations gains most by being a mixture."""
        ops, weights = self._phases
        times = durations @ ops.T
        longest = times.max(axis=1)
        gains = weights * (shares @ longest - np.tensordot(shares, times, 1).max(axis=0))
        phase = int(np.argmax(gains))
        order = np.argsort(longest[:, phase])
        half = int(np.searchsorted(np.cumsum(shares[order]), shares.sum() / 2))
        ascending = longest[order, phase]
        most = ascending[min(half, len(order) - 1)]
        if most == ascending[-1] and ascending[0] < most:
            most = ascending[np.searchsorted(ascending, most) - 1]
        return Threshold(ops=ops[phase], most_ns=float(most))

    def _split_at_cut(self, part: CutPart, plans: Integers, shares: Floats) -> _Split:
        """Return a split of the cut on which the plans differ most in work, or of the widest choice that is left."""
        graph, works = part.whole, self.graphs.works
        cuts = np.stack(
            [works[states[graph.targets[own]]] for own, states in zip(plans.T, graph.states[1:], strict=True)], axis=1
        )
        mean = np.tensordot(shares, cuts, 1)
        spread = np.tensordot(shares, (cuts - mean) ** 2, 1)
        step, chunk = divmod(int(np.argmax(spread)), spread.shape[1])
        own = part.graph.step(step)
        low = works[graph.states[step + 1][part.graph.targets[own], chunk]] <= mean[step, chunk]
        if low.all() or not low.any():
            step = int(np.argmax(np.diff(part.graph.starts)))
            own = part.graph.step(step)
            order = np.argsort(part.graph.durations_ns[own].sum(axis=1), kind="stable")
            low = np.zeros(len(order), dtype=np.bool_)
            low[order[: len(order) // 2]] = True
        return _Split(step=step, low=low, threshold=None)

    def _children(
        self, part: CutPart, split: _Split, plans: Integers, mixtures: tuple[Floats, ...], paths: Floats
    ) -> list[OpenNode]:
        """Return the two nodes of a split, which share no plan."""
        is_small = len(part.graph) < _WORTH_KEEPING * len(part.whole)
        children = []
        for side in (split.low, ~split.low):
            keep = np.ones(len(part.graph), dtype=np.bool_)
            keep[part.graph.step(split.step)] = side
            inside = plans[np.isin(plans, part.arcs[keep]).all(axis=1)]
            children.append(
                OpenNode(
                    graph=part.graph if is_small else part.whole,
                    arcs=np.flatnonzero(keep).astype(np.int32) if is_small else part.arcs[keep],
                    bound_ns=part.bound_ns,
                    mixtures=mixtures,
                    plans=np.searchsorted(part.arcs, inside) if is_small else inside,
                    paths=paths,
                    threshold=split.threshold,
                )
            )
        return children


def _widest_first(part: CutPart) -> list[int]:
    """Return the steps behind which a part has several states, those with most of them first."""
    widths = np.array([len(part.states_behind(step)) for step in range(len(part.graph.classes) - 1)], dtype=np.int64)
    return [step for step in np.argsort(-widths, kind="stable").tolist() if widths[step] > 1]


def _phases(graphs: CutGraphs) -> tuple[Floats, Floats]:
    """Return the phases of a schedule, shape [num_phases, num_slots], and their weights.

    All of a rank's work; its forwards of one chunk beside the gradients of another, which take turns; the forwards of
    one chunk alone, with which a step begins. Paths spend about all, half and a quarter of the microbatches there.
    """
    num_slots, num_chunks = graphs.classes.shape[1], graphs.problem.num_chunks
    slots = np.arange(num_slots).reshape(num_chunks, -1)
    forwards = [np.isin(np.arange(num_slots), slots[chunk, 0]) for chunk in range(num_chunks)]
    gradients = [np.isin(np.arange(num_slots), slots[chunk, 1:]) for chunk in range(num_chunks)]
    both = [forwards[chunk] | gradients[beside] for chunk, beside in permutations(range(num_chunks), 2)]
    weights = [1.0, *[0.5] * len(both), *[0.25] * num_chunks]
    return np.array([np.ones(num_slots), *both, *forwards], dtype=np.float64), np.array(weights)


def num_search_threads() -> int:
    """Return how many threads search cuts: one for each processor, but for a few at most."""
    return min(_MOST_THREADS, _num_processors())


def needs_all_processors() -> bool:
    """Return whether a search of cuts leaves no processor for a search for plans."""
    return num_search_threads() == _num_processors()


def _num_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
