"""The search: bounds for all configurations, first plans for those that may win, exact plans for the contenders.

Configurations are taken in the order of their lower bounds. What is proven is about the whole space: the least bound of
all configurations, solved or not, is a time that none of them undercuts.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heapify, heappop, heappush
from math import isfinite

from evenflow.interruption import answer_exists, on_interrupt
from evenflow.predict.training import Sharding
from evenflow.solve.clock import now_s, shown_s
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.time_left import TimeLeft
from evenflow.tune.axes import schedule_of
from evenflow.tune.bounds import StepBounds
from evenflow.tune.candidate import Candidate, PlannedStep, Pricing
from evenflow.tune.coarse import MACHINE_CODE, coarse, recomputing_what_it_must
from evenflow.tune.inner import InnerProblem
from evenflow.tune.question import TuningQuestion
from evenflow.tune.recipes import recipes_for
from evenflow.tune.rows.row import SplitRow, least_bound_ns, num_refuted
from evenflow.tune.rows.split import Split, is_near
from evenflow.tune.rows.split_bound import floor_ns, least_work_ns, same_work, split_ns
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
_PLAIN_ACTIONS = 20_000
"""Actions up to which plain code simulates a step in a fraction of a second."""
_PLANNING_SHARE = 0.4
"""Share of the time of bounds and first plans in which plans are made of what is bounded best, whatever its turn."""
_TYPICAL_CHUNKS = (1, 2, 4)
_ALL_FITS_BYTES = 2**46
_LATE_PLANS = 10
"""Rows and configurations that are looked at for a first answer when the time is over."""
_ROW, _ONE, _STEP, _ORDER = range(4)
"""What has been bounded: a row, one of its configurations, what its ranks can do, its orders of work."""
_Waiting = tuple[float, int, int, SplitRow | Candidate]
"""A bound, what has it, and the number that is the order of equals."""
_REPORT_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningProgress:
    """Progress of a search."""

    seconds: float
    legal: int
    refuted: int
    solved: int
    left: int
    best_ns: float
    lower_bound_ns: float


ProgressCallback = Callable[[TuningProgress], None]


def search(
    question: TuningQuestion,
    *,
    rows: int = _ROWS,
    time_limit_s: float = 60.0,
    progress: ProgressCallback | None = None,
) -> Tuned:
    """Return the ranking of all configurations of a question, with the proof."""
    return _Search(question, rows, now_s(), time_limit_s, progress).run()


def _use_machine_code(question: TuningQuestion, splits: Sequence[Split]) -> None:
    """Bound and plan one configuration, where everything fits: what is compiled for it is compiled for all.

    It is one with a pipeline, where there is one, and with few actions.
    """
    training = min(
        (split.first for split in splits),
        key=lambda first: (first.degrees.pipeline == 1, first.sizes.num_cells * first.sizes.num_microbatches),
    )
    pricing = Pricing(question=replace(question, memory_limit_bytes=_ALL_FITS_BYTES))
    StepBounds(pricing=pricing).order_ns(training)
    coarse(pricing, training)


def _num_actions(job: SplitRow | Candidate) -> int:
    """Return about how many actions a step has of a row's first configuration, or of this one."""
    sizes = job.split.first.sizes if isinstance(job, SplitRow) else job.training.sizes
    return 2 * sizes.num_cells * sizes.num_microbatches


def _is_typical(job: SplitRow | Candidate) -> bool:
    """Whether a configuration has few chunks, and shares its optimizer's state: some of a row are looked at first."""
    assert isinstance(job, Candidate)
    degrees = job.training.degrees
    return degrees.chunks in _TYPICAL_CHUNKS and degrees.sharding is not Sharding.NOTHING


