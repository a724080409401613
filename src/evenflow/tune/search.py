"""The search: bounds for all configurations, first plans for those that may win, exact plans for the contenders.

Configurations are taken in the order of their lower bounds. What is proven is about the whole space: the least bound of
all configurations, solved or not, is a time that none of them undercuts.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from evenflow.interruption import on_interrupt
from evenflow.solve.clock import Clock
from evenflow.solve.outcome import Status
from evenflow.solve.problem import make_problem
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.race import Race, RaceSettings
from evenflow.tune.axes import schedule_of
from evenflow.tune.bounds import Bounds
from evenflow.tune.candidate import Candidate, Found, Pricing
from evenflow.tune.coarse import coarse
from evenflow.tune.question import Question
from evenflow.tune.space import space_of
from evenflow.tune.tuned import Tuned

_ROWS = 10
"""Rows of the ranking that are solved exactly, time permitting."""
_TURN_SECONDS = 0.4
_PATIENCE_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a search is."""

    seconds: float
    legal: int
    refuted: int
    solved: int
    left: int
    best_ns: float
    lower_bound_ns: float


ProgressCallback = Callable[[Progress], None]


def search(
    question: Question,
    *,
    rows: int = _ROWS,
    time_limit_s: float = 60.0,
    progress: ProgressCallback | None = None,
) -> Tuned:
    """Return the ranking of all configurations of a question, with the proof."""
    return _Search(question, rows, time.monotonic(), time_limit_s, progress).run()


class _Search:
    def __init__(
        self,
        question: Question,
        rows: int,
        began: float,
        time_limit_s: float,
        progress: ProgressCallback | None,
    ) -> None:
        self.question, self.rows, self.began = question, rows, began
        self.deadline = began + time_limit_s
        self.report = progress
        self.pricing = Pricing(question=question)
        self.bounds = Bounds(pricing=self.pricing)
        self.candidates: list[Candidate] = []
        self.races: dict[Candidate, Race] = {}
        self.best: dict[Hashable, Candidate] = {}
        self.is_interrupted = False

    def run(self) -> Tuned:
        with on_interrupt(self._stop):
            space = space_of(self.question)
            for training in space.legal:
                bound_ns = self.bounds.step_ns(training)
                self.candidates.append(Candidate(training=training, pricing=self.pricing, lower_bound_ns=bound_ns))
            self._coarse()
            self._exact()
        ranked = sorted(self.candidates, key=lambda one: (one.step_ns, one.lower_bound_ns))
        return Tuned(
            question=self.question,
            ranked=tuple(self._rows()),
            candidates=tuple(ranked),
            excluded=dict(space.excluded),
            reasons=space.reasons,
            lower_bound_ns=min((one.lower_bound_ns for one in self.candidates), default=float("inf")),
            solve_seconds=time.monotonic() - self.began,
            interrupted=self.is_interrupted,
        )

    def _stop(self) -> None:
        self.is_interrupted = True

    @property
    def _is_over(self) -> bool:
        return self.is_interrupted or time.monotonic() > self.deadline

    def _rows(self) -> list[Candidate]:
        """Return the best configuration of each split, the shortest step first."""
        return sorted(self.best.values(), key=lambda one: one.step_ns)

    @property
    def _last_ns(self) -> float:
        """Return the step of the last row that is shown."""
        rows = self._rows()
        return rows[self.rows - 1].step_ns if len(rows) >= self.rows else float("inf")

    def _coarse(self) -> None:
        """Give first plans to all configurations that may get into the ranking, their bounds refined."""
        waiting = [(one.lower_bound_ns, number, False) for number, one in enumerate(self.candidates)]
        heapify(waiting)
        while waiting and not self._is_over:
            bound_ns, number, is_refined = heappop(waiting)
            if bound_ns >= self._last_ns:
                return
            one = self.candidates[number]
            if not is_refined:
                one.lower_bound_ns = max(bound_ns, self.bounds.refined_ns(one.training))
                heappush(waiting, (one.lower_bound_ns, number, True))
                continue
            found = coarse(self.pricing, one.training)
            if found is not None:
                self._take(one, found)
            self._tell()

    def _take(self, one: Candidate, found: Found) -> None:
        """Note a step that fits."""
        if found.step_ns >= one.step_ns:
            return
        one.found = found
        known = self.best.get(one.split)
        if known is None or one.step_ns < known.step_ns:
            self.best[one.split] = one

    def _exact(self) -> None:
        """Solve the rows of the ranking, then whatever may still be better than the best."""
        tried: set[Candidate] = set()
        while not self._is_over:
            rows = [one for one in self._rows()[: self.rows] if one not in tried]
            best_ns = min((one.step_ns for one in self.candidates), default=float("inf"))
            open_ones = [one for one in self.candidates if one.lower_bound_ns < best_ns * (1 - 2 * TOLERANCE)]
            if rows:
                one = rows[0]
            elif open_ones:
                one = min(open_ones, key=lambda one: one.lower_bound_ns)
            else:
                return
            tried.add(one)
            self._turn(one)
            self._tell()

    def _turn(self, one: Candidate) -> None:
        """Let the inner problem of a configuration run on for a moment."""
        race = self.races.get(one)
        if race is None:
            request = self.pricing.request(one.training, transfer_ns=self.pricing.message_ns(one.training))
            problem = make_problem(request, schedule=schedule_of(one.training))
            race = self.races[one] = Race(problem, RaceSettings(patience_s=_PATIENCE_SECONDS, advise=False))
        outcome = race.run(Clock(limit_s=min(_TURN_SECONDS, self.deadline - time.monotonic())))
        one.status = outcome.status
        if outcome.status is Status.INFEASIBLE:
            one.lower_bound_ns = float("inf")
            return
        after = self.bounds.after_ns(one.training)
        one.lower_bound_ns = max(one.lower_bound_ns, outcome.lower_bound_ns + after)
        if outcome.plan is not None:
            found = self.pricing.found(one.training, outcome.plan)
            if found is not None:
                self._take(one, found)

    def _tell(self) -> None:
        if self.report is None:
            return
        solved = sum(one.found is not None for one in self.candidates)
        best_ns = min((one.step_ns for one in self.candidates), default=float("inf"))
        refuted = sum(one.found is None and one.lower_bound_ns >= best_ns for one in self.candidates)
        self.report(
            Progress(
                seconds=time.monotonic() - self.began,
                legal=len(self.candidates),
                refuted=refuted,
                solved=solved,
                left=len(self.candidates) - refuted - solved,
                best_ns=best_ns,
                lower_bound_ns=min((one.lower_bound_ns for one in self.candidates), default=0.0),
            )
        )
