"""Proofs that no plan takes at most a target time, or a plan that does.

A bound is raised by refuting targets (destructive bounds; Klein & Scholl, EJOR 112, 1999). For a target,

1. enumerate the contents that each rank could have in a plan that fast (`columns`); a rank without any refutes it;
2. bound the makespan by the linear program over those columns and the critical paths (`master`, `critical_paths`);
3. remove columns whose reduced cost, or whose group of equal layer counts probed alone, exceeds the target;
4. decide the few columns that are left by an integer program.

With very many columns, a branch and bound over them (`branching`) takes the place of steps 3 and 4.

A search over cuts (`cut_search`) goes before steps 2 to 4 for a moment, which is often enough for it, and takes their
place where there are too many columns, as with layers that all differ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenflow.language import _
from evenflow.simulate import Integers, InTurn, StageCosts, message_table
from evenflow.solve.backends.highs import Program
from evenflow.solve.clock import now_s
from evenflow.solve.columns.cell_options import CellOptions
from evenflow.solve.columns.rank_columns import MAX_COLUMNS, ColumnGroup, all_options, cell_groups, rank_groups
from evenflow.solve.cuts.cut_graph import CutGraphs, has_cut_graphs, middles_outwards
from evenflow.solve.cuts.cut_search import CutSearch
from evenflow.solve.cuts.refuters import Refuters
from evenflow.solve.master.branching import Branching
from evenflow.solve.master.critical_paths import CriticalPaths, LongestPaths
from evenflow.solve.master.master import Master, TooFull
from evenflow.solve.master.matrix import Floats
from evenflow.solve.problem import Problem, without_copies
from evenflow.solve.start import fits

TOLERANCE = 1e-6
"""Fraction by which targets stay below the best plan: linear programs are solved in floating point."""
_NOISE = 1e-7
"""Fraction by which a bound must exceed a target to refute it."""
_NOISE_NS = 0.01
"""Least time in ns by which a bound must exceed a target to refute it."""
_MAX_INTEGER_COLUMNS = 20_000
"""Most columns for an integer program; more are not decided within minutes."""
_MANY_COLUMNS = 2_000
"""Columns of ranks from which boxes of them are searched where removing some has not decided the target in time."""
_SHAVING_SHARE = 0.4
"""Share of the time for a target that removing columns has, where they are as many."""
MANY_RUNS = 6
"""Runs of equal layers from which a linear program that mixes the contents of ranks, and so cuts, bounds poorly."""
_MAX_MIXED_COLUMNS = 5_000
"""Most columns for such a program then."""
_THINNED = 10
"""Times as many columns that are enumerated, since ranks rule out columns of each other, before a search over cuts
takes their place."""
_MAX_WITH_COPIES = 1_000
"""Most contents of a cell with which a search over cuts goes before columns where something moves to the host."""
_FIRST_CUTS_S = 6.0
"""Seconds of a search over cuts where columns could do without it; where it decides no target in them, they take over.
Twice as many after every target that they do not decide either."""
_MAX_CHAINS = 500
"""Number of chains above which those that do not support the value of the program are removed whenever it has risen."""
_RISE = 1e-6
"""Fraction by which the value of the program must grow to have risen; less is rounding."""
_VIOLATION = 1e-5
"""Fraction by which a path under a solution's durations must exceed its value to cut it off."""
_STALLED, _PATIENCE = 2e-4, 8
"""Fraction by which so many solves must raise the bound together to go on before boxes are searched."""
_NEAR_VALUE = 0.998
"""Fraction of the value from which a path at a point between this and earlier solutions gets a row: it cuts deeper."""
_COMPRESS_FROM = 0.2
"""Fraction of columns dropped above which a new program is made without them, which takes time too."""
_STALLED_ABOVE = 0.9
"""Fraction of columns left above which a round of removal is the last: the integer program is faster then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutEffort:
    """What a search over cuts did about a target."""

    seconds_for_all: float
    """How long it took, or would have taken if no cut between the chunks had been decided before."""
    share_left: float
    """Share of all cuts between the chunks that it left undecided."""

    @property
    def seconds_for_rest(self) -> float:
        """How long those would take if they were like the others; infinite where none was decided."""
        done = 1 - self.share_left
        return self.seconds_for_all * self.share_left / done if done > 0 else float("inf")


@dataclass(frozen=True, eq=False, kw_only=True)
class TargetAnswer:
    """The result of an attempt to refute a target."""

    refuted: bool
    """Whether it is proven that no plan takes at most the target."""
    bound_ns: float
    """Lower bound on all plans, whether or not the target was refuted."""
    counts: Integers | None = None
    """Plan that takes at most the target, if one was found, shape [num_cells, num_kinds]."""


class Prover:
    """A prover for one problem: it refutes targets, and critical paths found for one target serve the next."""

    def __init__(
        self, problem: Problem, *, report: Callable[[str, float], None] = lambda phase, bound_ns: None
    ) -> None:
        self.problem = problem
        self.paths = CriticalPaths(problem.graph, problem.shortest_messages)
        self._cut_problem, self._cut_paths = without_copies(problem), self.paths
        """The problem whose cuts are searched, with copies only where a rank alone waits for them."""
        self._has_copies = self._cut_problem is not problem
        if self._has_copies:
            self._cut_paths = CriticalPaths(self._cut_problem.graph, self._cut_problem.shortest_messages)
        self._report = report
        self._deadline = float("inf")
        self._enough_ns = 0.0
        """Bound above which the target is refuted."""
        self._left: tuple[int, list[ColumnGroup]] | None = None
        """Last target that was not refuted, with the columns of ranks that might still meet it."""
        self._branching: Branching | None = None
        """Last search over boxes that has not refuted its target."""
        self._waits: list[LongestPaths] = []
        """Paths of plans whose messages take longer than the shortest ones."""
        self._suspended: CutSearch | None = None
        """Last search over cuts that ran out of time."""
        self._cuts_deadline = float("inf")
        """End of the present search over cuts, if that is before the deadline."""
        self._mixtures: Sequence[Floats] = ()
        """Mixtures of paths by which it begins."""
        self._refuters = Refuters()
        """Those of all searches over cuts."""
        self.cuts: CutEffort | None = None
        """What the search over cuts did to which the last target was left; None: it was not."""
        self._prefers_columns = False
        """Whether columns go before a search over cuts: they have decided a target that it has not."""
        self._first_cuts_s = _FIRST_CUTS_S
        """Seconds of the next search over cuts before columns."""
        self.searches_cuts = False
        """Whether it searches cuts at the moment; other threads may read it."""
        self._stopped = False
        self._program: Program | None = None

    @property
    def branches(self) -> bool:
        """Whether the last target was left to a search over boxes that can go on."""
        return self._branching is not None

    def stop(self) -> None:
        """Make a `refute` that runs in another thread return soon."""
        self._deadline = 0.0
        self._stopped = True
        if self._program is not None:
            self._program.cancel()

    def resume(self) -> None:
        """Undo `stop`, so that targets can be refuted again."""
        self._stopped = False

    def learn(self, counts: Integers) -> None:
        """Add the critical paths of a plan."""
        durations = self.problem.costs(counts).durations
        self.paths.add_longest(durations, above_ns=0)
        if self._has_copies:
            self._cut_paths.add_longest(durations, above_ns=0)

    def forget(self) -> None:
        """Drop what was collected so far: the critical paths of a target out of reach only burden lower ones."""
        self.paths = CriticalPaths(self.problem.graph, self.problem.shortest_messages)
        if not self._has_copies:
            self._cut_paths = self.paths
        self._left = None

    def refute(
        self,
        target_ns: int,
        *,
        seconds: float,
        seconds_of_cuts: float | None = None,
        floor_ns: float = 0.0,
        mixtures: Sequence[Floats] = (),
    ) -> TargetAnswer:
        """Try to show within `seconds` that no plan takes at most `target_ns`; `floor_ns` is a known bound.

        Where it comes to a search over cuts, it ends within `seconds_of_cuts` if they are given and nothing moves to
        the host, where columns take far longer, and begins with `mixtures` of paths (see `CutSearch`).

        Where messages depend on the cut or wait for each other, each counts with the shortest time that it may take.
        """
        self._mixtures = mixtures
        of_cuts = seconds if seconds_of_cuts is None or self._has_copies else seconds_of_cuts
        self._cuts_deadline = now_s() + of_cuts
        answer = self._refute(target_ns, seconds=seconds, floor_ns=floor_ns)
        return answer if self._meets(answer.counts, target_ns) else replace(answer, counts=None)

    def _meets(self, counts: Integers | None, target_ns: int) -> bool:
        """Return whether there is a plan, and it meets the target with the messages of its own cut, and its copies."""
        if counts is None or not (self.problem.messages_depend or self._has_copies):
            return counts is not None
        return fits(self.problem, counts) and self.problem.simulate(counts).makespan_ns <= target_ns

    def _refute(self, target_ns: int, *, seconds: float, floor_ns: float) -> TargetAnswer:
        self._deadline = 0.0 if self._stopped else now_s() + seconds
        self._enough_ns = target_ns + max(_NOISE_NS, _NOISE * target_ns)
        self.cuts = None
        refuted = TargetAnswer(refuted=True, bound_ns=float(target_ns + 1))
        if self._suspended is not None and target_ns == self._suspended.target_ns:
            return self._search_cuts(self._suspended, floor_ns)
        if self._branching is not None and target_ns <= self._branching.target_ns:
            return self._go_on_branching(self._branching, target_ns, floor_ns)
        self._branching = None
        if self._left is not None and target_ns <= self._left[0]:
            # What cannot meet an earlier, larger target cannot meet this one.
            return self._decide(*self._narrow(self._left[1], target_ns, floor_ns, by_cell=False), target_ns)
        self._report(_("enumerating stages"), floor_ns)
        options = all_options(self.problem, target_ns)
        if options is None:
            return refuted
        may_search, search = has_cut_graphs(self._cut_problem), None
        if self._has_copies and max(map(len, options)) > _MAX_WITH_COPIES:
            may_search = False
        if may_search and not self._prefers_columns:
            search = self._search_of(options, target_ns)
            answer = self._search_cuts(search, floor_ns, seconds=self._first_cuts_s)
            if answer.refuted or self._meets(answer.counts, target_ns):
                return answer
        most = _MAX_MIXED_COLUMNS if len(self.problem.network.runs) >= MANY_RUNS else _MAX_INTEGER_COLUMNS
        searches = may_search and (search is None or not search.is_too_large)
        groups = self._groups(options, target_ns, most=_THINNED * most if searches else MAX_COLUMNS)
        if groups is not None and not all(map(len, groups)):
            return refuted
        if searches and (groups is None or sum(map(len, groups)) > most):
            search = search or self._search_of(options, target_ns)
            if search.found is None:
                answer = self._search_cuts(search, floor_ns)
            if not search.is_too_large:
                return answer
            groups = self._groups(options, target_ns)
        self._suspended, self.cuts = None, None
        answer = self._search_columns(options, groups, target_ns, floor_ns)
        self._prefers_columns = answer.refuted or answer.counts is not None
        if not self._prefers_columns:
            self._first_cuts_s *= 2
        return answer

    def _search_columns(
        self, options: list[CellOptions], groups: list[ColumnGroup] | None, target_ns: int, floor_ns: float
    ) -> TargetAnswer:
        """Decide a target by the columns of each rank; where there are too many, by those of each cell first."""
        master = None
        if groups is None:
            # Once cells have fewer contents left, there may be few enough of ranks.
            master, floor_ns = self._narrow(cell_groups(options), target_ns, floor_ns, by_cell=True)
            if master is not None:
                groups = self._groups(master.options_left(), target_ns)
        if groups is None:
            return self._decide(master, floor_ns, target_ns)
        if not all(map(len, groups)):
            return self._decide(None, floor_ns, target_ns)
        return self._search_ranks(groups, target_ns, floor_ns)

    def _search_ranks(self, groups: list[ColumnGroup], target_ns: int, floor_ns: float) -> TargetAnswer:
        """Decide a target by columns of ranks: by whole numbers where few are left soon, else by boxes of them."""
        master = self._master_of(groups, target_ns, by_cell=False)
        bound = self._converge(master, target_ns, may_stall=sum(map(len, groups)) > _MAX_INTEGER_COLUMNS)
        if bound > self._enough_ns:
            return TargetAnswer(refuted=True, bound_ns=float(target_ns + 1))
        floor_ns = max(floor_ns, bound * (1 - _NOISE))
        number = sum(int(alive.sum()) for alive in master.alive)
        if number <= _MAX_INTEGER_COLUMNS:
            share = _SHAVING_SHARE if number > _MANY_COLUMNS else 1.0
            end_s = now_s() + share * (self._deadline - now_s())
            left, floor_ns = self._shrunk(master, target_ns, floor_ns, by_cell=False, end_s=end_s)
            if left is None or now_s() < end_s or sum(map(len, left.groups)) <= _MANY_COLUMNS:
                return self._decide(left, floor_ns, target_ns)
        master.compress()
        self._branching = Branching(master, self.paths, target_ns=target_ns)
        return self._go_on_branching(self._branching, target_ns, floor_ns)

    def _go_on_branching(self, branching: Branching, target_ns: int, floor_ns: float) -> TargetAnswer:
        """Go on with a search over boxes, for its target or a lower one."""
        branching.run(
            target_ns,
            enough_ns=self._enough_ns,
            keep_going=lambda: now_s() < self._deadline,
            report=lambda bound_ns: self._report(_("branching"), max(floor_ns, bound_ns * (1 - _NOISE))),
        )
        if branching.bound_ns > self._enough_ns:
            self._branching = None
            return TargetAnswer(refuted=True, bound_ns=float(target_ns + 1))
        floor_ns = max(floor_ns, min(branching.bound_ns * (1 - _NOISE), float(target_ns)))
        return TargetAnswer(refuted=False, bound_ns=floor_ns, counts=branching.counts)

    def _decide(self, master: Master | None, floor_ns: float, target_ns: int) -> TargetAnswer:
        """Decide a target by the columns that are left; None: there are none."""
        if master is None:
            return TargetAnswer(refuted=True, bound_ns=float(target_ns + 1))
        if now_s() >= self._deadline or sum(len(group) for group in master.groups) > _MAX_INTEGER_COLUMNS:
            return TargetAnswer(refuted=False, bound_ns=floor_ns)
        self._report(_("integer program"), floor_ns)
        return self._finish(master, target_ns, floor_ns)

    def _groups(
        self, options: list[CellOptions], target_ns: int, *, most: int = MAX_COLUMNS
    ) -> list[ColumnGroup] | None:
        """Return the columns of each rank; None where there are more than `most`, or the time is up."""
        return rank_groups(self.problem, options, target_ns, most=most, keep_going=lambda: now_s() < self._deadline)

    def _narrow(
        self, groups: list[ColumnGroup], target_ns: int, floor_ns: float, *, by_cell: bool
    ) -> tuple[Master | None, float]:
        """Run steps 2 and 3 on `groups`; returns the program of the columns left (None without any) and the bound."""
        if any(len(group) == 0 for group in groups):
            return None, floor_ns
        master = self._master_of(groups, target_ns, by_cell=by_cell)
        bound = self._converge(master, target_ns)
        if bound > self._enough_ns:
            return None, floor_ns
        floor_ns = max(floor_ns, bound * (1 - _NOISE))
        return self._shrunk(master, target_ns, floor_ns, by_cell=by_cell, end_s=self._deadline)

    def _shrunk(
        self, master: Master, target_ns: int, floor_ns: float, *, by_cell: bool, end_s: float
    ) -> tuple[Master | None, float]:
        """Run step 3 on a program until `end_s`; returns it (None without any column left) and the bound."""
        self._report(_("removing stages"), floor_ns)
        bound = self._shrink(master, target_ns, end_s=end_s)
        if bound > self._enough_ns:
            return None, floor_ns
        # Plans with a column that was removed are slower than the target, the others than this bound.
        floor_ns = max(floor_ns, min(bound * (1 - _NOISE), float(target_ns)))
        if not by_cell:
            alive = [group.select(mask) for group, mask in zip(master.groups, master.alive, strict=True)]
            self._left = (target_ns, alive)
        return master, floor_ns

    def _master_of(self, groups: list[ColumnGroup], target_ns: int, *, by_cell: bool) -> Master:
        return Master(
            self.problem,
            groups,
            self.paths,
            scale_ns=max(1, target_ns),
            by_cell=by_cell,
            keep_going=lambda: now_s() < self._deadline,
        )

    def _search_of(self, options: list[CellOptions], target_ns: int) -> CutSearch:
        """Return a search over cuts for a target, but for the cuts between chunks that an earlier one has refuted."""
        last = self._suspended
        middles = middles_outwards(self.problem)
        if last is not None and target_ns < last.target_ns:
            middles = last.open_middles
        graphs = CutGraphs(self._cut_problem, options, target_ns, middles=middles)
        return CutSearch(
            graphs,
            self._cut_paths,
            target_ns=target_ns,
            middles=middles,
            mixtures=self._mixtures,
            refuters=self._refuters,
        )

    def _search_cuts(self, search: CutSearch, floor_ns: float, *, seconds: float = float("inf")) -> TargetAnswer:
        """Search the cut graphs until the target is decided or the time is up."""
        target_ns = float(search.target_ns)
        end_s = min(self._cuts_deadline, now_s() + seconds)
        self.searches_cuts = True
        try:
            search.run(
                keep_going=lambda: now_s() < min(end_s, self._deadline),
                report=lambda bound_ns: self._report(_("searching cuts"), min(bound_ns, target_ns)),
            )
        finally:
            self.searches_cuts = False
        if search.is_too_large:
            return TargetAnswer(refuted=False, bound_ns=floor_ns)
        number = len(middles_outwards(self.problem))
        self.cuts = CutEffort(
            seconds_for_all=search.spent_s * number / max(1, search.num_middles),
            share_left=len(search.open_middles) / number,
        )
        if search.refuted:
            return TargetAnswer(refuted=True, bound_ns=target_ns + 1)
        bound_ns = max(floor_ns, min(search.bound_ns, target_ns))
        if search.found is None:
            self._suspended = search
        return TargetAnswer(refuted=False, bound_ns=bound_ns, counts=search.found)

    # 2. ---------------------------------------------------------------------------------------------------------

    def _converge(self, master: Master, target_ns: int, *, may_stall: bool = False) -> float:
        """Solve and add violated paths until none is left; returns a lower bound, infinite if nothing remains.

        With `may_stall`, it ends where paths hardly raise the bound any more.
        """
        bound = 0.0
        bounds = [bound]
        center: NDArray[np.float64] | None = None
        purged_at = 0.0
        while True:
            bound = max(bound, master.solve(enough_ns=self._enough_ns, passes=1))
            bounds.append(bound)
            if bound > self._enough_ns:
                return bound
            if may_stall and len(bounds) > _PATIENCE and bound < bounds[-1 - _PATIENCE] * (1 + _STALLED):
                return bound
            if master.num_chains > _MAX_CHAINS and master.value_ns > purged_at * (1 + _RISE):
                purged_at = master.value_ns
                master.purge()
            latest = master.durations_ns.astype(np.float64)
            center = latest if center is None else (center + latest) / 2
            value = master.value_ns
            is_new = self.paths.add_longest(master.durations_ns, above_ns=value * (1 + _VIOLATION))
            # Paths at a point between this and the earlier solutions cut deeper than those at its corner.
            for point in (center, (center + latest) / 2):
                is_new |= self.paths.add_longest(point.astype(np.int64), above_ns=value * _NEAR_VALUE)
            dropped = master.drop_by_reduced_cost(target_ns)
            if any(not alive.any() for alive in master.alive):
                return float("inf")
            if (not is_new and master.complete) or now_s() >= self._deadline:
                return bound
            if dropped > _COMPRESS_FROM * sum(len(group) for group in master.groups):
                master.compress()
            elif is_new:
                master.rebuild()
            self._report(_("bounding"), bound * (1 - _NOISE))

    # 3. ---------------------------------------------------------------------------------------------------------

    def _shrink(self, master: Master, target_ns: int, *, end_s: float) -> float:
        """Remove columns of no plan within the target until that no longer helps, or the clock says `end_s`.

        Returns a lower bound on the plans of the columns left, infinite if there is none.
        """
        bound = 0.0
        while True:
            before = sum(int(alive.sum()) for alive in master.alive)
            num_keys = len(master.groups[0].keys)
            for key in range(num_keys):
                for group in range(len(master.groups)):
                    values = master.groups[group].keys[key]
                    for descending in (False, True):
                        if not self._shave(master, group, values, descending, target_ns):
                            return float("inf")
                        if now_s() >= min(end_s, self._deadline):
                            return bound
            bound = max(bound, master.solve(enough_ns=self._enough_ns))
            if bound > self._enough_ns:
                return bound
            master.drop_by_reduced_cost(target_ns)
            if any(not alive.any() for alive in master.alive):
                return float("inf")
            master.compress()
            if sum(len(columns) for columns in master.groups) > _STALLED_ABOVE * before:
                return bound

    def _shave(self, master: Master, group: int, values: Integers, descending: bool, target_ns: int) -> bool:
        """Remove the extreme values of one property of a group that cannot meet the target; False if none is left."""
        while True:
            alive = master.alive[group]
            left = np.unique(values[alive])
            if len(left) == 0:
                return False
            if len(left) == 1:
                return True
            probe = alive & (values == (left[-1] if descending else left[0]))
            bound = master.solve({group: probe}, enough_ns=self._enough_ns, deciding=True)
            if bound <= self._enough_ns:
                # Its critical paths make the next round stronger.
                self.paths.add_longest(master.durations_ns, above_ns=target_ns)
                return True
            master.drop(group, probe)

    # 4. ---------------------------------------------------------------------------------------------------------

    def _finish(self, master: Master, target_ns: int, floor_ns: float) -> TargetAnswer:
        """Decide the columns that are left by integer programs, each with the critical paths of the plans before.

        Each also knows what was too much for ranks that keep something for others, by less than its tolerance.
        """
        too_full: list[TooFull] = []
        while True:
            self._program, members = master.program(target_ns, self._waits, too_full)
            solution = self._program.solve(time_limit_s=self._deadline - now_s())
            if solution.status == "infeasible":
                return TargetAnswer(refuted=True, bound_ns=float(target_ns + 1))
            floor_ns = max(floor_ns, min(solution.bound / master.factor * (1 - _NOISE), float(target_ns)))
            if solution.values is None:
                return TargetAnswer(refuted=False, bound_ns=floor_ns)
            chosen = [int(np.argmax(solution.values[own.start : own.stop])) for own in members]
            counts = self._counts(master.groups, chosen)
            costs = self.problem.costs(counts)
            has_room = bool((self.problem.rank_memory(costs) <= self.problem.limits).all())
            if has_room and self.paths.makespan(costs.durations) <= target_ns:
                if not self.problem.messages_depend or self.problem.makespan_ns(costs) <= target_ns:
                    return TargetAnswer(refuted=False, bound_ns=floor_ns, counts=counts)
                is_new = self._learn_messages(costs, target_ns)
            else:
                is_new = self.paths.add_longest(costs.durations, above_ns=target_ns)
                over = master.too_full(chosen)
                too_full += over
                is_new |= bool(over)
            if now_s() >= self._deadline or not is_new:
                return TargetAnswer(refuted=False, bound_ns=floor_ns)
            self._report(_("integer program"), floor_ns)

    def _learn_messages(self, costs: StageCosts, target_ns: int) -> bool:
        """Add the longest paths of a plan with the messages of its cut; False where there is none without waiting."""
        graph = self.problem.graph
        messages = costs.messages(self.problem.request.communication)
        table = messages.times_ns if isinstance(messages, InTurn) else messages
        if not isinstance(table, np.ndarray):
            return False
        messages_ns = graph.message_times(table)
        longest = self.paths.count_longest(costs.durations, above_ns=target_ns, messages_ns=messages_ns)
        ranks = np.array(self.problem.schedule.stage_ranks)
        crosses = message_table(np.append(ranks[:-1] != ranks[1:], False).astype(np.int64))
        of_messages = longest.message_counts[:, : len(crosses)] * crosses  # none waits for copies
        self._waits.append(longest._replace(message_counts=of_messages))
        return len(longest.messages_ns) > 0

    def _counts(self, groups: list[ColumnGroup], chosen: Sequence[int]) -> Integers:
        """Return the plan with a column of each group, shape [num_cells, num_kinds]."""
        counts = np.zeros((self.problem.num_cells, len(self.problem.kinds)), dtype=np.int64)
        for group, column in zip(groups, chosen, strict=True):
            counts[list(group.cells)] = group.counts(column)
        return counts
