"""A trial of all plans of a cut graph against a target, which learns from those that take too long.

A plan is put together rank after rank. Some paths through the dependency graph are known, and the least that further
ranks add to each of them; where one of them then exceeds the target, the ranks so far belong to no plan in time. Of a
whole plan the step is computed, and where it is too long, its longest path is known from then on.

What fails is remembered, with the reason (nogoods; Dechter, Artificial Intelligence 41, 1990): behind this state of the
cut graph no plan meets the target if each of some paths is longer than so much up to there. Many beginnings lead to the
same state, and most of them fail for a reason that is known.

All times are whole numbers, so that a trial decides without rounding.
"""

from collections.abc import Sequence

import numpy as np

from evenflow.simulate import Integers
from evenflow.simulate.compiled import compiled
from evenflow.solve.clock import spend
from evenflow.solve.cuts.cut_graph import CutGraph
from evenflow.solve.cuts.rank_alone import Places
from evenflow.solve.master.matrix import Floats
from evenflow.solve.problem import Problem

_MOST_LEARNED = 256
"""Paths that are learned at most: those of the first plans say most."""
_REASONS, _REASON_PATHS = 32, 16
"""Reasons that are remembered of each state, and the paths of one; with more of them it rarely holds again."""
_ARCS, _ARC_SECONDS = 500_000, 1.5e-7
"""Arcs between two answers, and the work of one."""
_MOST_BYTES = 400_000_000
"""Most memory of a trial; where it takes more there are too many plans to try."""


class Trial:
    """A trial, which can be interrupted; once it no longer `goes_on`, what it has `found` is the answer."""

    def __init__(self, graph: CutGraph, problem: Problem, *, paths: Floats, target_ns: int, from_last: bool) -> None:
        """Prepare to try the plans of `graph` from the first rank on, or from the last.

        `paths` are some paths through a step of the problem, shape [num_paths, num_slots + 1] (see `Played`).
        """
        from evenflow.solve.cuts.trial_kernel import TrialState, Tried

        self._target_ns = target_ns
        num_steps = len(graph.classes)
        steps = range(num_steps)[::-1] if from_last else range(num_steps)
        weights = paths[:, :-1].reshape(len(paths), *graph.classes.shape)
        arcs, lengths = [], []
        for step in steps:
            own = np.arange(*graph.step(step).indices(len(graph)))
            if from_last:
                own = own[np.argsort(graph.targets[own], kind="stable")]
            arcs.append(own)
            lengths.append(graph.durations_ns[own] @ weights[:, step].T)
        lengths[0] += paths[:, -1]
        self._arcs = np.concatenate(arcs)
        """Arcs of the graph in the order of the trial."""
        before, behind = (graph.targets, graph.sources) if from_last else (graph.sources, graph.targets)
        firsts, targets = _numbered([before[own] for own in arcs], [behind[own] for own in arcs])
        capacity, num_states = len(paths) + _MOST_LEARNED, firsts.shape[1] - 1
        self._tried = Tried(
            firsts,
            targets,
            graph.durations_ns[self._arcs],
            problem.graph.rank_predecessors,
            problem.graph.dependencies,
            problem.graph.classes,
            problem.shortest_messages,
            np.ascontiguousarray(graph.classes[steps]),
        )
        num_classes, num_positions = int(graph.classes.max()) + 1, len(self._tried.classes) + 1
        reasons = num_steps, num_states, _REASONS
        self._standing = TrialState(
            lengths=np.zeros((len(self._arcs), capacity)),
            behind=np.full((num_steps + 1, num_states, capacity), np.inf),
            before=np.zeros((num_steps + 1, capacity)),
            needs=np.full((num_steps + 1, capacity), -np.inf),
            order=np.arange(capacity),
            has_reason=np.ones(num_steps, dtype=np.bool_),
            reason_paths=np.empty((*reasons, _REASON_PATHS), dtype=np.int32),
            reason_needs=np.empty((*reasons, _REASON_PATHS)),
            reason_sizes=np.zeros(reasons, dtype=np.int32),
            reason_numbers=np.zeros((num_steps, num_states), dtype=np.int64),
            plan=np.zeros(num_steps, dtype=np.int64),
            ends=np.array([firsts[0, 1]] * num_steps),
            heads=np.zeros(num_positions, dtype=np.int64),
            tails=np.zeros(num_positions, dtype=np.int64),
            path=np.zeros(num_positions, dtype=np.int64),
            table=np.zeros(num_classes, dtype=np.int64),
            counts=np.zeros(num_classes, dtype=np.int64),
            numbers=np.array([0, len(paths), 0]),
        )
        self._standing.lengths[:, : len(paths)] = np.concatenate(lengths)
        self._from_last = from_last
        self.found: Integers | None = None
        """The arc of each step of a plan that meets the target."""

    def goes_on(self) -> bool:
        """Try some more; returns whether there is more to try after it."""
        from evenflow.solve.cuts.trial_kernel import FOUND, UNDECIDED, try_plans

        answer = compiled(try_plans)(self._tried, self._standing, self._target_ns, _ARCS)
        spend(_ARCS * _ARC_SECONDS)
        if answer == FOUND:
            arcs = self._arcs[self._standing.plan]
            self.found = arcs[::-1] if self._from_last else arcs
        return bool(answer == UNDECIDED)


def may_try(graph: CutGraph, *, num_paths: int) -> bool:
    """Return whether a trial of the plans of a graph has room for what it learns."""
    states = max(len(np.unique(graph.targets[graph.step(step)])) for step in range(len(graph.classes)))
    of_state = 8 * (num_paths + _MOST_LEARNED) + 12 * _REASONS * _REASON_PATHS
    return len(graph.classes) * states * of_state + 8 * len(graph) * (num_paths + _MOST_LEARNED) < _MOST_BYTES


def _numbered(befores: Sequence[Places], behinds: Sequence[Places]) -> tuple[Integers, Integers]:
    """Return the first arc behind each state of each step, [num_steps, num_states + 1], and the state behind each arc.

    States are numbered anew, only those with arcs behind them; other arcs lead to a state without any.
    """
    distinct = [np.unique(before) for before in befores]
    num_states = max(map(len, distinct)) + 1
    firsts = np.empty((len(befores), num_states + 1), dtype=np.int64)
    targets, begin = [], 0
    for step, (before, behind) in enumerate(zip(befores, behinds, strict=True)):
        numbers = np.searchsorted(before, distinct[step])
        firsts[step] = begin + np.concatenate((numbers, np.full(num_states + 1 - len(numbers), len(before))))
        begin += len(before)
        if step == len(befores) - 1:
            targets.append(np.zeros(len(behind), dtype=np.int64))
            continue
        after = distinct[step + 1]
        numbers = np.minimum(np.searchsorted(after, behind), len(after) - 1)
        targets.append(np.where(after[numbers] == behind, numbers, num_states - 1))
    return firsts, np.concatenate(targets)
