"""Plans that move a share of the modules of every cell to the host, near plans that move those of all layers.

Where a link is busy, moving all of them takes longer than needed. A share has no rule of a single cell that the proofs
know, so that plans with one are looked for near the cuts of a contest's plans: under every share, then with layers
moved between cells, as long as the step gets shorter.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenflow.language import _
from evenflow.model import NONE, CellRule, MovedGroups, MovedShare, shares_between, with_chain
from evenflow.simulate import Integers
from evenflow.solve.best_outcome import BestOutcome
from evenflow.solve.contest.contest import Entry
from evenflow.solve.outcome import Status
from evenflow.solve.problem import Problem, problem_of_order
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.time_left import TimeLeft

_LEAST_GAIN = 1e-4
"""Share of the step that a plan must save for the search to go on from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlan:
    """A plan under one share: layers by kind in every cell [num_cells, num_kinds], and its step."""

    problem: Problem
    kind: str
    share: float
    counts: Integers
    makespan_ns: int


def improved_by_share(
    without: BestOutcome, entries: Sequence[Entry], chains: Mapping[CellRule, Sequence[str]], *, left: TimeLeft
) -> BestOutcome:
    """Return the outcome of a contest, or a shorter plan of a share of what one of `entries` moves in all layers.

    `chains` has the kinds of a share by the rule of an entry. The bound of a shorter plan is one on all plans in any
    order; otherwise the outcome says that plans with a share are not bounded.
    """
    plan, entry = _shortest(without, entries, chains, left)
    if plan is None or entry is None or entry.race is None:
        return replace(without, outcome=replace(without.outcome, moves_alike=True))
    simulation = plan.problem.simulate(plan.counts)
    moved = MovedShare(kind=plan.kind, share=plan.share)
    simulation = replace(simulation, plan=replace(simulation.plan, moved_share=moved))
    bound_ns = min(without.lower_bound_ns, *(other.floor_ns for other in entries), plan.makespan_ns)
    is_optimal = bound_ns >= plan.makespan_ns * (1 - 2 * TOLERANCE)
    outcome = replace(
        without.outcome,
        status=Status.OPTIMAL if is_optimal else Status.FEASIBLE,
        simulation=simulation,
        lower_bound_ns=bound_ns,
        binding=None,
        rank_order=entry.rank_order,
    )
    name = _("a share of {share:g} of {kind}", share=plan.share, kind=plan.kind)
    candidate = replace(entry.candidate, recomputation=name, outcome=outcome)
    return replace(without, outcome=outcome, candidates=(candidate, *without.candidates), lower_bound_ns=bound_ns)


def _shortest(
    without: BestOutcome, entries: Sequence[Entry], chains: Mapping[CellRule, Sequence[str]], left: TimeLeft
) -> tuple[SharedPlan | None, Entry | None]:
    """Return the shortest plan with a share, and the entry that moves all of it."""
    best: SharedPlan | None = None
    best_entry: Entry | None = None
    below_ns = without.outcome.makespan_ns
    tried = 0
    for entry in sorted(entries, key=lambda entry: entry.makespan_ns):
        plan = None if entry.outcome is None else entry.outcome.plan
        if plan is None or entry.race is None or entry.rule is None or below_ns is None:
            continue
        if tried and left.is_over:  # the first has a look in any case
            break
        tried += 1
        problem = _with_chain(entry.race.problem, chains[entry.rule])
        groups = None if problem is None else MovedGroups.of(problem.network, chains[entry.rule])
        if problem is None or groups is None:
            continue
        shorter = ShareSearch(problem, groups).shortest(problem.counts(plan), below_ns=below_ns, left=left)
        if shorter is not None:
            best, best_entry, below_ns = shorter, entry, shorter.makespan_ns
    return best, best_entry


def _with_chain(problem: Problem, chain: Sequence[str]) -> Problem | None:
    """Return the problem of layers that may be under all kinds of `chain`; None where they are not known."""
    network = None if problem.blocks is not None else with_chain(problem.request.network, chain)
    if network is None:
        return None
    request = replace(problem.request, network=network, cell_rule=CellRule(kinds=(*chain, NONE)))
    return problem_of_order(request, problem.schedule)


class ShareSearch:
    """The search for plans under a share of one recompute kind."""

    def __init__(self, problem: Problem, groups: MovedGroups) -> None:
        """Take the `groups` of the network of `problem`, whose rule of cells does not count."""
        self._problem = problem
        self._groups = groups
        self._columns = {kind: problem.kinds.index(kind) for kind in groups.chain}

    def shortest(self, counts: Integers, *, below_ns: int, left: TimeLeft) -> SharedPlan | None:
        """Return the shortest plan found near the cut of `counts` [num_cells, num_kinds]; None if not below that."""
        bounds = np.concatenate(([0], np.cumsum(counts.sum(axis=1))))
        best: SharedPlan | None = None
        best_bounds = bounds
        for share in self._shares(bounds)[::-1]:
            plan = self._plan(bounds, share)
            if plan is None:  # what moves less needs more memory
                break
            if plan.makespan_ns < (below_ns if best is None else best.makespan_ns):
                best = plan
        is_fixed = self._problem.fixed_bounds is not None
        improves = best is not None and not is_fixed
        while improves and best is not None and not left.is_over:
            improves = False
            goal_ns = best.makespan_ns * (1 - _LEAST_GAIN)
            for moved in self._neighbours(best_bounds):
                plan = self._plan(moved, best.share)
                if plan is not None and plan.makespan_ns < best.makespan_ns:
                    best, best_bounds, improves = plan, moved, plan.makespan_ns < goal_ns
                if improves or left.is_over:
                    break
        return best

    def _shares(self, bounds: Integers) -> Sequence[float]:
        spans = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        return shares_between(sorted({self._groups.num_groups(start, end) for start, end in spans}))

    def _neighbours(self, bounds: Integers) -> Iterator[Integers]:
        """Yield the borders of cells after a layer went from one cell to another, the nearest cells first."""
        problem, num_cells = self._problem, self._problem.num_cells
        for distance in range(1, num_cells):
            for first in range(num_cells - distance):
                for step in (-1, 1):
                    moved = bounds.copy()
                    moved[first + 1 : first + 1 + distance] += step
                    sizes = np.diff(moved)
                    allowed = problem.placement is None or problem.placement.allows_all(moved)
                    if sizes.min() >= problem.min_layers and allowed:
                        yield moved

    def _plan(self, bounds: Integers, share: float) -> SharedPlan | None:
        """Return the plan with this cut; None where it does not fit."""
        problem = self._problem
        counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
        for cell, (start, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            for kind in self._groups.kinds(start, end, share):
                counts[cell, self._columns[kind]] += 1
        costs = problem.costs(counts)
        if (problem.rank_memory(costs) > problem.limits).any():
            return None
        return SharedPlan(
            problem=problem,
            kind=self._groups.chain[-1],
            share=share,
            counts=counts,
            makespan_ns=problem.makespan_ns(costs),
        )
