"""The prover's thread: it finds a first plan, starts a search for better ones, and raises the bound by proofs.

Where searches count their work (`evenflow.reproducible`), all of it runs in the caller's thread: a proof, then a search
that does as much work as the proof did.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import Event, Thread

import numpy as np
from numpy.typing import NDArray

from evenflow.interruption import answer_exists, end_without
from evenflow.language import _
from evenflow.model import Plan
from evenflow.simulate import Integers
from evenflow.solve.aim import Aim
from evenflow.solve.backends.highs import Program
from evenflow.solve.bounds import link_bound_ns, ramp_bound_ns
from evenflow.solve.clock import Clock, counts_work, now_s
from evenflow.solve.cuts.cut_graph import has_cut_graphs
from evenflow.solve.cuts.cut_search import needs_all_processors
from evenflow.solve.cuts.evened import evened_plan
from evenflow.solve.cuts.nearby import nearby_plan
from evenflow.solve.infeasible import explain
from evenflow.solve.known_plans import allowed_counts, counted_alike, even_known, shortest_known
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.outcome import Outcome
from evenflow.solve.pooled_start import any_plan
from evenflow.solve.problem import Problem, without_copy_time, without_limit
from evenflow.solve.proof import MANY_RUNS, TOLERANCE, Prover
from evenflow.solve.relaxation.layer_program import Relaxation
from evenflow.solve.relaxation.rounded import rounded_plans
from evenflow.solve.search.annealing import Annealing
from evenflow.solve.search.dealing import first_plan
from evenflow.solve.start import even_start, fits, recomputing_less, without_moves

_POLL_SECONDS = 0.05
_SETTLE_POLL_SECONDS = 0.01
_SETTLE_SECONDS = 1.0
"""Most seconds without a better plan that a search is waited for; that of a small problem has settled long before."""
_ABOVE_SECONDS = 0.5
"""Most seconds to look for the least memory where nobody asks for advice and it is known that nothing fits."""
_ROUND_SECONDS = 0.1
"""Longest round of a search that takes turns with proofs."""
_REST_SECONDS = 6.0
"""Longest rest of a search for plans between two of its rounds, which take two seconds by then."""
_LARGE_SHARE = 0.2
"""Share of the time left that a look at the whole network may take, before the columns of the proof."""
_BEHIND_SHARE = 0.6
"""The same where a bound is wanted most: the plans of another schedule are shorter than those known of this one."""
_LIMITLESS_SHARE, _FREE_COPIES_SHARE = 0.15, 0.35
"""Shares of the time left for the same problem without memory limit, and with copies in no time."""
_FEW_KINDS = 4
"""Most recompute kinds of which cells have few contents: two, each with another that moves what it keeps."""
_FEW_CHUNKS = 2
"""Most chunks with which columns of ranks are so few that they come first."""
_NEARBY_SHARE = 0.15
"""Share of the time left that a look at the plans near the best one may take, before a target."""
_SHORTER = Aim(margin=1e-4)
"""How much shorter a plan found so is at least: the proof finds the rest."""
_NEARBY_ROUNDS_S = 0.3
"""Seconds of short rounds of a search from such a plan; those of the search in its own thread have become long."""
_WIDEST = 4
"""Most layers from a cut of the best plan where such a look has others."""
_SETTLE_SHARE = 0.05
"""Share of the time limit without a better plan that a search is waited for, if that is shorter."""


class ProofStanding:
    """The standing of a problem so far: its best plan, its bound, and the present phase.

    Only the prover's thread writes once it runs; every field is replaced as a whole, so that any thread may read it at
    any time.
    """

    def __init__(self) -> None:
        self.phase = _("starting")
        self.lower_bound_ns = 0
        self.first_plan_s: float | None = None
        self.infeasible: Outcome | None = None
        """Outcome where no plan fits."""
        self.search: Annealing | None = None
        self._first: tuple[int, Integers] | None = None

    @property
    def incumbent(self) -> tuple[int, Integers] | None:
        """Makespan and counts of the best plan so far, of equal ones that of the search."""
        plans = [plan for plan in (self.search and self.search.incumbent, self._first) if plan]
        return min(plans, key=lambda plan: plan[0], default=None)

    def begin(self, makespan_ns: int, counts: Integers, *, seconds: float) -> None:
        """Take a plan of plain code: the shortest of these is the best until the search has a shorter one."""
        if self._first is None or makespan_ns < self._first[0]:
            self._first = (makespan_ns, counts.copy())
        answer_exists()
        if self.first_plan_s is None:
            self.first_plan_s = seconds

    def raise_bound(self, bound_ns: float) -> None:
        """Take a lower bound, unless a better one is known."""
        if bound_ns < float("inf"):
            self.lower_bound_ns = max(self.lower_bound_ns, int(bound_ns))

    def report(self, phase: str, bound_ns: float) -> None:
        """Take the phase that the prover is in, and its bound."""
        self.phase = phase
        self.raise_bound(bound_ns)


class ProverThread:
    """The thread of one problem with its prover, its search and their standing; each run goes on from the last one.

    `run` is for the thread; `stop`, `start` and `join` for its owner.
    """

    def __init__(self, problem: Problem, *, known: Sequence[Plan], advise: bool) -> None:
        """Prepare runs from the shortest of the `known` plans that may be.

        The even plan is always known. Where none fits, `advise` asks for the least memory and for advice.
        """
        self.standing = ProofStanding()
        self.failure: BaseException | None = None
        self.ended = Event()
        """Event set when a run has ended: there is nothing more to prove, or it was stopped."""
        self._problem = problem
        self._known = shortest_known(problem, known)
        """Counts of the shortest known plan, from which the search starts."""
        seeds = [counts for counts in (self._known, even_known(problem)) if counts is not None]
        self._seeds = [(problem.simulate(counts).makespan_ns, counts) for counts in seeds]
        """Makespan and counts of all that is known, answers before the thread runs."""
        self._advise = advise
        self._stop = Event()
        self._thread: Thread | None = None
        self._prover: Prover | None = None
        self._rounds: Iterator[None] = iter(())
        """Rounds of the search, where it has no thread of its own."""
        self._between: Callable[[], object] = lambda: None
        self._program: Program | None = None
        """Program that looks for a first plan that fits, where the even one does not."""
        self._relaxation: Relaxation | None = None
        """The program over parts of layers."""
        self._fits_nothing = False
        """Whether it had no solution."""
        self._mixtures: list[NDArray[np.float64]] = []
        """Its mixture of paths, by which a search of cuts begins."""
        self._looked_near, self._width = 0, 1
        """Makespan of the plan near whose cuts others were looked for, and how near the next look is."""
        self._has_dealt = False
        """Whether layers were dealt, for the search to begin with."""
        self._has_rested = False
        """Whether the search has just rested."""
        self._has_evened = False
        """Whether the ranks of one chunk each have been evened out."""
        self._easier: tuple[tuple[ProverThread, float], ...] = ()
        """Provers of problems that bound this one where something moves to the host, with their shares of the time."""

    # -- the owner's side ------------------------------------------------------------------------------------------

    @property
    def known_ns(self) -> float:
        """Makespan of the shortest plan that is known before the first run; infinite without one."""
        return min((makespan_ns for makespan_ns, _counts in self._seeds), default=float("inf"))

    def learn(self, plan: Plan) -> None:
        """Take a plan that became known since: the next run's answer is not longer, where the problem allows it.

        Where one number of layers recomputes in every cell, its cut is taken with that number.
        """
        counts = allowed_counts(self._problem, plan)
        if counts is None:
            counts = counted_alike(self._problem, plan)
        if counts is None:
            return
        makespan_ns, incumbent = self._problem.simulate(counts).makespan_ns, self.standing.incumbent
        if makespan_ns >= (self.known_ns if incumbent is None else incumbent[0]):
            return
        self._known = counts
        self._seeds.append((makespan_ns, counts))
        if self.standing.search is not None:
            self.standing.search.offer(counts)

    @property
    def is_alive(self) -> bool:
        """Whether a long step of the last run has not noticed yet that the run is over."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, clock: Clock, *, cutoff_ns: int | None) -> None:
        """Begin a run; plans that are not shorter than `cutoff_ns` are of no use to it."""
        self._prepare(clock)
        # Not a daemon: a thread inside the solver library must not be torn down with the interpreter.
        self._thread = Thread(target=self._run, args=(clock, cutoff_ns))
        end_without(self._thread)
        self._thread.start()

    def run(self, clock: Clock, *, cutoff_ns: int | None, between: Callable[[], object]) -> None:
        """Make a whole run in this thread, by a clock of work; `between` is called now and then."""
        self._prepare(clock)
        self._between = between
        self._run(clock, cutoff_ns)

    def _prepare(self, clock: Clock) -> None:
        if self._thread is not None:
            self._thread.join()  # where it is alive, it must not meet its successor
        self._stop.clear()
        self.ended.clear()
        if self._prover:
            self._prover.resume()
        for makespan_ns, counts in self._seeds:
            self.standing.begin(makespan_ns, counts, seconds=clock.spent_s)

    @property
    def is_done(self) -> bool:
        """Whether the bound meets the best plan, or nothing fits."""
        search = self.standing.search
        return self.standing.infeasible is not None or (search is not None and self._is_met(search, None))

    def stop(self) -> None:
        """Ask the run to end soon."""
        self._stop.set()
        if self._prover:
            self._prover.stop()
        if self._program:
            self._program.cancel()

    def join(self, *, timeout_s: float | None = None) -> None:
        """Wait for the end of the run, but at most for `timeout_s` where it is given."""
        if self._thread is not None:
            self._thread.join(timeout=timeout_s)

    # -- the thread's side -----------------------------------------------------------------------------------------

    def _run(self, clock: Clock, cutoff_ns: int | None) -> None:
        try:
            if self.standing.search is None:
                self.standing.raise_bound(max(ramp_bound_ns(self._problem), link_bound_ns(self._problem)))
                self._begin(clock, cutoff_ns)
            if self.standing.search is not None and self._prover is not None:
                self._work(self.standing.search, self._prover, clock, cutoff_ns)
        except BaseException as error:  # noqa: BLE001 - handed to the owner's thread, which raises it
            self.failure = error
        finally:
            self.ended.set()

    def _work(self, search: Annealing, prover: Prover, clock: Clock, cutoff_ns: int | None) -> None:
        """Run the search in a thread of its own while this one proves, or in turns with the proof."""
        if counts_work():
            self._offer_dealt(search)
            self._settle(search, clock)
            self._prove(search, prover, clock, cutoff_ns)
            return
        searcher = Thread(target=search.run, kwargs={"stop": lambda: self._rests(search, prover)})
        searcher.start()
        try:
            self._offer_dealt(search)
            self._settle(search, clock)
            self._prove(search, prover, clock, cutoff_ns)
        finally:
            self._stop.set()
            searcher.join()

    def _offer_dealt(self, search: Annealing) -> None:
        """Offer the search layers that are dealt by time and memory, where cells share one number of recomputed ones.

        An even cut is far from good plans there, and it takes many moves that make the step no shorter.
        """
        if self._problem.counts_full and not self._has_dealt:
            self._has_dealt = True
            counts = first_plan(self._problem)
            if counts is not None:
                search.offer(counts)

    def _rests(self, search: Annealing, prover: Prover) -> bool:
        """Let a search that has settled rest while the proof has a use for all processors; returns whether it is over.

        Every other round goes on: a better plan is a shorter way for the proof too.
        """
        self._has_rested = not self._has_rested
        if needs_all_processors() and self._has_rested:
            end_s = now_s() + _REST_SECONDS
            while search.has_settled and prover.searches_cuts and now_s() < end_s and not self._stop.is_set():
                self._stop.wait(_POLL_SECONDS)
        return self._stop.is_set()

    def _begin(self, clock: Clock, cutoff_ns: int | None) -> None:
        """Make search and prover from a first plan, if there is one."""
        counts = self._first_plan(clock, cutoff_ns)
        if counts is None:
            return
        standing = self.standing
        for first in (counts, recomputing_less(self._problem, counts)):
            standing.begin(self._problem.simulate(first).makespan_ns, first, seconds=clock.spent_s)
        search = Annealing(problem=self._problem, counts=counts)
        assert standing.incumbent is not None
        search.offer(standing.incumbent[1])
        self._prover = Prover(self._problem, report=standing.report)
        self._prover.learn(counts)
        standing.phase = _("searching")
        standing.search = search
        self._rounds = search.rounds(longest_round_s=_ROUND_SECONDS)

    def _first_plan(self, clock: Clock, cutoff_ns: int | None) -> Integers | None:
        """Return a plan that fits; None where there is none below the cutoff, or none was found in time."""
        problem, standing = self._problem, self.standing
        if self._known is not None:
            return self._known.copy()  # the search changes it
        counts = even_start(problem)
        if fits(problem, counts):
            return counts
        kept = without_moves(problem) if problem.pooled else None
        if kept is not None and fits(problem, even_start(kept)):
            return even_start(kept)
        relaxed = self._relaxed(self._for_a_share(clock))
        if relaxed:
            return relaxed[0]
        if cutoff_ns is not None and standing.lower_bound_ns >= cutoff_ns:
            return None
        standing.phase = _("finding a plan that fits")
        seconds_above = clock.left_s if self._advise else _ABOVE_SECONDS
        least = least_memory(
            problem,
            seconds=seconds_above if self._fits_nothing else max(1.0, clock.left_s),
            enough_bytes=problem.limit,
            seconds_above=seconds_above,
            started=self._start_program,
        )
        if least.peak_bytes <= problem.limit:
            return least.counts
        if self._fits_nothing or least.bound_bytes > problem.limit:
            standing.infeasible = explain(problem, least, seconds=clock.spent_s, advise=self._advise)
        elif problem.pooled or problem.beside:  # what is kept for others does not fit, or what pairs hold
            self._prover = Prover(problem)  # `stop` ends it
            if self._stop.is_set():
                self._prover.stop()
            answer = any_plan(problem, self._prover, seconds=clock.left_s)
            if answer.refuted:
                standing.infeasible = explain(problem, least, seconds=clock.spent_s, advise=self._advise)
            return answer.counts
        return None

    def _relaxed(self, keep_going: Callable[[], bool]) -> list[Integers]:
        """Solve the program over parts of layers, for a bound; return plans near its solution, the shortest first."""
        standing = self.standing
        if self._relaxation is None:
            self._relaxation = Relaxation(self._problem, scale_ns=standing.lower_bound_ns)
        relaxed = self._relaxation.run(
            keep_going=keep_going, report=lambda bound_ns: standing.report(_("bounding"), bound_ns)
        )
        self._fits_nothing = relaxed.bound_ns == float("inf")
        if relaxed.borders is None:
            return []
        if relaxed.mixture is not None:
            self._mixtures = [relaxed.mixture]
        return rounded_plans(self._problem, relaxed.borders)

    def _start_program(self, program: Program) -> None:
        """Let the owner cancel a program; it may have asked for that already."""
        self._program = program
        if self._stop.is_set():
            program.cancel()

    def _settle(self, search: Annealing, clock: Clock) -> None:
        """Let the search find a good plan first: targets below a poor one are a waste."""
        best, since = search.incumbent[0], now_s()
        patience = min(_SETTLE_SECONDS, _SETTLE_SHARE * clock.limit_s)
        while not search.has_settled and now_s() - since < patience and not self._pause(clock, _SETTLE_POLL_SECONDS):
            if search.incumbent[0] < best:
                best, since = search.incumbent[0], now_s()

    def _pause(self, clock: Clock, seconds: float = _POLL_SECONDS) -> bool:
        """Let the search run for some seconds; returns whether the run is over."""
        if not counts_work():
            return self._stop.wait(seconds)
        self._search(seconds)
        return self._is_over(clock)

    def _search(self, seconds: float) -> None:
        """Let the search, which has no thread of its own, do so many seconds of work."""
        end = now_s() + seconds
        while now_s() < end and not self._stop.is_set():
            next(self._rounds)
            self._between()

    def _is_over(self, clock: Clock) -> bool:
        """Whether the run was stopped, or nobody else would stop it and its time is up."""
        return self._stop.is_set() or (counts_work() and clock.left_s <= 0)

    def _prove(self, search: Annealing, prover: Prover, clock: Clock, cutoff_ns: int | None) -> None:
        """Refute targets until the bound meets the best plan or the run is over."""
        standing, aim = self.standing, Aim()
        if self._begins_at_large(search, cutoff_ns):
            self._learn_at_large(search, clock, cutoff_ns)
        while not self._is_over(clock):
            self._learn_without_copies(search, clock, cutoff_ns, is_first=aim.is_first)
            looks = not aim.is_first or len(self._problem.network.runs) >= MANY_RUNS
            if looks and not self._is_met(search, cutoff_ns):
                self._look_nearby(search, prover, clock)
            if self._is_met(search, cutoff_ns):
                return
            makespan, counts = search.incumbent
            if cutoff_ns is not None:
                makespan = min(makespan, cutoff_ns)
            prover.learn(counts)
            target, began = aim.target_ns(makespan, bound_ns=standing.lower_bound_ns), now_s()
            limit_s, left_s = clock.limit_s, clock.left_s
            answer = prover.refute(
                target,
                seconds=aim.seconds(limit_s=limit_s, left_s=left_s),
                seconds_of_cuts=aim.seconds_of_cuts(limit_s=limit_s, left_s=left_s),
                floor_ns=standing.lower_bound_ns,
                mixtures=self._mixtures,
            )
            standing.raise_bound(answer.bound_ns)
            if counts_work():
                self._search(now_s() - began)
            if answer.counts is not None:
                search.offer(answer.counts)
                continue
            gap = 1 - standing.lower_bound_ns / makespan
            aim = aim.next(
                target,
                refuted=answer.refuted,
                gap=gap,
                left_s=clock.left_s,
                cuts=prover.cuts,
                branches=prover.branches,
            )
            if not answer.refuted and not prover.branches:
                prover.forget()
                self._learn_at_large(search, clock, cutoff_ns)

    def _learn_without_copies(self, search: Annealing, clock: Clock, cutoff_ns: int | None, *, is_first: bool) -> None:
        """Take the bounds of the same problem without memory limit, and with free copies.

        Where all that does not fit moves under the work of others, the limit does not matter; where links are not the
        bottleneck, copies do not. In both, cells have far fewer contents that are worth a look. Where these are few
        anyway, the second comes after the first target. What had too little time goes on in the next turn.
        """
        problem = self._problem
        if problem.host_link is None or problem.copies_take_no_time:
            return
        if not self._easier:
            plan = problem.plan(search.incumbent[1])
            limitless, free = without_limit(problem), without_copy_time(problem)
            self._easier = (
                (ProverThread(limitless, known=[replace(plan, recompute={})], advise=False), _LIMITLESS_SHARE),
                (ProverThread(free, known=[plan], advise=False), _FREE_COPIES_SHARE),
            )
        waits = is_first and len(problem.kinds) <= _FEW_KINDS
        for other, share in self._easier[:1] if waits else self._easier:
            if not (other.is_done or self._is_over(clock) or self._is_met(search, cutoff_ns)):
                self._let_run(other, search, clock, cutoff_ns, share=share)
                self.standing.raise_bound(other.standing.lower_bound_ns)

    def _let_run(
        self, other: "ProverThread", search: Annealing, clock: Clock, cutoff_ns: int | None, *, share: float
    ) -> None:
        """Let the prover of another problem run for a `share` of the time left."""
        if counts_work():
            other.run(Clock(limit_s=share * clock.left_s), cutoff_ns=cutoff_ns, between=self._between)
        else:
            goes_on = self._for_a_share(clock, share)
            other.start(clock, cutoff_ns=cutoff_ns)
            while goes_on() and not other.ended.wait(_POLL_SECONDS) and not self._is_met(search, cutoff_ns):
                self.standing.phase = other.standing.phase
            other.stop()
            other.join()
        if other.failure is not None:
            raise other.failure

    def _is_met(self, search: Annealing, cutoff_ns: int | None) -> bool:
        """Return whether the bound meets the best plan, or the cutoff below it."""
        makespan_ns = min(search.incumbent[0], cutoff_ns or search.incumbent[0])
        return 1 - self.standing.lower_bound_ns / makespan_ns <= 2 * TOLERANCE

    def _look_nearby(self, search: Annealing, prover: Prover, clock: Clock) -> None:
        """Look for shorter plans whose cuts are near those of the best one, farther away where none is closer.

        Where layers are equal, single moves do as well.
        """
        if self._problem.network.is_uniform or not has_cut_graphs(self._problem):
            return
        goes_on = self._for_a_share(clock, _NEARBY_SHARE)
        while goes_on():
            makespan_ns, counts = search.incumbent
            if self._looked_near != makespan_ns:
                self._looked_near, self._width = makespan_ns, 1
            if self._width > _WIDEST:
                return
            began = now_s()
            prover.learn(counts)
            target_ns = _SHORTER.target_ns(makespan_ns, bound_ns=self.standing.lower_bound_ns)
            nearby = nearby_plan(
                self._problem, counts, prover.paths, target_ns=target_ns, width=self._width, keep_going=goes_on
            )
            if nearby is not None:
                search.offer(self._annealed(nearby))
            if search.incumbent[0] == makespan_ns:
                self._width = self._width + 1 if goes_on() else _WIDEST + 1  # wider ones would not be done in time
            if counts_work():
                self._search(now_s() - began)

    def _annealed(self, counts: Integers) -> Integers:
        """Return the best plan of a short search from a plan."""
        polished, end_s = Annealing(problem=self._problem, counts=counts.copy()), now_s() + _NEARBY_ROUNDS_S
        polished.run(stop=lambda: now_s() >= end_s, longest_round_s=_NEARBY_ROUNDS_S)
        return polished.incumbent[1]

    def _begins_at_large(self, search: Annealing, cutoff_ns: int | None) -> bool:
        """Return whether a look at the whole network comes before targets, which take long, or which it may spare."""
        problem = self._problem
        is_hard = problem.schedule.has_pairs or problem.num_chunks > _FEW_CHUNKS or _is_behind(search, cutoff_ns)
        return is_hard or len(problem.network.runs) >= MANY_RUNS

    def _learn_at_large(self, search: Annealing, clock: Clock, cutoff_ns: int | None) -> None:
        """Take bound and plan of a look at the whole network.

        One that had too little time goes on in the next run. Where only plans below a cutoff are of use, and none is
        known, the look ends with a bound above that, and is the most likely to find one.
        """
        if self._problem.num_chunks > 1 or not has_cut_graphs(self._problem):
            is_behind = _is_behind(search, cutoff_ns)
            goes_on = self._for_a_share(clock, _BEHIND_SHARE if is_behind else _LARGE_SHARE)
            if self._relaxation is None or not self._relaxation.is_over:
                for counts in self._relaxed(lambda: goes_on() and not self._is_met(search, cutoff_ns))[:1]:
                    search.offer(counts)
        elif not self._has_evened and not self._problem.network.is_uniform:
            self._has_evened = True
            standing = self.standing
            evened = evened_plan(
                self._problem,
                lower_ns=standing.lower_bound_ns,
                upper_ns=search.incumbent[0],
                keep_going=self._for_a_share(clock),
            )
            standing.report(_("bounding"), evened.bound_ns)
            if evened.counts is not None:
                search.offer(evened.counts)

    def _for_a_share(self, clock: Clock, share: float = _LARGE_SHARE) -> Callable[[], bool]:
        """Return whether a look that may take a share of the time left goes on, to be asked again and again."""
        end_s = now_s() + share * clock.left_s
        return lambda: now_s() < end_s and not self._is_over(clock)


def _is_behind(search: Annealing, cutoff_ns: int | None) -> bool:
    """Return whether only plans shorter than the best of this search are of use."""
    return cutoff_ns is not None and cutoff_ns < search.incumbent[0]
