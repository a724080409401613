"""The plan whose fullest rank holds the least, proven to the byte although programs in floating point find it.

With one chunk per rank the cells are independent but for their borders, and `least_borders` is exact. With two that
pass the ranks in order, `TwoChunks` is, where there is time. Otherwise:

1. A program in floating point finds a plan and a bound, which is right up to `TOLERANCE`. Where neighbouring peaks
   differ by more than that, such as whole megabytes, the bound proves the plan.
2. Otherwise the program looks for a plan that is smaller by a byte or more: choices with which a rank could not be
   smaller are left out, in integers, and it may exceed the limit by the tolerance, so that rounding loses no plan.
3. The plan it finds is smaller, and step 2 starts from it; or some of its ranks are exactly as large as before or
   larger. Then these contents, and all that hold as much or more, are excluded (a no-good cut), and step 2 goes on.
4. Where nothing is left, no plan is smaller. Every step excludes contents that could be chosen before, so it ends.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenflow.simulate import Integers
from evenflow.solve.backends.highs import INFINITY, Program
from evenflow.solve.clock import now_s
from evenflow.solve.memory.memory_program import MemoryProgram, TooLarge
from evenflow.solve.memory.smallest_contents import Amounts, CellContents, OutOfTime, SmallestContents
from evenflow.solve.memory.two_chunks import TwoChunks, has_two_chunks
from evenflow.solve.problem import Problem
from evenflow.solve.start import even_bounds, without_moves

TOLERANCE = 1e-6
"""Fraction of the peak up to which programs in floating point are right; the library allows a tenth of it in rows."""
_FIRST_RAISE = 16
"""Part of what lies between bound and peak by which a limit is raised at first; the next raises are twice as large."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LeastMemory:
    """The plan whose fullest rank holds the least, with its peak and a bound on it."""

    counts: Integers
    """Layers by cell and kind, shape [num_cells, num_kinds]."""
    peak_bytes: int
    """Peak bytes of its fullest rank."""
    bound_bytes: float
    """Lower bound on the peak bytes of the fullest rank of any plan."""

    @property
    def proven(self) -> bool:
        """Whether no plan needs a byte less."""
        return self.bound_bytes >= self.peak_bytes


def least_memory(
    problem: Problem,
    *,
    seconds: float,
    enough_bytes: int = -1,
    exact: bool = True,
    seconds_above: float = float("inf"),
    started: Callable[[Program], object] = lambda program: None,
) -> LeastMemory:
    """Return the plan with the least peak of its fullest rank, over cuts whose cells recompute all they can.

    A plan that needs at most `enough_bytes` ends the search; where it is proven that none does, the search for the
    smallest goes on for `seconds_above` at most. Without `exact`, step 1 ends it. `started` gets every program before
    it is solved, so that another thread can cancel it, which ends the search too.

    Where ranks keep something for others, the bound is that of plans with which they need not; of the plan that it is
    for and the smallest that moves nothing, the answer is the one that needs less. Where forwards run beside backwards,
    the bound is that of plans in which each backward ends first.
    """
    least = _least_alone(
        problem, seconds=seconds, enough_bytes=enough_bytes, exact=exact, seconds_above=seconds_above, started=started
    )
    if not problem.pooled and not problem.beside:
        return least
    plans, kept = [least.counts], without_moves(problem) if problem.pooled else None
    if kept is not None:
        stays = _least_alone(
            kept, seconds=seconds, enough_bytes=enough_bytes, exact=False, seconds_above=0.0, started=started
        )
        plans.append(stays.counts)
    peaks = [int(problem.rank_memory(problem.costs(counts)).max()) for counts in plans]
    peak_bytes = min(peaks)
    return LeastMemory(
        counts=plans[peaks.index(peak_bytes)], peak_bytes=peak_bytes, bound_bytes=min(least.bound_bytes, peak_bytes)
    )


def _least_alone(
    problem: Problem,
    *,
    seconds: float,
    enough_bytes: int,
    exact: bool,
    seconds_above: float,
    started: Callable[[Program], object],
) -> LeastMemory:
    """Return the same as if no rank kept anything for others, and every backward of a pair ended first."""
    search = _Search(problem, deadline=now_s() + seconds, enough_bytes=enough_bytes, started=started)
    with suppress(OutOfTime):  # then it has what it found so far
        _find_least(search, enough_bytes=enough_bytes, exact=exact, seconds_above=seconds_above)
    return LeastMemory(
        counts=search.contents.counts(search.bounds),
        peak_bytes=search.peak_bytes,
        bound_bytes=min(search.bound_bytes, search.peak_bytes),
    )


