"""The main job: the shortest step that fits in memory, with its proof.

Two threads work side by side: a search for better plans, and a prover that raises the lower bound by refuting targets
below the best plan. The caller's thread waits, reports, and answers when the bound meets the plan or the time is up.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread, current_thread, main_thread

from evenflow.errors import Interrupted
from evenflow.model import Plan
from evenflow.simulate.costs import Integers
from evenflow.solve.backends.highs import Program
from evenflow.solve.columns.rank_columns import load_bound
from evenflow.solve.infeasible import explain
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.outcome import Outcome, Progress, ProgressCallback, Status
from evenflow.solve.problem import Problem
from evenflow.solve.proof import TOLERANCE, Prover
from evenflow.solve.search.annealing import Search
from evenflow.solve.start import even_start

_POLL_SECONDS = 0.05
_REPORT_SECONDS = 0.25
_FIRST_ATTEMPT = 0.35, 20.0
"""Share of the time, and seconds, in which the prover aims straight at the best plan before it lowers its sights."""
_MARGIN = 0.01
"""Then it aims this fraction below the best plan (but within the gap), or a quarter of the gap if that is more."""
_LEAST_MARGIN = 0.002
"""Margins are halved after a success and doubled after a failure; smaller ones than this aim straight again."""
_MARGIN_OF_CUTS = 0.015
"""A search of cuts that gets nowhere aims no lower than this."""
_LATER_ATTEMPT = 0.7
"""Share of the time left that a later attempt may take."""


@contextmanager
def on_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C call `action` meanwhile, where this is the thread that receives it."""
    if current_thread() is not main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, lambda number, frame: action())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@dataclass(kw_only=True)
