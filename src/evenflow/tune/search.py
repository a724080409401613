"""The search: bounds for all configurations, first plans for those that may win, exact plans for the contenders.

Configurations are taken in the order of their lower bounds. What is proven is about the whole space: the least bound of
all configurations, solved or not, is a time that none of them undercuts.
"""

import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import isfinite

from evenflow.interruption import answer_exists, on_interrupt
from evenflow.simulate import compiled_s
from evenflow.solve.proof import TOLERANCE
from evenflow.tune.axes import schedule_of
from evenflow.tune.bounds import Bounds
from evenflow.tune.candidate import Candidate, Found, Pricing
from evenflow.tune.coarse import coarse
from evenflow.tune.inner import Inner
from evenflow.tune.question import Question
from evenflow.tune.rows.row import Row, least_bound_ns, num_refuted
from evenflow.tune.rows.split_bound import floor_ns, split_ns
from evenflow.tune.space import space_of
from evenflow.tune.tuned import Tuned

_ROWS = 10
"""Rows of the ranking that are solved exactly, time permitting."""
_BOUND_SHARE = 0.4
"""Share of the time after which no more splits are bounded."""
_COARSE_SHARE = 0.5
"""Share of the time behind these after which no more first plans are made, so that the rows are solved."""
_FEW_SHARE = 0.8
"""The same while there are not enough rows."""
_ROW, _ONE, _ORDER = range(3)
"""What has been bounded: a row with all of its configurations, one of them, or one with its orders of work."""
_Waiting = tuple[float, int, int, Row | Candidate]
"""A bound, what has it, and the number that is the order of equals."""
_REPORT_SECONDS = 0.25


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
        self.time_limit_s = time_limit_s
        self.compiled_s = compiled_s()
        self.report = progress
        self.reported = began
        self.pricing = Pricing(question=question)
        self.bounds = Bounds(pricing=self.pricing)
        self.floor_ns = 0.0
        self.unseen_bound_ns = float("inf")
        """Of combinations that there was no time to look at."""
        self.unmade: dict[Row, int] = {}
        """Rows whose configurations are not made, with their numbers."""
        self.made: list[Candidate] = []
        self.planned: set[Candidate] = set()
        """Those that have been bounded and given a first plan, if one was found."""
        self.over: set[Candidate] = set()
        """Those whose inner problem can give no more."""
        self.inner: dict[Hashable, Inner] = {}
        self.best: dict[Hashable, Candidate] = {}
        """The best configuration of each split."""
        self.is_interrupted = False

    def run(self) -> Tuned:
        with on_interrupt(self._stop):
            space = space_of(self.question, is_over=lambda: self._is_over(_BOUND_SHARE * self.time_limit_s))
            self.floor_ns = floor_ns(self.question)
            self.unseen_bound_ns = float("inf") if space.is_whole else self.floor_ns
            # Sizes of the microbatch change less of a row than anything else: where time is short, the smallest do.
            splits = sorted(space.splits, key=lambda each: each.first.microbatch)
            self.unmade = {
                Row(split=each, pricing=self.pricing, lower_bound_ns=self.floor_ns): number
                for number, each in enumerate(splits)
            }
            self._coarse(self._bound())
            self._exact()
        return Tuned(
            question=self.question,
            ranked=tuple(self._rows()),
            made=tuple(sorted(self.made, key=lambda one: (one.step_ns, one.lower_bound_ns))),
            unmade=tuple(self.unmade),
            unseen_bound_ns=self.unseen_bound_ns,
            excluded=dict(space.excluded),
            reasons=space.reasons,
            lower_bound_ns=self._lower_bound_ns,
            solve_seconds=time.monotonic() - self.began,
            interrupted=self.is_interrupted,
        )

    def _stop(self) -> None:
        self.is_interrupted = True

    @property
    def _spent_s(self) -> float:
        """Seconds of the time limit; compiling, which only a first run needs, does not count."""
        return time.monotonic() - self.began - (compiled_s() - self.compiled_s)

    def _is_over(self, limit_s: float) -> bool:
        return self.is_interrupted or self._spent_s > limit_s

    def _rows(self) -> list[Candidate]:
        """Return the best configuration of each split, the shortest step first."""
        return sorted(self.best.values(), key=lambda one: one.step_ns)

    @property
    def _best_ns(self) -> float:
        return min((one.step_ns for one in self.best.values()), default=float("inf"))

    @property
    def _lower_bound_ns(self) -> float:
        return min(least_bound_ns(self.made, self.unmade), self.unseen_bound_ns)

    def _bound(self) -> list[_Waiting]:
        """Bound rows, each with all of its configurations, and return them; the others keep the bound of the space."""
        bounded: list[_Waiting] = []
        for row, number in self.unmade.items():
            if self._is_over(_BOUND_SHARE * self.time_limit_s):
                break
            self._price(row)
            bounded.append((row.lower_bound_ns, _ROW, number, row))
            self._tell()
        return bounded

    def _price(self, row: Row) -> None:
        row.is_priced = True
        row.lower_bound_ns = max(row.lower_bound_ns, split_ns(self.bounds, row.split))

    def _make(self, row: Row) -> Iterator[_Waiting]:
        """Make the configurations of a row, each with a bound of its own while there is time."""
        del self.unmade[row]
        for one in row.candidates():
            if not self._is_over(self.time_limit_s):
                self._raise(one, self.bounds.step_ns(one.training))
            yield one.lower_bound_ns, _ONE, len(self.made), one
            self.made.append(one)

    def _coarse(self, waiting: list[_Waiting]) -> None:
        """Give first plans to all configurations that may get into the ranking, in the order of their bounds."""
        heapify(waiting)
        last_ns = float("inf")
        spent = self._spent_s
        limit, late = (spent + share * (self.time_limit_s - spent) for share in (_COARSE_SHARE, _FEW_SHARE))
        while waiting and not self._is_over(limit if len(self.best) >= self.rows else late):
            bound_ns, stage, number, one = heappop(waiting)
            if bound_ns >= last_ns:
                return
            if isinstance(one, Row):
                ones = list(self._make(one))
                for each in ones:
                    heappush(waiting, each)
                least = min(ones)[-1]
                # Bounds of rows are close in a large space: any answer comes first.
                if not self.best and isinstance(least, Candidate) and isfinite(least.lower_bound_ns):
                    self._first_plan(least)
            elif one in self.planned or bound_ns >= self._row_ns(one):
                continue  # not the best of its row, whatever its plan
            elif stage == _ONE:
                self._raise(one, self.bounds.order_ns(one.training))
                heappush(waiting, (one.lower_bound_ns, _ORDER, number, one))
            elif self._first_plan(one):
                rows = self._rows()
                last_ns = rows[self.rows - 1].step_ns if len(rows) >= self.rows else last_ns
            self._tell()

    def _first_plan(self, one: Candidate) -> bool:
        """Give a configuration its first plan; returns whether it is the shortest of its row."""
        self.planned.add(one)
        return self._take(one, coarse(self.pricing, one.training))

    @staticmethod
    def _raise(one: Candidate, bound_ns: float) -> None:
        one.lower_bound_ns = max(one.lower_bound_ns, bound_ns)

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
        waiting: list[_Waiting] = [(one.lower_bound_ns, _ONE, number, one) for number, one in enumerate(self.made)]
        waiting += [(row.lower_bound_ns, _ROW, number, row) for row, number in self.unmade.items()]
        heapify(waiting)
        while not self._is_over(self.time_limit_s):
            rows = [one for one in self._rows()[: self.rows] if one not in solved]
            if rows:
                solved.add(rows[0])
                self._turn(rows[0], rows[0].step_ns)
            elif not waiting or waiting[0][0] >= self._best_ns * (1 - 2 * TOLERANCE):
                return
            else:
                bound_ns, stage, number, one = heappop(waiting)
                for each in self._advance(bound_ns, stage, number, one):
                    heappush(waiting, each)
            self._tell()

    def _advance(self, bound_ns: float, stage: int, number: int, one: Row | Candidate) -> Iterator[_Waiting]:
        """Do the next thing for what may still win, and yield what waits then.

        A row is priced, then made; a configuration is bounded, gets a first plan, or is solved.
        """
        if isinstance(one, Row):
            if one.is_priced:
                yield from self._make(one)
                return
            self._price(one)
        elif one in self.over:
            return
        elif one.lower_bound_ns > bound_ns:
            pass  # by another turn
        elif one in self.planned:
            self._turn(one, self._best_ns)
        else:
            order_ns = self.bounds.order_ns(one.training)
            if order_ns > bound_ns:
                one.lower_bound_ns = order_ns
            else:
                self._first_plan(one)
        yield one.lower_bound_ns, stage, number, one

    def _turn(self, one: Candidate, cutoff_ns: float) -> None:
        """Let the inner problem of a configuration run on for a moment; note where that is all it can give."""
        inner = self._inner(one)
        least_ns = self.bounds.whole_ns(one.training, 0.0)
        inner.advance(left_s=self.time_limit_s - self._spent_s, cutoff_ns=cutoff_ns - least_ns)
        self.is_interrupted |= inner.interrupted
        one.status = inner.status
        one.lower_bound_ns = max(one.lower_bound_ns, self.bounds.whole_ns(one.training, inner.lower_bound_ns))
        for plan in inner.plans:
            self._take(one, self.pricing.found(one.training, plan))
        if inner.is_over:
            self.over.add(one)

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
        legal = len(self.made) + sum(len(row.split) for row in self.unmade)
        solved = sum(one.found is not None for one in self.made)
        refuted = num_refuted(self.made, self.unmade, best_ns)
        self.report(
            Progress(
                seconds=now - self.began,
                legal=legal,
                refuted=refuted,
                solved=solved,
                left=legal - refuted - solved,
                best_ns=best_ns,
                lower_bound_ns=self._lower_bound_ns,
            )
        )