def _find_least(search: "_Search", *, enough_bytes: int, exact: bool, seconds_above: float) -> None:
    """Let a search find what it can; raises OutOfTime."""
    problem = search.contents.problem
    if problem.fixed_bounds is None and problem.num_chunks == 1:
        search.bounds = least_borders(search.contents)
        search.peak_bytes = max(search.contents.peaks(search.bounds))
    if (problem.fixed_bounds is not None or problem.num_chunks == 1) and search.contents.is_exact(search.bounds):
        search.bound_bytes = search.peak_bytes
    if enough_bytes >= 0:
        search.find_enough()
        if search.bound_bytes > enough_bytes:
            search.hurry(seconds_above)
    if has_two_chunks(search.contents):
        search.build_up()
    search.minimise()
    if exact:
        search.repair()


def least_borders(contents: SmallestContents) -> Integers:
    """Return the borders of cells with the least peak where each rank has one cell, by dynamic programming."""
    problem = contents.problem
    num_borders = problem.num_layers + 1
    unreached = np.iinfo(np.int64).max
    reached = np.full(num_borders, unreached)
    reached[0] = 0
    cells = contents.every_run()
    origins = []
    for cell, rank in enumerate(problem.schedule.stage_ranks):
        peaks = (contents.base(rank)[:, np.newaxis] + contents.sizes(rank, 0, cells.amounts)).max(axis=0)
        peaks = peaks + contents.working(rank, cells.amounts)
        if problem.placement is not None:
            peaks[~problem.placement.allows(cell, cells.starts, cells.ends)] = unreached
        table = np.full((num_borders, num_borders), unreached)
        np.minimum.at(table, (cells.starts, cells.ends), np.maximum(reached[cells.starts], peaks))
        origins.append(table.argmin(axis=0))
        reached = table.min(axis=0)
    bounds = [problem.num_layers]
    for origin in reversed(origins):
        bounds.append(int(origin[bounds[-1]]))
    return np.array(bounds[::-1], dtype=np.int64)