class Race:
    """One solve: the state that its threads share. It can be resumed."""

    problem: Problem
    began: float
    time_limit_s: float
    cutoff_ns: int | None = None
    """Plans that are not shorter than this are of no use: the race is over when it is proven that there is none."""
    patience_s: float = 2.0
    """How long to wait at the end of a run for a long step to notice it."""
    advise: bool = True
    """Whether to find out what would help where nothing fits, which takes seconds."""
    start: Plan | None = None
    """A plan that fits, if one is known: the answer is not longer."""
    found: tuple[int, Integers] | None = None
    """Makespan and counts of the first plan, the answer until the search runs."""
    starting: Program | None = None
    """Looks for a first plan that fits, where the simple one does not."""
    search: Search | None = None
    prover: Prover | None = None
    lower_bound_ns: int = 0
    phase: str = "starting"
    first_plan_s: float | None = None
    infeasible: Outcome | None = None
    failure: BaseException | None = None
    compiling_since: float | None = None
    compiling_s: float = 0.0
    """Time spent on compiling, which only a first run needs: it does not count against the limit."""
    spent_s: float = 0.0
    """Time of the runs so far."""
    worker: Thread | None = None
    stop: Event = field(default_factory=Event)
    """Asks both threads to end."""
    proven: Event = field(default_factory=Event)
    interrupted: Event = field(default_factory=Event)

    @property
    def left_s(self) -> float:
        """Time left of the limit."""
        now = time.monotonic()
        compiling = self.compiling_s + (now - self.compiling_since if self.compiling_since else 0.0)
        return self.time_limit_s - (now - self.began - compiling)

    @property
    def busy(self) -> bool:
        """Whether a long step of the last run has not noticed yet that the run is over."""
        return self.worker is not None and self.worker.is_alive()

    @property
    def incumbent(self) -> tuple[int, Integers] | None:
        """Makespan and counts of the best plan so far."""
        return self.search.incumbent if self.search else self.found

    # -- the caller's thread ---------------------------------------------------------------------------------------

    def run(self, progress: ProgressCallback | None) -> Outcome:
        """Start both threads, report until the plan is proven or the time is up, and answer."""
        # Not a daemon: a thread inside the solver library must not be torn down with the interpreter.
        self.worker = worker = Thread(target=self._guarded)
        try:
            # An exception raised by the signal could be lost in a finalizer; a flag cannot.
            with on_interrupt(self.interrupted.set):
                worker.start()
                self._wait(progress)
        except KeyboardInterrupt:
            self.interrupted.set()
        finally:
            self.stop.set()
            if self.prover:
                self.prover.stop()
            if self.starting:
                self.starting.cancel()
        if self.interrupted.is_set() and self.incumbent is None and self.infeasible is None:
            raise Interrupted("interrupted before a first plan was found")
        worker.join(timeout=self.patience_s)
        self.spent_s += time.monotonic() - self.began
        if self.failure:
            raise self.failure
        if progress:
            progress(self._progress())
        return self._outcome()

    def resume(self, progress: ProgressCallback | None, *, seconds: float, cutoff_ns: int | None) -> Outcome:
        """Run again from where the last run ended: plans, bound and critical paths are kept."""
        if self.worker is not None:
            self.worker.join()  # where it is `busy`, it must not meet its successor
        self.began, self.time_limit_s, self.cutoff_ns = time.monotonic(), seconds, cutoff_ns
        self.compiling_s = 0.0
        self.stop.clear()
        self.proven.clear()
        if self.prover:
            self.prover.resume()
        return self.run(progress)

    def _wait(self, progress: ProgressCallback | None) -> None:
        """Report until there is nothing more to wait for."""
        reported = 0.0
        while not self.proven.wait(_POLL_SECONDS) and self.left_s > 0 and not self.interrupted.is_set():
            if progress and time.monotonic() - reported >= _REPORT_SECONDS:
                reported = time.monotonic()
                progress(self._progress())

    def _progress(self) -> Progress:
        makespan = self.incumbent[0] if self.incumbent else None
        return Progress(
            seconds=time.monotonic() - self.began,
            phase=self.phase,
            makespan_ns=makespan,
            lower_bound_ns=self.lower_bound_ns,
        )

    def _outcome(self) -> Outcome:
        if self.infeasible:
            return self.infeasible
        seconds = self.spent_s
        problem = self.problem
        if self.incumbent is None:
            return Outcome(
                status=Status.TIMEOUT,
                simulation=None,
                lower_bound_ns=self.lower_bound_ns,
                memory_limit_bytes=problem.memory_limit_bytes,
                solve_seconds=seconds,
                fixed_layers=problem.request.layers is not None,
            )
        makespan, counts = self.incumbent
        simulation = problem.simulate(counts)
        if simulation.makespan_ns != makespan or not simulation.fits(problem.memory_limit_bytes):
            raise AssertionError("search and simulator disagree: this is a fault in evenflow")
        optimal = self.lower_bound_ns >= makespan * (1 - 2 * TOLERANCE)
        return Outcome(
            status=Status.OPTIMAL if optimal else Status.FEASIBLE,
            simulation=simulation,
            lower_bound_ns=min(self.lower_bound_ns, makespan),
            memory_limit_bytes=problem.memory_limit_bytes,
            solve_seconds=seconds,
            first_plan_seconds=self.first_plan_s,
            fixed_layers=problem.request.layers is not None,
        )

    # -- the prover's thread ---------------------------------------------------------------------------------------

    def _guarded(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread, which raises it
            self.failure = error
        finally:
            self.proven.set()

    def _work(self) -> None:
        if self.search is None:
            self.lower_bound_ns = load_bound(self.problem)
            self._start()
        search, prover = self.search, self.prover
        if search is None or prover is None:
            return
        searcher = Thread(target=search.run, kwargs={"stop": self.stop.is_set})
        searcher.start()
        try:
            self._prove(search, prover)
        finally:
            self.stop.set()
            searcher.join()

    def _start(self) -> None:
        """Make `search` and `prover` from a first plan, if there is one."""
        counts = self._first_plan()
        if counts is None:
            return
        problem = self.problem
        simulation = problem.simulate(counts)
        self.found = (simulation.makespan_ns, counts.copy())
        self.first_plan_s = time.monotonic() - self.began
        self.phase = "compiling (first run only)"
        self.compiling_since = time.monotonic()
        search = Search(problem=problem, counts=counts)
        self.prover = Prover(problem, report=self._report)
        self.prover.learn(counts)
        self.compiling_s, self.compiling_since = time.monotonic() - self.compiling_since, None
        self.phase = "searching"
        self.search = search

    def _first_plan(self) -> Integers | None:
        """A plan that fits, or None with `infeasible` set or out of time."""
        problem = self.problem
        counts = even_start(problem) if self.start is None else problem.counts(self.start)
        if (problem.rank_memory(problem.costs(counts)) <= problem.limit).all():
            return counts
        self.phase = "finding a plan that fits"
        least = least_memory(
            problem, seconds=max(1.0, self.left_s), enough_bytes=problem.limit, started=self._start_program
        )
        if least.peak_bytes <= problem.limit:
            return least.counts
        if least.bound_bytes > problem.limit:
            seconds = time.monotonic() - self.began
            self.infeasible = explain(problem, least, seconds=seconds, advise=self.advise)
        return None

    def _start_program(self, program: Program) -> None:
        """Let the caller's thread cancel a program; it may have asked for that already."""
        self.starting = program
        if self.stop.is_set():
            program.cancel()

    def _prove(self, search: Search, prover: Prover) -> None:
        """Refute targets until the bound meets the best plan or the time is up."""
        self._settle(search)
        share, seconds = _FIRST_ATTEMPT
        margin, budget = 0.0, min(share * self.time_limit_s, seconds)
        while not self.stop.is_set():
            makespan, counts = search.incumbent
            if self.cutoff_ns is not None:
                makespan = min(makespan, self.cutoff_ns)
            gap = 1 - self.lower_bound_ns / makespan
            if gap <= 2 * TOLERANCE:
                return
            prover.learn(counts)
            target = makespan - max(1, int(makespan * max(margin, TOLERANCE)))
            answer = prover.refute(target, seconds=min(budget, self.left_s), floor_ns=self.lower_bound_ns)
            self.lower_bound_ns = max(self.lower_bound_ns, int(answer.bound_ns))
            if answer.counts is not None:
                search.offer(answer.counts)
                while search.incumbent[0] > target and not self.stop.wait(_POLL_SECONDS):
                    pass
                continue
            margin = _next_margin(margin, 1 - self.lower_bound_ns / makespan, refuted=answer.refuted)
            if prover.searches_cuts:
                # Targets in between would take longer than the last one alone.
                margin = 0.0 if answer.refuted else min(margin, _MARGIN_OF_CUTS)
            if not answer.refuted:
                prover.forget()
            budget = _LATER_ATTEMPT * self.left_s

    def _settle(self, search: Search) -> None:
        """Let the search find a good plan first: targets below a poor one are a waste."""
        best, since = search.incumbent[0], time.monotonic()
        patience = min(1.0, 0.05 * self.time_limit_s)
        while time.monotonic() - since < patience and not self.stop.wait(_POLL_SECONDS):
            if search.incumbent[0] < best:
                best, since = search.incumbent[0], time.monotonic()

    def _report(self, phase: str, bound_ns: float) -> None:
        self.phase = phase
        self.lower_bound_ns = max(self.lower_bound_ns, int(bound_ns) if bound_ns < float("inf") else 0)


def _next_margin(margin: float, gap: float, *, refuted: bool) -> float:
    """How far below the best plan to aim next, as fractions of its makespan; 0 is straight at it."""
    if refuted:
        wanted = margin / 2
    else:
        wanted = 2 * margin if margin else max(_MARGIN, gap / 4)
    return min(wanted, gap / 2) if wanted >= _LEAST_MARGIN else 0.0
