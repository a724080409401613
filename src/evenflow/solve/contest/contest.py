"""A contest of schedules for the shortest plan, within one time limit.

Each candidate first gets a short turn, for a good plan. Then the candidates that can still win, because their lower
bound is below the best plan of all, share the time that is left, the most promising first. The best plan of all is the
cutoff of the others: a candidate is out as soon as it is proven that none of its plans is shorter.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Event

from evenflow.errors import InputError, Interrupted
from evenflow.interruption import abandonable, on_interrupt
from evenflow.language import _
from evenflow.model import Plan
from evenflow.schedule import Schedule
from evenflow.solve.best_outcome import BestOutcome, ScheduleCandidate
from evenflow.solve.binding import with_binding
from evenflow.solve.clock import Clock, now_s, shown_s
from evenflow.solve.columns.shared_out import shared_out_bound_ns
from evenflow.solve.contest.cell_fetches import better_fetches, soonest_back
from evenflow.solve.contest.entry import Entry, relate, with_floor
from evenflow.solve.contest.frugal import kept_bytes
from evenflow.solve.infeasible import advice_for, explain
from evenflow.solve.known_plans import allowed_counts
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.outcome import Infeasibility, Outcome, Progress, ProgressCallback, Status
from evenflow.solve.problem import Problem
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.race import Race, RaceSettings
from evenflow.solve.recompute_ways import BoundPurpose

_FIRST_SHARE, _FIRST_SECONDS = 0.3, 1.0
"""Share of the time for all first turns together, and most seconds of each."""
_COUNTED_SHARE, _MOST_COUNTED = 0.2, 4
"""Share of the time for second turns of candidates with one number of recomputed layers, and most of these: the best
number is seldom that of the first plan, and many of them are bounded together, without turns of their own.
"""
_RULES_SHARE = 0.15
"""Most of the time for bounds of those with a rule of their own by what each rank alone can hold; seconds mostly do."""
_ENTERING_SHARE = 0.1
"""Share of the time for a look at the even plans of all candidates."""
_BY_CELL_SHARE = 0.25
"""Share of the time for a bound on fetches with a number of their own in each cell, and for a search for such."""
_LEAST_SECONDS = 0.5
"""Least seconds of a turn: a shorter one does not pay for its start."""
_PATIENCE_SECONDS = 0.3
"""Seconds to wait for a candidate in a long step; the next one then starts beside it."""
_POLL_SECONDS = 0.05


class Contest:
    """A contest of all candidates within one time limit, of whose plans only those below `cutoff_ns` are of use."""

    def __init__(
        self,
        entries: list[Entry],
        problem_of: Callable[[Entry], Problem],
        *,
        began: float,
        memory_limit_bytes: int | None,
        time_limit_s: float,
        progress: ProgressCallback | None,
        cutoff_ns: float = float("inf"),
        other_orders: Sequence[Schedule] = (),
        known: Sequence[Plan] = (),
        fetches_by_cell: bool = False,
    ) -> None:
        """Prepare the contest from plans that are `known`; a candidate with one of `other_orders` is not tried.

        With `fetches_by_cell` the last part of the time is for fetches with a number of actions of their own in each
        cell.
        """
        self.entries = entries
        self._problem_of = problem_of
        self._memory_limit_bytes = memory_limit_bytes
        self._progress = progress
        self._cutoff_ns = cutoff_ns
        self._other_orders = other_orders
        self._known = known
        self._began = began
        self._deadline = self._began + time_limit_s * (1 - _BY_CELL_SHARE * fetches_by_cell)
        self._fetches_by_cell = fetches_by_cell
        self._time_limit_s = time_limit_s
        self._order = entries
        """The candidates in the order of their first turns, which numbers them in reports."""
        self._any_fetches: Entry | None = None
        """What bounds plans of one order whose fetches are ahead by any number of actions in each cell."""
        self._stopped = Event()
        self._refusal: InputError | None = None

    @property
    def candidates(self) -> tuple[ScheduleCandidate, ...]:
        """All candidates, the shortest makespan first, then those without a plan."""
        shown = [entry for entry in self.entries if entry.bounds is None]
        return tuple(entry.candidate for entry in sorted(shown, key=lambda entry: entry.preference))

    @property
    def best_ns(self) -> float:
        """The shortest makespan so far, or the cutoff."""
        return min(self._cutoff_ns, *(entry.makespan_ns for entry in self.entries))

    @property
    def left_s(self) -> float:
        """Seconds left of the limit."""
        return self._deadline - now_s()

    def run(self) -> None:
        """Give each candidate a first turn, then further turns to those that can still win."""
        with suppress(KeyboardInterrupt), on_interrupt(self._stopped.set):
            tried = [entry for entry in self.entries if entry.less is None or entry.less.less is None]
            first = min(_FIRST_SECONDS, _FIRST_SHARE * self._time_limit_s / len(tried))
            self._order = self._in_first_turns()
            for number, entry in enumerate(self._order):
                if self._stopped.is_set() or (number and self.left_s <= 0):  # one has a turn in any case
                    break
                self._enter(entry)
                if self._has_first_turn(entry):
                    self._turn(entry, first)
            self._look_at_numbers()
            self._bound_rules()
            if self._fetches_by_cell:
                self._bound_fetches()
            while not self._stopped.is_set() and (still := self._open()) and self.left_s > 0:
                free = [entry for entry in still if entry.race is not None and not entry.race.busy]
                for position, entry in enumerate(free):
                    had = {id(other) for other in free[:position]}  # what is open now may not be what was at first
                    waiting = [other for other in self._open() if id(other) not in had]
                    if entry in waiting and not self._stopped.is_set() and self.left_s > 0:
                        self._turn(entry, min(self.left_s, max(_LEAST_SECONDS, self.left_s / len(waiting))))
                if not free:
                    self._stopped.wait(_POLL_SECONDS)
            if self._fetches_by_cell:
                self._deadline = self._began + self._time_limit_s
                self._look_at_cells()
        if self._refusal is not None and all(entry.reason for entry in self.entries):
            raise self._refusal

    def _has_first_turn(self, entry: Entry) -> bool:
        """Return whether a candidate has a turn before others go on: one that has a plan already, or may well have."""
        if entry.race is None or entry.bounds is not None:
            return False
        waits = entry.fits_nothing or any(other.makespan_ns == math.inf for other in entry.frugal)
        return bool(entry.known) or entry.known_ns < self.best_ns or not (entry.is_late or waits)

    def _bound_rules(self) -> None:
        """Bound those with a rule of their own by what ranks alone can hold under it, those that cover others first.

        Most are out so, or far behind, without a turn: no other bound knows one number of recomputed layers.
        """
        end_s = min(self._deadline, now_s() + _RULES_SHARE * self._time_limit_s)
        best_ns = self.best_ns

        def goes_on() -> bool:
            return not self._stopped.is_set() and now_s() < end_s

        ruled = [entry for entry in self.entries if entry.rule is not None and entry.race is not None]
        for entry in sorted(ruled, key=lambda entry: len(entry.covered_by)) if best_ns < math.inf else ():
            if goes_on() and entry.race is not None and not entry.shares_of and entry.lower_bound_ns < best_ns:
                lower_ns, upper_ns = int(entry.lower_bound_ns), int(best_ns)
                entry.floor_ns = shared_out_bound_ns(
                    entry.race.problem, lower_ns=lower_ns, upper_ns=upper_ns, keep_going=goes_on
                )
                entry.race.raise_bound(entry.floor_ns)
                entry.is_beaten = entry.floor_ns >= upper_ns

    def _look_at_numbers(self) -> None:
        """Give a turn to those with one number of recomputed layers that look best, from the cut of the best plan.

        One that holds the same plan as a smaller number has none: its cells have no more layers than that number, and
        all are recomputed.
        """
        different: dict[object, Entry] = {}
        for entry in (entry for entry in self.entries if entry.counts_layers):  # smaller numbers come first
            different.setdefault((entry.order, entry.host_link, entry.shortest_ns), entry)
        kept = {id(entry) for entry in different.values()}
        counted = [entry for entry in self._open(together=False) if id(entry) in kept]
        counted = sorted(counted, key=lambda entry: entry.shortest_ns)[:_MOST_COUNTED]
        for entry in counted if len(counted) > 1 else ():
            seconds = _COUNTED_SHARE * self._time_limit_s / len(counted)
            if not self._stopped.is_set() and self.left_s > seconds >= _LEAST_SECONDS:
                self._turn(entry, seconds)

    def _bound_fetches(self) -> Entry | None:
        """Bound plans with any numbers of actions ahead by cell, in the order of the best plan; returns that plan's.

        Such a bound holds for all candidates with this order. Returns None without a plan that may move anything.
        """
        best = min(self.entries, key=lambda entry: entry.preference)
        plan = None if best.outcome is None else best.outcome.plan
        if plan is None or best.race is None or best.race.problem.host_link is None or self._stopped.is_set():
            return None
        if best.race.problem.schedule.is_forward_only:
            return None
        if self._any_fetches is not None and self._any_fetches in best.covered_by:
            return best
        race = Race(soonest_back(best.race.problem), RaceSettings(patience_s=_PATIENCE_SECONDS, advise=False))
        bounding = replace(
            best, bounds=BoundPurpose.COVER, covered_by=(), known=(), learnt=None, race=race, outcome=None
        )
        for entry in self.entries:
            if (entry.order, entry.rule) == (best.order, best.rule):
                entry.covered_by += (bounding,)
        self._any_fetches = bounding
        self._add(bounding)
        self._turn(bounding, max(_LEAST_SECONDS, min(self.left_s, _BY_CELL_SHARE * self._time_limit_s)))
        return best

    def _look_at_cells(self) -> None:
        """Look for a shorter plan whose fetches are ahead by a number of their own in each cell."""
        best = self._bound_fetches()
        if best is None or best.outcome is None or best.outcome.plan is None or best.race is None:
            return
        if self._any_fetches is None or self._any_fetches.lower_bound_ns >= self.best_ns * (1 - 2 * TOLERANCE):
            return
        problem = best.race.problem
        counts = problem.counts(best.outcome.plan)
        better = better_fetches(problem, counts, stop=lambda: self._stopped.is_set() or self.left_s <= 0)
        if better is not None and not self._stopped.is_set():
            link, counts = better
            entry = replace(best, host_link=link, race=None, outcome=None, known=(problem.plan(counts),), learnt=None)
            self._add(entry)
            self._enter(entry)
            self._turn(entry, max(_LEAST_SECONDS, self.left_s))

    def _add(self, entry: Entry) -> None:
        """Take up a candidate after the first turns."""
        self.entries.append(entry)
        self._order = [*self._order, entry]

    def _in_first_turns(self) -> list[Entry]:
        """Return the candidates in the order of their first turns: the one with the shortest known plan first.

        Of those without a plan it is the one that keeps least: where that does not fit, others need no turn.

        Those that plans were given for are looked at in any case, and the others, with their even plans, as far as a
        small share of the time goes.
        """
        orders = {(plan.schedule, plan.num_chunks) for plan in self._known}
        given = [entry for entry in self.entries if (entry.schedule, entry.num_chunks) in orders]
        end = self._deadline - (1 - _ENTERING_SHARE) * self._time_limit_s
        for entry in (*given, *self.entries):
            if entry.bounds is None and (entry in given or now_s() < end) and not self._stopped.is_set():
                self._enter(entry)
        return sorted(self.entries, key=_turn_order)

    def _open(self, *, together: bool = True) -> list[Entry]:
        """Return the candidates that can still win, or have not yet proven that they do, most promising first.

        One without any plan that keeps no less than another waits until that has one. Those that a proof may refute
        `together` are not among them, but their cover.
        """
        enough = self.best_ns * (1 - 2 * TOLERANCE)
        still = [entry for entry in self.entries if entry.race is not None and entry.lower_bound_ns < enough]
        unfit = {id(entry) for entry in still if entry.makespan_ns == math.inf}
        wanted = [
            entry
            for entry in still
            if entry.bounds is not BoundPurpose.COVER
            and (entry.known_ns < math.inf or not any(id(other) in unfit for other in entry.frugal))
        ]
        best = min(self.entries, key=lambda entry: entry.preference)
        covers = [entry for entry in still if entry.bounds is not None and entry.may_refute(enough)]
        for cover in covers if together else ():
            covered = [entry for entry in wanted if cover in entry.covered_by]
            if len(covered) > 1 and cover not in best.covered_by:  # several are out at once, if it is
                wanted = [*(entry for entry in wanted if entry not in (*covered, cover)), cover]
        return sorted(wanted, key=lambda entry: entry.makespan_ns)

    def _enter(self, entry: Entry) -> None:
        """Make the race of a candidate unless it has one, or note the reason why there is none."""
        if entry.race is not None or entry.reason:
            return
        try:
            with abandonable():
                problem = self._problem_of(entry)
        except InputError as error:
            self._refusal = self._refusal or error
            entry.reason = error.sentence
            return
        for order in self._other_orders:
            if order.same_order(problem.schedule):
                entry.reason = _("the same order as {label}", label=order.name)
                return
        for other in self.entries:
            if (
                other.race is not None
                and (other.rule, other.host_link, other.rank_order, other.releases_attention)
                == (entry.rule, entry.host_link, entry.rank_order, entry.releases_attention)
                and other.race.problem.schedule.same_order(problem.schedule)
            ):
                entry.reason = _("the same order as {label}", label=other.candidate.label)
                return
        entry.known += tuple(plan for plan in self._known if allowed_counts(problem, plan) is not None)
        others = [other.outcome.plan for other in self.entries if other.outcome is not None and other.outcome.plan]
        known = (*entry.known, *others)
        entry.race = Race(problem, RaceSettings(patience_s=_PATIENCE_SECONDS, advise=False, known=known))
        entry.known_ns = entry.race.known_ns
        relate(entry, self.entries)

    def _turn(self, entry: Entry, seconds: float) -> None:
        """Let a candidate run on for some seconds."""
        assert entry.race is not None
        race, best_ns, clock = entry.race, self.best_ns, Clock(limit_s=seconds)
        shortest = self._shortest_beside(entry)
        if shortest is not None and shortest is not entry.learnt:
            race.learn(shortest)
            entry.learnt = shortest
        cutoff_ns = None if best_ns == float("inf") else int(best_ns)
        try:
            outcome = race.run(clock, progress=self._told(entry), cutoff_ns=cutoff_ns)
            entry.outcome = replace(with_floor(outcome, entry.floor_ns), rank_order=entry.rank_order)
        except Interrupted:
            self._stopped.set()
        if race.interrupted.is_set():
            self._stopped.set()

    def _shortest_beside(self, entry: Entry) -> Plan | None:
        """Return the shortest plan of the other candidates with as many chunks: their cells may do under its order."""
        others = [other for other in self.entries if other is not entry and other.num_chunks == entry.num_chunks]
        best = min(others, key=lambda other: other.makespan_ns, default=None)
        return None if best is None or best.outcome is None or best.makespan_ns == math.inf else best.outcome.plan

    def _told(self, entry: Entry) -> ProgressCallback | None:
        """Return a callback that reports on all candidates while one has its turn."""
        report = self._progress
        if report is None:
            return None
        number = self._order.index(entry) + 1
        best_ns = self.best_ns
        others = [other for other in self.entries if other is not entry and other.bounds is not BoundPurpose.COVER]
        others_ns = min((other.lower_bound_ns for other in others), default=float("inf"))

        def tell(progress: Progress) -> None:
            own_ns = None if entry.bounds is not None else progress.makespan_ns  # nobody can run the plans of a bound
            makespan = min(best_ns, float("inf") if own_ns is None else own_ns)
            bound = min(others_ns, max(entry.lower_bound_ns, progress.lower_bound_ns), makespan)
            report(
                replace(
                    progress,
                    seconds=shown_s() - self._began,
                    phase=_(
                        "{number}/{count} {label}: {phase}",
                        number=number,
                        count=len(self.entries),
                        label=entry.candidate.label,
                        phase=progress.phase,
                    ),
                    makespan_ns=None if makespan == float("inf") else int(makespan),
                    lower_bound_ns=0 if bound == float("inf") else int(bound),
                )
            )

        return tell

    def outcome(self) -> BestOutcome:
        """Return the outcome of the contest; raises Interrupted where Ctrl-C came before any plan."""
        entries = sorted(self.entries, key=lambda entry: entry.preference)
        seconds = now_s() - self._began
        best = entries[0]
        if best.makespan_ns == float("inf"):
            answer = self._no_plan(seconds)
        else:
            assert best.outcome is not None
            assert best.race is not None
            answer = with_binding(replace(best.outcome, solve_seconds=seconds), best.race.problem)
        bound = min(entry.lower_bound_ns for entry in entries if entry.bounds is not BoundPurpose.COVER)
        return BestOutcome(
            outcome=answer,
            candidates=self.candidates,
            lower_bound_ns=int(min(bound, best.makespan_ns)) if best.makespan_ns < float("inf") else 0,
            by_cell_bound_ns=self._by_cell_bound_ns(best),
            solve_seconds=seconds,
        )

    def _by_cell_bound_ns(self, best: Entry) -> int | None:
        """Return the bound on plans like the best one with any numbers of actions ahead; None without one."""
        bounding = self._any_fetches
        if bounding is None or bounding not in best.covered_by:
            return None
        return int(min(bounding.lower_bound_ns, best.makespan_ns))

    def _no_plan(self, seconds: float) -> Outcome:
        """Return the outcome without a plan: out of time, or even the candidate that needs the least does not fit."""
        if self._stopped.is_set():
            raise Interrupted(_("interrupted: there is no result yet"))
        decided = [entry for entry in self.entries if not entry.reason and entry.bounds is None]
        entries = [entry for entry in decided if entry.outcome is not None or not entry.fits_nothing]
        reasons = {
            entry: entry.outcome.infeasibility for entry in entries if entry.outcome and entry.outcome.infeasibility
        }
        if len(reasons) < len(entries):
            return Outcome(
                status=Status.TIMEOUT,
                simulation=None,
                lower_bound_ns=0,
                memory_limit_bytes=self._memory_limit_bytes,
                solve_seconds=seconds,
            )
        self._find_least(reasons)
        entry, least = min(reasons.items(), key=lambda pair: pair[1].smallest_limit_bytes)
        assert entry.outcome is not None
        assert entry.race is not None
        advice = (
            _("it is that of {label}", label=entry.candidate.label),
            *advice_for(entry.race.problem, schedules=False),
        )
        proven = all(reason.proven for reason in reasons.values())
        return replace(entry.outcome, solve_seconds=seconds, infeasibility=replace(least, proven=proven, advice=advice))

    def _find_least(self, reasons: dict[Entry, Infeasibility]) -> None:
        """Find the least memory of candidates, the most frugal first: their races ended where it was too much."""
        for entry, reason in sorted(reasons.items(), key=lambda pair: pair[1].smallest_limit_bytes):
            if not reason.proven and self.left_s > 0 and entry.race is not None:
                problem = entry.race.problem
                least = least_memory(problem, seconds=self.left_s)
                entry.outcome = explain(problem, least, seconds=0.0, advise=False)
                reasons[entry] = entry.outcome.infeasibility or reason


def _turn_order(entry: Entry) -> tuple[float, float]:
    """Sort key of first turns, smallest for the first."""
    if entry.bounds is not None or entry.race is None:
        return math.inf, math.inf
    is_known = entry.known_ns < math.inf
    return entry.known_ns, 0.0 if is_known else kept_bytes(entry.race.problem)
