"""The race between search and proof, which ends with the shortest step that fits in memory.

Three threads work side by side, and each writes only what is its own:

    the caller's     `Race`           waits, reports, and answers when the bound meets the plan or the time is up
    the prover's     `ProverThread`   finds a first plan, then raises the bound by refuting targets below the best plan
    the search's     `Annealing`      looks for better plans
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

from evenflow.errors import Interrupted
from evenflow.interruption import on_interrupt
from evenflow.language import _
from evenflow.model import Plan
from evenflow.simulate import compiles_now, is_compiling, is_kept
from evenflow.solve.clock import Clock, counts_work
from evenflow.solve.outcome import Outcome, Progress, ProgressCallback, Status
from evenflow.solve.problem import Problem
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.prover_thread import ProverThread
from evenflow.solve.restrictions import Restrictions
from evenflow.solve.start import recomputing_less

_POLL_SECONDS = 0.05
_REPORT_SECONDS = 0.25
_SHORT_PATIENCE_SECONDS = 0.2
"""Seconds to wait for a long step after Ctrl-C, or where it is compiling that takes so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceSettings:
    """Settings of a race that do not depend on its problem and time."""

    patience_s: float = 2.0
    """Seconds to wait at the end of a run for a long step to notice it."""
    advise: bool = True
    """Whether to find out what would help where nothing fits, which takes seconds."""
    known: Sequence[Plan] = ()
    """Plans that are known: the answer is not longer than those of them that the problem allows."""
    lower_bound_ns: int = 0
    """A lower bound on the step of all plans that is known, as of the same problem with a higher limit."""