class _Search:
    def __init__(
        self,
        question: TuningQuestion,
        rows: int,
        began: float,
        time_limit_s: float,
        progress: ProgressCallback | None,
    ) -> None:
        self.question, self.rows, self.began = question, rows, began
        self.time_limit_s = time_limit_s
        self.report = progress
        self.reported = began
        self.pricing = Pricing(question=question)
        self.bounds = StepBounds(pricing=self.pricing)
        self.floor_ns = 0.0
        self.unseen_bound_ns = float("inf")
        """Of combinations that there was no time to look at."""
        self.unmade: dict[SplitRow, int] = {}
        """Rows whose configurations are not made, with their numbers."""
        self.made: list[Candidate] = []
        self.planned: set[Candidate] = set()
        """Those that have been bounded and given a first plan, if one was found."""
        self.over: set[Candidate] = set()
        """Those whose inner problem can give no more."""
        self.inner: dict[Hashable, InnerProblem] = {}
        self.best: dict[Hashable, Candidate] = {}
        """The best configuration of each split."""
        self.recipes: list[Candidate] = []
        """Configurations as vendors publish them."""
        self.is_interrupted = False

    def run(self) -> Tuned:
        with on_interrupt(self._stop):
            space = space_of(self.question, is_over=lambda: self._is_over(_BOUND_SHARE * self.time_limit_s))
            self.floor_ns = floor_ns(self.question)
            self.unseen_bound_ns = float("inf") if space.is_whole else self.floor_ns
            # Sizes of the microbatch change less of a row than anything else: where time is short, the smallest do.
            splits = sorted(space.splits, key=lambda split: split.first.microbatch)
            self.unmade = {
                SplitRow(split=split, pricing=self.pricing, lower_bound_ns=self.floor_ns): number
                for number, split in enumerate(splits)
            }
            if splits:
                MACHINE_CODE.begin(partial(_use_machine_code, self.question, splits))
            waiting = self._bound()
            self._first_rows(waiting)
            self._wait_for_machine_code(self.time_limit_s)
            self._plan_again()
            self._plan_recipes(waiting)
            self._coarse(waiting)
            self._first_rows(waiting)  # some plan is better than none, also when the time is over
            self._exact()
            self._recompute_less()
        return Tuned(
            question=self.question,
            ranked=tuple(self._rows()),
            made=tuple(sorted(self.made, key=lambda candidate: (candidate.step_ns, candidate.lower_bound_ns))),
            unmade=tuple(self.unmade),
            unseen_bound_ns=self.unseen_bound_ns,
            excluded=dict(space.excluded),
            reasons=space.reasons,
            lower_bound_ns=self._lower_bound_ns,
            solve_seconds=now_s() - self.began,
            interrupted=self.is_interrupted,
        )

    def _stop(self) -> None:
        self.is_interrupted = True

    @property
    def _spent_s(self) -> float:
        """Seconds of the time limit so far."""
        return now_s() - self.began

    def _is_over(self, limit_s: float) -> bool:
        return self.is_interrupted or self._spent_s > limit_s

    def _rows(self) -> list[Candidate]:
        """Return the best configuration of each split, the shortest step first."""
        return sorted(self.best.values(), key=lambda candidate: candidate.step_ns)

    @property
    def _best_ns(self) -> float:
        return min((candidate.step_ns for candidate in self.best.values()), default=float("inf"))

    @property
    def _lower_bound_ns(self) -> float:
        return min(least_bound_ns(self.made, self.unmade), self.unseen_bound_ns)

    def _bound(self) -> list[_Waiting]:
        """Bound rows by their work, and return them; the others keep the bound of the space."""
        bounded: list[_Waiting] = []
        work_ns: dict[Hashable, float] = {}
        for row, number in self.unmade.items():
            if self._is_over(_BOUND_SHARE * self.time_limit_s) and (number >= _LATE_PLANS or self.is_interrupted):
                break  # some are there for a first answer
            key = same_work(row.split)
            if key not in work_ns:
                work_ns[key] = least_work_ns(self.bounds, row.split)
                self._tell()
            row.lower_bound_ns = max(row.lower_bound_ns, work_ns[key])
            bounded.append((row.lower_bound_ns, _ROW, number, row))
        return bounded

    def _price(self, row: SplitRow) -> None:
        row.is_priced = True
        row.lower_bound_ns = max(row.lower_bound_ns, split_ns(self.bounds, row.split))

    def _make(self, row: SplitRow) -> Iterator[_Waiting]:
        """Make the configurations of a row, each with the bound of the row."""
        del self.unmade[row]
        for candidate in row.candidates():
            yield candidate.lower_bound_ns, _ONE, len(self.made), candidate
            self.made.append(candidate)

    def _first_rows(self, waiting: list[_Waiting]) -> None:
        """Give first plans to rows while machine code is made; and to one where the time was over before there was any.

        Of each row, configurations with the first order of work are tried.
        """
        seen: list[_Waiting] = []
        num_tried = 0
        waiting.sort(reverse=True)
        while waiting:
            is_late, began = self._is_over(self.time_limit_s), now_s()
            must_try = is_late and not self.best and num_tried < _LATE_PLANS and not self.is_interrupted
            if not must_try and (is_late or MACHINE_CODE.is_made):
                break
            entry = waiting.pop()
            job = entry[-1]
            if isinstance(job, SplitRow) and job not in self.unmade:
                continue  # a plan of it was looked for before its turn
            if not is_late and _num_actions(job) > _PLAIN_ACTIONS:
                seen.append(entry)
                continue
            ones, step = (list(self._make(job)), len(job.split.orders)) if isinstance(job, SplitRow) else ([entry], 1)
            seen += ones
            for *_rest, one in ones[::step]:
                assert isinstance(one, Candidate)
                num_tried += 1
                if isfinite(one.lower_bound_ns) and self._take(one, coarse(self.pricing, one.training)):
                    break
            self._tell()
            if len(self.best) >= self.rows:  # the compiler has its share of the interpreter
                self._wait_for_machine_code(now_s() - began)
        waiting += seen

    def _wait_for_machine_code(self, seconds: float) -> None:
        """Wait until machine code is there, for so many seconds and no longer than the time limit."""
        pause = TimeLeft.of(seconds)
        MACHINE_CODE.wait(is_over=lambda: pause.is_over or self._is_over(self.time_limit_s))

    def _plan_again(self) -> None:
        """Give the rows so far plans by machine code: those of plain code are even cuts."""
        for candidate in self._rows():
            if self._is_over(self.time_limit_s):
                return
            self._first_plan(candidate)
            self._tell()

    def _plan_recipes(self, waiting: list[_Waiting]) -> None:
        """Give first plans to what vendors publish for the model, whatever its turn: experts chose it."""
        recipes = recipes_for(self.question)
        for row in list(self.unmade):
            if any(recipe.has_split(row.split.first) for recipe in recipes):
                waiting += self._make(row)
        self.recipes = [one for one in self.made if any(recipe.is_of(one.training) for recipe in recipes)]
        for candidate in self.recipes:
            if self._is_over(self.time_limit_s):
                return
            if candidate not in self.planned:
                self._raise(candidate, self.bounds.step_ns(candidate.training))
                if isfinite(candidate.lower_bound_ns):
                    self._first_plan(candidate)
            self._tell()

    def _coarse(self, waiting: list[_Waiting]) -> None:
        """Give first plans to all configurations that may get into the ranking, in the order of their bounds."""
        heapify(waiting)
        rows = [job for *_rest, job in sorted(waiting, reverse=True) if isinstance(job, SplitRow)]
        """Rows that no plan is made of yet, the most promising last."""
        near, best_split = list[SplitRow](), None
        """Those of them that are one step away from the best row."""
        ready: list[_Waiting] = []
        spent = self._spent_s
        limit, late = (spent + share * (self.time_limit_s - spent) for share in (_COARSE_SHARE, _FEW_SHARE))
        planning_s, num_planned = 0.0, 0
        while waiting and not self._is_over(limit if len(self.best) >= self.rows else late):
            began = now_s()
            if waiting[0][0] >= self._last_ns:
                return
            if planning_s < _PLANNING_SHARE * (self._spent_s - spent) and (rows or ready):
                num_planned += 1
                best = min(self.best.values(), key=lambda candidate: candidate.step_ns, default=None)
                if best is not None and best.split != best_split:
                    best_split = best.split
                    near = [row for row in rows if row in self.unmade and is_near(row.split.first, best.training)]
                if ready and (num_planned % 2 or not rows):
                    self._plan_ready(ready)
                else:
                    for entry in self._explored((near or rows).pop()):
                        heappush(waiting, entry)
                planning_s += now_s() - began
            else:
                for entry in self._bounded(*heappop(waiting)):
                    heappush(waiting, entry)
                    if entry[1] == _ORDER:
                        heappush(ready, entry)
            self._tell()

    def _plan_ready(self, ready: list[_Waiting]) -> None:
        """Make a first plan of the configuration with the least bound that knows its orders of work."""
        *_least, job = heappop(ready)
        assert isinstance(job, Candidate)
        if job not in self.planned and job.lower_bound_ns < min(self._row_ns(job), self._last_ns):
            self._first_plan(job)

    def _explored(self, row: SplitRow) -> Iterator[_Waiting]:
        """Make a first plan of one configuration of a row, whatever its turn; yield what then waits.

        Bounds of rows are close in a large space: whoever waits for the turn of a plan has none when the time is over.
        """
        if row not in self.unmade:
            return
        if not row.is_priced:
            self._price(row)
        if row.lower_bound_ns >= self._last_ns:
            return
        stages = dict.fromkeys(self._make(row), _ONE)
        tried = [entry for entry in stages if _is_typical(entry[-1])]
        for entry in tried or list(stages):
            job = entry[-1]
            if self._is_over(self.time_limit_s):
                break
            assert isinstance(job, Candidate)
            self._raise(job, self.bounds.step_ns(job.training, known_ns=job.lower_bound_ns, aim_ns=self._aim_ns(job)))
            stages[entry] = _STEP
        *_rest, least = min(tried or stages, key=lambda entry: entry[-1].lower_bound_ns)
        if isinstance(least, Candidate) and least.lower_bound_ns < self._last_ns:
            self._first_plan(least)
        for (*_old, number, job), stage in stages.items():
            if isfinite(job.lower_bound_ns):
                yield job.lower_bound_ns, stage, number, job

    @property
    def _last_ns(self) -> float:
        """The step of the last row of the ranking; infinite while there are fewer."""
        rows = self._rows()
        return rows[self.rows - 1].step_ns if len(rows) >= self.rows else float("inf")

    def _bounded(self, bound_ns: float, stage: int, number: int, job: SplitRow | Candidate) -> Iterator[_Waiting]:
        """Take a row or configuration one step nearer to a plan; yield what then waits for its turn."""
        if isinstance(job, SplitRow):
            if job not in self.unmade:
                return
            if job.is_priced:
                yield from self._make(job)
                return
            self._price(job)
        elif job in self.planned or bound_ns >= self._row_ns(job):
            return  # not the best of its row, whatever its plan
        elif stage == _ONE:
            self._raise(job, self.bounds.step_ns(job.training, known_ns=bound_ns, aim_ns=self._aim_ns(job)))
            stage = _STEP
        elif stage == _STEP:
            aim_ns = self._aim_ns(job)
            self._raise(job, self.bounds.order_ns(job.training, known_ns=bound_ns, aim_ns=aim_ns))
            stage = _ORDER
        else:
            self._first_plan(job)
            return
        if isfinite(job.lower_bound_ns):
            yield job.lower_bound_ns, stage, number, job

    def _aim_ns(self, candidate: Candidate) -> float:
        """Return a time above which nothing need be known of a configuration before the bound of the space is there."""
        best_ns = self._best_ns if len(self.best) >= self.rows else float("inf")
        return min(self._row_ns(candidate), best_ns)

    def _first_plan(self, candidate: Candidate) -> bool:
        """Give a configuration its first plan; returns whether it is the shortest of its row."""
        self.planned.add(candidate)
        return self._take(candidate, coarse(self.pricing, candidate.training))

    @staticmethod
    def _raise(candidate: Candidate, bound_ns: float) -> None:
        candidate.lower_bound_ns = max(candidate.lower_bound_ns, bound_ns)

    def _row_ns(self, candidate: Candidate) -> float:
        """Return the shortest step known of the row that a configuration belongs to."""
        best = self.best.get(candidate.split)
        return float("inf") if best is None else best.step_ns

    def _take(self, candidate: Candidate, planned: PlannedStep | None) -> bool:
        """Note a step; returns whether it is the shortest of its row."""
        if planned is None or planned.step_ns > candidate.step_ns:
            return False
        if candidate.found is not None and planned.step_ns == candidate.step_ns:
            if planned.plan.num_recomputed < candidate.found.plan.num_recomputed:
                candidate.found = planned
            return False
        candidate.found = planned
        if planned.step_ns >= self._row_ns(candidate):
            return False
        self.best[candidate.split] = candidate
        answer_exists()
        return True

    def _exact(self) -> None:
        """Solve the first row, what vendors publish, the other rows, then whatever may be better than the best."""
        solved: set[Candidate] = set()
        waiting: list[_Waiting] = [(job.lower_bound_ns, _ONE, number, job) for number, job in enumerate(self.made)]
        waiting += [(row.lower_bound_ns, _ROW, number, row) for row, number in self.unmade.items()]
        heapify(waiting)
        while not self._is_over(self.time_limit_s):
            rows, recipes = self._rows()[: self.rows], [job for job in self.recipes if job.found is not None]
            rows = [job for job in (*rows[:1], *recipes, *rows[1:]) if job not in solved]
            if rows:
                solved.add(rows[0])
                self._turn(rows[0], rows[0].step_ns)
            elif not waiting or waiting[0][0] >= self._best_ns * (1 - 2 * TOLERANCE):
                return
            else:
                bound_ns, stage, number, job = heappop(waiting)
                for entry in self._advance(bound_ns, stage, number, job):
                    heappush(waiting, entry)
            self._tell()

    def _recompute_less(self) -> None:
        """Keep what memory there is room for in all rows, the first one also when the time is over."""
        for number, candidate in enumerate(self._rows()):
            if number and self._is_over(self.time_limit_s):
                return
            if candidate.plan is not None:
                plan = recomputing_what_it_must(self.pricing, candidate.training, candidate.plan)
                self._take(candidate, self.pricing.planned_step(candidate.training, plan))

    def _advance(self, bound_ns: float, stage: int, number: int, job: SplitRow | Candidate) -> Iterator[_Waiting]:
        """Take the next step for a row or configuration that may still win; yield what then waits for its turn.

        A row is priced, then made; a configuration is bounded, gets a first plan, or is solved.
        """
        if isinstance(job, SplitRow):
            if job.is_priced:
                yield from self._make(job)
                return
            self._price(job)
        elif job in self.over:
            return
        elif job.lower_bound_ns > bound_ns:
            pass  # by another turn
        elif job in self.planned:
            self._turn(job, self._best_ns)
        else:
            order_ns = self.bounds.order_ns(job.training, known_ns=bound_ns, aim_ns=self._best_ns)
            if order_ns > bound_ns:
                job.lower_bound_ns = order_ns
            else:
                self._first_plan(job)
        yield job.lower_bound_ns, stage, number, job

    def _turn(self, candidate: Candidate, cutoff_ns: float) -> None:
        """Let a configuration's inner problem run for one turn, and note whether it is finished."""
        inner = self._inner(candidate)
        least_ns = self.bounds.whole_ns(candidate.training, 0.0)
        inner.advance(left_s=self.time_limit_s - self._spent_s, cutoff_ns=cutoff_ns - least_ns)
        self.is_interrupted |= inner.interrupted
        candidate.status = inner.status
        candidate.lower_bound_ns = max(
            candidate.lower_bound_ns, self.bounds.whole_ns(candidate.training, inner.lower_bound_ns)
        )
        for plan in inner.plans:
            self._take(candidate, self.pricing.planned_step(candidate.training, plan))
        if inner.is_over:
            self.over.add(candidate)

    def _inner(self, candidate: Candidate) -> InnerProblem:
        """Return the inner problem of a configuration; equal ones are solved once."""
        request = self.pricing.request(candidate.training, transfer_ns=self.pricing.message_ns(candidate.training))
        key = repr(request), schedule_of(candidate.training)
        inner = self.inner.get(key)
        if inner is None:
            inner = self.inner[key] = InnerProblem(self.pricing, candidate.training, start=candidate.plan)
        return inner

    def _tell(self) -> None:
        now = shown_s()
        if self.report is None or now < self.reported + _REPORT_SECONDS:
            return
        self.reported = now
        best_ns = self._best_ns
        legal = len(self.made) + sum(row.count for row in self.unmade)
        solved = sum(candidate.found is not None for candidate in self.made)
        refuted = num_refuted(self.made, self.unmade, best_ns)
        self.report(
            TuningProgress(
                seconds=now - self.began,
                legal=legal,
                refuted=refuted,
                solved=solved,
                left=legal - refuted - solved,
                best_ns=best_ns,
                lower_bound_ns=self._lower_bound_ns,
            )
        )
