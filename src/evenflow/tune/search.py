"""The search: bounds for all configurations, first plans for those that may win, exact plans for the contenders.

Configurations are taken in the order of their lower bounds. What is proven is about the whole space: the least bound of
all configurations, solved or not, is a time that none of them undercuts.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from evenflow.interruption import answer_exists, on_interrupt
from evenflow.solve.proof import TOLERANCE
from evenflow.tune.axes import schedule_of
from evenflow.tune.bounds import Bounds
from evenflow.tune.candidate import Candidate, Found, Pricing
from evenflow.tune.coarse import coarse
from evenflow.tune.inner import Inner
from evenflow.tune.question import Question
from evenflow.tune.space import space_of
from evenflow.tune.tuned import Tuned

_ROWS = 10
"""Rows of the ranking that are solved exactly, time permitting."""
_COARSE_SHARE = 0.5
"""Share of the time behind the first bounds after which no more first plans are made, so that the rows are solved."""
_REPORT_SECONDS = 0.1


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
        self.reported = began
        self.pricing = Pricing(question=question)
        self.bounds = Bounds(pricing=self.pricing)
        self.candidates: list[Candidate] = []
        self.inner: dict[Hashable, Inner] = {}
        self.best: dict[Hashable, Candidate] = {}
        """The best configuration of each split."""
        self.is_interrupted = False

    def run(self) -> Tuned:
        with on_interrupt(self._stop):
            space = space_of(self.question)
            self.candidates = [Candidate(training=each, pricing=self.pricing) for each in space.legal]
            self._bound()
            self._coarse()
            self._exact()
        ranked = sorted(self.candidates, key=lambda one: (one.step_ns, one.lower_bound_ns))
        return Tuned(
            question=self.question,
            ranked=tuple(self._rows()),
            candidates=tuple(ranked),
            excluded=dict(space.excluded),
            reasons=space.reasons,
            lower_bound_ns=self._lower_bound_ns,
            solve_seconds=time.monotonic() - self.began,
            interrupted=self.is_interrupted,
        )

    def _stop(self) -> None:
        self.is_interrupted = True

    def _is_over(self, deadline: float) -> bool:
        return self.is_interrupted or time.monotonic() > deadline

    def _rows(self) -> list[Candidate]:
        """Return the best configuration of each split, the shortest step first."""
        return sorted(self.best.values(), key=lambda one: one.step_ns)

    @property
    def _best_ns(self) -> float:
        return min((one.step_ns for one in self.best.values()), default=float("inf"))

    @property
    def _lower_bound_ns(self) -> float:
        return min((one.lower_bound_ns for one in self.candidates), default=float("inf"))

    def _bound(self) -> None:
        """Bound all configurations; those that there is no time for keep the bound of nothing."""
        for one in self.candidates:
            if self._is_over(self.deadline):
                return
            one.lower_bound_ns = self.bounds.step_ns(one.training)
            self._tell()

    def _coarse(self) -> None:
        """Give first plans to all configurations that may get into the ranking, in the order of their bounds."""
        last_ns = float("inf")
        now = time.monotonic()
        deadline = now + _COARSE_SHARE * (self.deadline - now)
        for one in sorted(self.candidates, key=lambda one: one.lower_bound_ns):
            if self._is_over(deadline) or one.lower_bound_ns >= last_ns:
                return
            if one.lower_bound_ns >= self._row_ns(one):
                continue  # not the best of its row, whatever its plan
            if self._take(one, coarse(self.pricing, one.training)):
                rows = self._rows()
                last_ns = rows[self.rows - 1].step_ns if len(rows) >= self.rows else last_ns
            self._tell()

    def _row_ns(self, one: Candidate) -> float:
        """Return the shortest step known of the row that a configuration belongs to."""
        best = self.best.get(one.split)
        return float("inf") if best is None else best.step_ns

    def _take(self, one: Candidate, found: Found | None) -> bool:
        """Note a step; returns whether it is the shortest of its row."""
        if found is None or found.step_ns >= one.step_ns:
            return False
        one.found = found
        if found.step_ns >= self._row_ns(one):
            return False
        self.best[one.split] = one
        answer_exists()
        return True

    def _exact(self) -> None:
        """Solve the rows of the ranking, then whatever may still be better than the best."""
        solved: set[Candidate] = set()
        over: set[Candidate] = set()
        while not self._is_over(self.deadline):
            rows = [one for one in self._rows()[: self.rows] if one not in solved]
            if rows:
                one, cutoff_ns = rows[0], rows[0].step_ns
                solved.add(one)
            else:
                cutoff_ns = self._best_ns
                enough_ns = cutoff_ns * (1 - 2 * TOLERANCE)
                still = [each for each in self.candidates if each.lower_bound_ns < enough_ns and each not in over]
                if not still:
                    return
                one = min(still, key=lambda each: each.lower_bound_ns)
            if self._turn(one, cutoff_ns):
                over.add(one)
            self._tell()

    def _turn(self, one: Candidate, cutoff_ns: float) -> bool:
        """Let the inner problem of a configuration run on for a moment; returns whether that is all it can give."""
        inner = self._inner(one)
        least_ns = self.bounds.whole_ns(one.training, 0.0)
        inner.advance(left_s=self.deadline - time.monotonic(), cutoff_ns=cutoff_ns - least_ns)
        self.is_interrupted |= inner.interrupted
        one.status = inner.status
        one.lower_bound_ns = max(one.lower_bound_ns, self.bounds.whole_ns(one.training, inner.lower_bound_ns))
        for plan in inner.plans:
            self._take(one, self.pricing.found(one.training, plan))
        return inner.is_over

    def _inner(self, one: Candidate) -> Inner:
        """Return the inner problem of a configuration; equal ones are solved once."""
        request = self.pricing.request(one.training, transfer_ns=self.pricing.message_ns(one.training))
        key = repr(request), schedule_of(one.training)
        found = self.inner.get(key)
        if found is None:
            found = self.inner[key] = Inner(self.pricing, one.training, start=one.plan)
        return found

    def _tell(self) -> None:
        now = time.monotonic()
        if self.report is None or now < self.reported + _REPORT_SECONDS:
            return
        self.reported = now
        best_ns = self._best_ns
        solved = sum(one.found is not None for one in self.candidates)
        refuted = sum(one.found is None and one.lower_bound_ns >= best_ns for one in self.candidates)
        self.report(
            Progress(
                seconds=now - self.began,
                legal=len(self.candidates),
                refuted=refuted,
                solved=solved,
                left=len(self.candidates) - refuted - solved,
                best_ns=best_ns,
                lower_bound_ns=self._lower_bound_ns,
            )
        )