class Race:
    """The solution of one problem in one or more runs, each of which goes on from the plans and bounds of the last."""

    def __init__(self, problem: Problem, settings: RaceSettings | None = None) -> None:
        self.problem = problem
        self.interrupted = Event()
        """Event set once Ctrl-C has come."""
        self._settings = settings or RaceSettings()
        self._prover = ProverThread(problem, known=self._settings.known, advise=self._settings.advise)
        self._prover.standing.raise_bound(self._settings.lower_bound_ns)
        self._spent_s = 0.0

    @property
    def busy(self) -> bool:
        """Whether a long step of the last run has not noticed yet that the run is over."""
        return self._prover.is_alive

    @property
    def known_ns(self) -> float:
        """Makespan of the shortest plan that is known before the first run; infinite without one."""
        return self._prover.known_ns

    def learn(self, plan: Plan) -> None:
        """Take a plan that became known since the last run: the next answer is not longer, if the problem allows it."""
        self._prover.learn(plan)

    def raise_bound(self, bound_ns: int) -> None:
        """Take a lower bound on the step of all plans that became known between two runs."""
        self._prover.standing.raise_bound(bound_ns)

    def run(self, clock: Clock, *, progress: ProgressCallback | None = None, cutoff_ns: int | None = None) -> Outcome:
        """Run until the plan is proven optimal or the time of `clock` is up, and return the outcome.

        Only plans shorter than `cutoff_ns` are of use: the run also ends when it is proven that there is none. Raises
        Interrupted when Ctrl-C comes before any plan.
        """
        prover, before_s = self._prover, self._spent_s
        try:
            # An exception raised by the signal could be lost in a finalizer; a flag cannot.
            with on_interrupt(self._interrupt):
                if self.interrupted.is_set():  # a command may have been told to end before
                    pass
                elif counts_work():
                    prover.run(clock, cutoff_ns=cutoff_ns, between=self._reports(clock, progress))
                else:
                    prover.start(clock, cutoff_ns=cutoff_ns)
                    self._wait(clock, progress)
                return self._ended(clock, progress, before_s=before_s)
        except KeyboardInterrupt:  # before the flag was there, or from `progress`
            self.interrupted.set()
        finally:
            prover.stop()
        with on_interrupt(self._interrupt):
            return self._ended(clock, None, before_s=before_s)

    def _ended(self, clock: Clock, progress: ProgressCallback | None, *, before_s: float) -> Outcome:
        """End the run and return its outcome. The runs before took `before_s`."""
        prover, standing = self._prover, self._prover.standing
        prover.stop()
        if self.interrupted.is_set() and standing.incumbent is None and standing.infeasible is None:
            raise Interrupted(_("interrupted: there is no result yet"))
        hurries = self.interrupted.is_set() or is_compiling()
        prover.join(timeout_s=_SHORT_PATIENCE_SECONDS if hurries else self._settings.patience_s)
        self._spent_s = before_s + clock.spent_s
        if prover.failure:
            raise prover.failure
        if progress:
            progress(self._progress(clock))
        return self._outcome()

    def _wait(self, clock: Clock, progress: ProgressCallback | None) -> None:
        """Report progress until the run has ended, its time is up or Ctrl-C has come."""
        report = self._reports(clock, progress)
        while not self._prover.ended.wait(_POLL_SECONDS) and clock.left_s > 0 and not self.interrupted.is_set():
            report()

    def _reports(self, clock: Clock, progress: ProgressCallback | None) -> Callable[[], None]:
        """Return a function that may be called as often as one likes, and reports a few times a second."""
        reported = 0.0

        def report() -> None:
            nonlocal reported
            if progress and time.monotonic() - reported >= _REPORT_SECONDS:
                reported = time.monotonic()
                progress(self._progress(clock))

        return report

    def _interrupt(self) -> None:
        self.interrupted.set()
        if counts_work():  # nobody else looks at the event
            self._prover.stop()

    def _progress(self, clock: Clock) -> Progress:
        standing = self._prover.standing
        incumbent = standing.incumbent
        return Progress(
            seconds=clock.spent_s,
            phase=_compiling() if compiles_now() else standing.phase,
            makespan_ns=incumbent[0] if incumbent else None,
            lower_bound_ns=standing.lower_bound_ns,
        )

    def _outcome(self) -> Outcome:
        """Return the outcome, with its plan simulated afresh."""
        problem, standing = self.problem, self._prover.standing
        if standing.infeasible is not None:
            return standing.infeasible
        incumbent = standing.incumbent  # read once: a search that has not noticed its end may still find a better one
        if incumbent is None:
            return Outcome(
                status=Status.TIMEOUT,
                simulation=None,
                lower_bound_ns=standing.lower_bound_ns,
                memory_limit_bytes=problem.memory_limit_bytes,
                solve_seconds=self._spent_s,
                restrictions=Restrictions.of(problem.request, schedule=problem.schedule.name),
            )
        known_ns, counts = incumbent
        if problem.simulate(counts).makespan_ns != known_ns:
            raise AssertionError("search and simulator disagree: this is a fault in evenflow")
        simulation = problem.simulate(recomputing_less(problem, counts))  # the search does not mind what costs nothing
        makespan = simulation.makespan_ns
        fits = all(peak <= limit for peak, limit in zip(simulation.peak_memory_bytes, problem.limits, strict=True))
        if makespan > known_ns or not fits:
            raise AssertionError("less recomputation takes longer, or does not fit: this is a fault in evenflow")
        optimal = standing.lower_bound_ns >= makespan * (1 - 2 * TOLERANCE)
        return Outcome(
            status=Status.OPTIMAL if optimal else Status.FEASIBLE,
            simulation=simulation,
            lower_bound_ns=min(standing.lower_bound_ns, makespan),
            memory_limit_bytes=problem.memory_limit_bytes,
            solve_seconds=self._spent_s,
            first_plan_seconds=standing.first_plan_s,
            interrupted=self.interrupted.is_set(),
            restrictions=Restrictions.of(problem.request, schedule=problem.schedule.name),
        )


def _compiling() -> str:
    if is_kept():
        return _("compiling (first run only)")
    return _("compiling (in every run, unless NUMBA_CACHE_DIR names a folder that can be written)")