class _Search:
    """A running search with the smallest plan so far and a bound on all plans."""

    def __init__(
        self,
        problem: Problem,
        *,
        deadline: float,
        enough_bytes: int,
        started: Callable[[Program], object],
    ) -> None:
        self.contents = SmallestContents(problem, keep_going=lambda: now_s() < self._deadline)
        self.bounds = even_bounds(problem) if problem.fixed_bounds is None else problem.fixed_bounds
        self.peak_bytes = max(self.contents.peaks(self.bounds))
        self.bound_bytes = 0.0
        self._deadline = deadline
        self._enough_bytes = enough_bytes
        self._started = started
        self._stopped = False

    @property
    def _goes_on(self) -> bool:
        """Whether a smaller plan is wanted, may be there, and there is time to look for it."""
        wanted = self.peak_bytes > max(self._enough_bytes, self.bound_bytes)
        return wanted and not self._stopped and now_s() < self._deadline

    @cached_property
    def _every_choice(self) -> list[CellContents]:
        return self.contents.all_choices()

    def hurry(self, seconds: float) -> None:
        """End the search after so many seconds at most."""
        self._deadline = min(self._deadline, now_s() + seconds)

    def build_up(self) -> None:
        """Build plans up rank by rank under one limit after the other, the lowest first: it leaves out most of them."""
        part = _FIRST_RAISE
        while self._goes_on:
            limit_bytes = self.peak_bytes - int((self.peak_bytes - self.bound_bytes) * (1 - 1 / part))
            if not self._build_below(limit_bytes):
                return
            part = max(1, part // 2)

    def _build_below(self, limit_bytes: int) -> bool:
        """Take the smallest plan below a limit, or the limit as a bound; returns whether there was time for it."""
        least, choices = None, self.contents.below(self._every_choice, limit_bytes)
        if all(len(cell) for cell in choices):
            programs = TwoChunks(self.contents, choices, keep_going=lambda: now_s() < self._deadline)
            try:
                least = programs.least(below=limit_bytes, enough_bytes=self._enough_bytes)
            except TimeoutError:
                return False
        if least is not None:
            self._offer(least.bounds)
        if least is None or least.peak_bytes > self._enough_bytes:
            self.bound_bytes = float(limit_bytes if least is None else least.peak_bytes)
        return True

    def minimise(self) -> None:
        """Run step 1, and again where the plan is so much smaller than the last that the tolerance was too coarse."""
        unit_bytes = 0
        while self._goes_on and unit_bytes not in range(1, 2 * self.peak_bytes):
            unit_bytes = self.peak_bytes
            bound, bounds, _ = self._solve([], below_bytes=self.peak_bytes, limited=False)
            # Plans that need as much as the one at hand are not in the program.
            self.bound_bytes = max(self.bound_bytes, min((bound - TOLERANCE) * unit_bytes, float(unit_bytes)))
            self._offer(bounds)
            step_bytes = self.contents.step_bytes
            if step_bytes == 0 or self.bound_bytes > self.peak_bytes - step_bytes:
                self.bound_bytes = float(self.peak_bytes)

    def find_enough(self) -> None:
        """Run steps 2 to 4 for a plan that is small enough: far fewer choices are left than for the smallest one."""
        if has_two_chunks(self.contents):
            self._build_below(self._enough_bytes + 1)
        too_large: list[TooLarge] = []
        while self._goes_on and self.bound_bytes <= self._enough_bytes:
            self._look_below(self._enough_bytes + 1, too_large)

    def repair(self) -> None:
        """Run steps 2 to 4 until no plan is smaller or the search is over."""
        too_large: list[TooLarge] = []
        while self._goes_on:
            self._look_below(self.peak_bytes, too_large)

    def _look_below(self, below_bytes: int, too_large: list[TooLarge]) -> None:
        """Look for a plan with a peak below this: take it, or its faults, or that there is none as a bound."""
        bound, bounds, amounts = self._solve(too_large, below_bytes=below_bytes, limited=True)
        if bound == INFINITY:
            self.bound_bytes = max(self.bound_bytes, float(below_bytes))
        elif bounds is not None and amounts is not None:
            self._offer(bounds)
            too_large += self._faults(amounts, below_bytes=below_bytes)

    def _solve(
        self, too_large: list[TooLarge], *, below_bytes: int, limited: bool
    ) -> tuple[float, Integers | None, Amounts | None]:
        """Return the bound of a program (infinite without a plan), and the borders and amounts of cells in its plan.

        It has the choices of ranks that may stay below so many bytes, and for `limited` takes any plan that does, up to
        the tolerance, in place of the smallest.
        """
        choices = self.contents.below(self._every_choice, below_bytes)
        if any(len(cell) == 0 for cell in choices):
            return INFINITY, None, None
        limit_bytes = below_bytes - 1 + TOLERANCE * below_bytes if limited else None
        program = MemoryProgram(
            self.contents, choices, unit_bytes=below_bytes, limit_bytes=limit_bytes, too_large=too_large
        )
        self._started(program.program)
        solution = program.program.solve(time_limit_s=self._deadline - now_s())
        self._stopped = solution.status == "stopped"
        if solution.values is None:
            return solution.bound, None, None
        return (solution.bound, *program.chosen(solution.values))

    def _offer(self, bounds: Integers | None) -> bool:
        """Take a plan if it is smaller than the one at hand; returns whether it is."""
        if bounds is None:
            return False
        peak_bytes = max(self.contents.peaks(bounds))
        if peak_bytes >= self.peak_bytes:
            return False
        self.bounds, self.peak_bytes = bounds, peak_bytes
        return True

    def _faults(self, amounts: Amounts, *, below_bytes: int) -> Iterator[TooLarge]:
        """Yield what a plan's ranks hold that is not below so many bytes, for each rank that it is too much for."""
        ranks = range(self.contents.problem.num_ranks)
        peaks = [self.contents.peak(rank, amounts[self.contents.cells_of(rank)]) for rank in ranks]
        for fault in ranks:
            if peaks[fault] >= below_bytes:
                held = amounts[self.contents.cells_of(fault)]
                for rank in ranks:
                    if self.contents.peak(rank, held) >= below_bytes:
                        yield TooLarge(rank=rank, amounts=held)
