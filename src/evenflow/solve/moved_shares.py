"""Plans that move a share of the modules of every cell to the host, near plans that move those of all layers.

Where a link is busy, moving all of them takes longer than needed. A share has no rule of a single cell that a search
over cells could keep to, so that plans with one are looked for near the cuts of a contest's plans: under every share,
then with layers moved between cells, as long as the step gets shorter, and with further ranks that keep some of their
first backwards on the device. `share_bound` bounds them all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenflow.language import _
from evenflow.model import CellRule, MovedGroups, MovedShare, groups_of, shares_between
from evenflow.simulate import Integers, StageCosts, makespan_ns, peak_bytes, with_copies, with_first_moved
from evenflow.solve.best_outcome import BestOutcome
from evenflow.solve.contest.entry import Entry
from evenflow.solve.outcome import Status
from evenflow.solve.problem import Problem
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.share_bound import with_kinds_of
from evenflow.solve.time_left import TimeLeft
from evenflow.units import megabytes

_LEAST_GAIN = 1e-4
"""Share of the step that a plan must save for the search to go on from it."""
_KEPT_STEPS = 16
"""Parts of what a microbatch moves on the fullest rank, of which each further rank may keep any number at first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlan:
    """A plan under one share: layers by kind in every cell [num_cells, num_kinds], and its step."""

    problem: Problem
    moved: MovedShare
    counts: Integers
    makespan_ns: int


def improved_by_share(
    without: BestOutcome, entries: Sequence[Entry], chains: Mapping[CellRule, Sequence[str]], *, left: TimeLeft
) -> BestOutcome:
    """Return the outcome of a contest, or a shorter plan of a share of what one of `entries` moves in all layers.

    `chains` has the kinds of a share by the rule of an entry. The bound of a contest is one on these plans too, unless
    layers do not know their modules apart: then the outcome says that plans with a share are not bounded.
    """
    if not any(entry.shares_of and not entry.reason for entry in entries):
        same = replace(without.outcome.restrictions, moves_alike=True)
        return replace(without, outcome=replace(without.outcome, restrictions=same))
    plan, entry = _shortest(without, entries, chains, left)
    if plan is None or entry is None or entry.race is None:
        return without
    is_whole = plan.moved.share == 1 and not plan.moved.kept_bytes
    moved = None if is_whole else plan.moved
    simulation = plan.problem.simulate_plan(replace(plan.problem.plan(plan.counts), moved_share=moved))
    bound_ns = min(without.lower_bound_ns, plan.makespan_ns)
    is_optimal = bound_ns >= plan.makespan_ns * (1 - 2 * TOLERANCE)
    outcome = replace(
        without.outcome,
        status=Status.OPTIMAL if is_optimal else Status.FEASIBLE,
        simulation=simulation,
        lower_bound_ns=bound_ns,
        binding=None,
        rank_order=entry.rank_order,
    )
    alike, part = (
        _("{kind} in all layers", kind=plan.moved.kind),
        _("a share of {share:g} of {kind}", share=plan.moved.share, kind=plan.moved.kind),
    )
    name = alike if plan.moved.share == 1 else part
    if plan.moved.kept_bytes:
        size = f"{megabytes(plan.moved.kept_bytes):,.0f} MB"
        name = _("{share}, {size} less on each further rank", share=name, size=size)
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
        problem = with_kinds_of(entry.race.problem, tuple(chains[entry.rule]))
        groups = None if problem is None else MovedGroups.of(problem.network, chains[entry.rule])
        if problem is None or groups is None:
            continue
        shorter = ShareSearch(problem, groups).shortest(problem.counts(plan), below_ns=below_ns, left=left)
        if shorter is not None:
            best, best_entry, below_ns = shorter, entry, shorter.makespan_ns
    return best, best_entry


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
        fitting: list[MovedShare] = []
        for share in (1.0, *self._shares(bounds)[::-1]):
            moved = MovedShare(kind=self._groups.chain[-1], share=share)
            plan = self._plan(bounds, moved)
            if plan is None:  # what moves less needs more memory
                break
            fitting.append(moved)
            best = _shorter(best, plan, below_ns)
        if best is not None:
            best = self._with_other_cuts(best, left)
            fitting = [moved for moved in fitting if moved.share >= best.moved.share]
        for moved in reversed(fitting):
            if left.is_over:
                break
            best = self._with_kept(bounds if best is None else _bounds_of(best), moved, best, below_ns)
        return best if best is None or not best.moved.kept_bytes else self._with_other_cuts(best, left)

    def _with_other_cuts(self, best: SharedPlan, left: TimeLeft) -> SharedPlan:
        """Return a plan that is as short or shorter after layers went from cell to cell."""
        improves = self._problem.fixed_bounds is None
        while improves and not left.is_over:
            improves = False
            goal_ns = best.makespan_ns * (1 - _LEAST_GAIN)
            for bounds in self._neighbours(_bounds_of(best)):
                plan = self._plan(bounds, best.moved)
                if plan is not None and plan.makespan_ns < best.makespan_ns:
                    best, improves = plan, plan.makespan_ns < goal_ns
                if improves or left.is_over:
                    break
        return best

    def _with_kept(
        self, bounds: Integers, moved: MovedShare, best: SharedPlan | None, below_ns: int
    ) -> SharedPlan | None:
        """Return `best`, or a shorter plan whose further ranks keep some of their first backwards on the device."""
        of_layers = groups_of(self._problem.request.network, moved.kind)
        sizes = np.array([sum(size for _module, size in groups) for groups in of_layers])
        of_cells = np.add.reduceat(np.append(sizes, 0), bounds[:-1]) * (np.diff(bounds) > 0)
        largest = int(of_cells[self._problem.schedule.stage_table].sum(axis=0).max())
        for step in range(1, 2 * _KEPT_STEPS + 1):
            kept = replace(moved, kept_bytes=-(-largest * step // _KEPT_STEPS))
            plan = self._plan(bounds, kept) if kept.kept_bytes else None
            if plan is None:  # what keeps more needs more memory
                break
            best = _shorter(best, plan, below_ns)
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

    def _plan(self, bounds: Integers, moved: MovedShare) -> SharedPlan | None:
        """Return the plan with this cut; None where it does not fit."""
        problem = self._problem
        counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
        for cell, (start, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            for kind in self._groups.kinds(start, end, moved.share):
                counts[cell, self._columns[kind]] += 1
        costs = with_first_moved(problem.costs(counts), problem.network, moved, counts.sum(axis=1), problem.schedule)
        peaks = peak_bytes(problem.schedule, costs) if costs.first_moved else problem.rank_memory(costs)
        if (peaks > problem.limits).any():
            return None
        return SharedPlan(problem=problem, moved=moved, counts=counts, makespan_ns=self._makespan_ns(costs))

    def _makespan_ns(self, costs: StageCosts) -> int:
        problem = self._problem
        if not costs.first_moved or costs.host_link is None:
            return problem.makespan_ns(costs)
        graph = with_copies(problem.graph.of_actions, costs.host_link, first_moved=costs.first_moved)
        return makespan_ns(graph, costs.durations, costs.messages(problem.request.communication))


def _bounds_of(plan: SharedPlan) -> Integers:
    """Return the first layer of every cell and the end of the last."""
    return np.concatenate(([0], np.cumsum(plan.counts.sum(axis=1))))


def _shorter(best: SharedPlan | None, plan: SharedPlan, below_ns: int) -> SharedPlan | None:
    """Return the shorter of two plans; None where neither is below that."""
    return plan if plan.makespan_ns < (below_ns if best is None else best.makespan_ns) else best
