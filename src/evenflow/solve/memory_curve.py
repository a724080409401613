"""The memory curve: which step every amount of memory allows under one order of work, every point of it a plan.

The shortest step falls in stairs as the limit of all ranks rises: between two stairs, more memory is worth nothing. The
ends are the plan that needs the least memory, and the shortest step without a limit. Between two plans, a solve with a
limit between theirs either finds a third one, or shows that memory up to this limit is worth nothing; so the unknown
part of the curve, a rectangle between neighbouring plans, is halved at least. The largest comes first, and one that is
near the limit given before one that is far from it.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from evenflow.errors import Interrupted
from evenflow.model import Plan
from evenflow.simulate import Integers
from evenflow.solve.clock import Clock, now_s
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.outcome import Outcome
from evenflow.solve.problem import Problem
from evenflow.solve.race import Race, RaceSettings
from evenflow.solve.smaller_peak import smaller_peak
from evenflow.units import GIGABYTE, MEGABYTE

EQUAL_SHARE = 5e-6
"""Share of the step below which two steps are equal: solvers end within a few millionths."""
MOST_POINTS = 20
"""Points with which a curve is fine enough to decide by."""
_NEAR_BYTES = 2 * GIGABYTE
"""Distance from the limit given at which a part of the curve matters half as much as one at the limit."""
_FINE_BYTES = 10 * MEGABYTE
"""Two plans whose peaks are nearer than twice this have only one solve between them: figures in GB show no more."""
_SOLVE_SHARE, _LEAST_SHARE = 0.25, 0.05
"""Most of the time left, and least of all the time, that one solve has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPoint:
    """A plan of the curve: none is known that holds as little and has a step as short."""

    plan: Plan
    peak_bytes: int
    """Memory of the fullest rank, which is the limit that the plan needs."""
    step_ns: int
    lower_bound_ns: int
    """Lower bound on the step of all plans that hold at most so much."""

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no plan with so much memory is shorter."""
        return is_equal(self.step_ns, self.lower_bound_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCurve:
    """Plans with more and more memory and shorter and shorter steps."""

    points: tuple[MemoryPoint, ...]
    least_bytes: int | None
    """The smallest limit with which there is a plan; None where the time did not suffice to prove it."""
    floor_ns: int
    """Lower bound on the step of all plans, however much memory they need; 0 where the time did not suffice for one."""
    is_whole: bool
    """Whether every point is proven and no plan is missing between them, but for a few megabytes."""

    @property
    def knees(self) -> tuple[int, ...]:
        """Indices of the points from which on memory buys less time than before: those that no mixture of others beats.

        The first and the last are no knees.
        """
        corners: list[int] = []
        for index, point in enumerate(self.points):
            while len(corners) > 1 and not _is_below(self.points[corners[-1]], self.points[corners[-2]], point):
                corners.pop()
            corners.append(index)
        return tuple(corners[1:-1])

    def frugal(self, step_ns: int) -> MemoryPoint | None:
        """Return the plan that needs the least memory of those whose step is at most so long; None without one."""
        return next((point for point in self.points if point.step_ns <= step_ns), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomierPlans:
    """Plans that hold less than another one and are hardly longer."""

    points: tuple[MemoryPoint, ...]
    """The one that holds least first, and the longest."""
    refuted_bytes: int | None
    """The largest limit with which it is proven that no plan is so short; None where there is none."""


def is_equal(one_ns: float, other_ns: float) -> bool:
    """Return whether two steps, or a step and a bound, are equal as far as the solver can tell."""
    return abs(one_ns - other_ns) <= EQUAL_SHARE * max(one_ns, other_ns)


def _is_below(point: MemoryPoint, less: MemoryPoint, more: MemoryPoint) -> bool:
    """Return whether a point is below the line from one with less memory to one with more."""
    width, drop = more.peak_bytes - less.peak_bytes, less.step_ns - more.step_ns
    return (less.step_ns - point.step_ns) * width > drop * (point.peak_bytes - less.peak_bytes)


def memory_curve(
    problem: Problem, plan: Plan, *, seconds: float, lower_bound_ns: int = 0, first_bytes: Sequence[int] = ()
) -> MemoryCurve | None:
    """Return the curve around the limit of `problem`, as far as `seconds` suffice; None after Ctrl-C.

    `plan` is one that the problem allows, and `lower_bound_ns` a bound on all of its plans that is known. Limits of
    `first_bytes` are tried before others. Where the time does not suffice, points are plans all the same.
    """
    return _Search(problem, plan, seconds=seconds, lower_bound_ns=lower_bound_ns).run(first_bytes)


def roomier_plans(
    problem: Problem, plan: Plan, *, most_ns: int, seconds: float, lower_bound_ns: int = 0
) -> RoomierPlans | None:
    """Return the plans of the curve that hold less than `plan` and take at most `most_ns`; None after Ctrl-C.

    The rest is as for `memory_curve`.
    """
    search = _Search(problem, plan, seconds=seconds, lower_bound_ns=lower_bound_ns, most_ns=most_ns)
    curve = search.run(())
    if curve is None:
        return None
    own_bytes = max(problem.simulate(problem.counts(plan)).peak_memory_bytes)
    points = tuple(point for point in curve.points if point.step_ns <= most_ns and point.peak_bytes < own_bytes)
    return RoomierPlans(points=points, refuted_bytes=search.refuted_bytes(most_ns))


class _Search:
    """A running search: the plans that no other one beats, and what solves have proven."""

    def __init__(
        self, problem: Problem, plan: Plan, *, seconds: float, lower_bound_ns: int, most_ns: int | None = None
    ) -> None:
        self._limit = problem.limit
        self._most_ns = most_ns
        """The longest step of a plan that matters, of those within the limit; None: all do, with any memory."""
        self._free = _with_limit(problem, None)
        self._seconds = seconds
        self._ends_s = now_s() + seconds
        self._points: list[MemoryPoint] = []
        self._solved = {problem.limit: lower_bound_ns} if lower_bound_ns else {}
        """Lower bounds on the step by the limit of the solve that proved them."""
        self._least_bytes: int | None = None
        self._take(problem.counts(plan))

    def run(self, first_bytes: Sequence[int]) -> MemoryCurve | None:
        """Solve the first limits, the ends, then the largest gap again and again, until time or all gaps are over.

        The limit of the plan itself comes before them where nothing is known of it.
        """
        last = (None,) if self._most_ns is None else ()
        for limit_bytes in (*(() if self._solved else (self._limit,)), *first_bytes, *last):
            if self._left_s > 0 and not self._solve(limit_bytes):
                return None
        self._find_least()
        while self._left_s > 0 and len(self._points) < MOST_POINTS:
            limit = max(self._gaps(), default=None)
            if limit is None:
                break
            if not self._solve(limit[1]):
                return None
        points = tuple(replace(point, lower_bound_ns=self._bound(point)) for point in self._points)
        is_closed = next(self._gaps(), None) is None and self._free.limit in self._solved and self._is_flat()
        return MemoryCurve(
            points=points,
            least_bytes=self._least_bytes,
            floor_ns=min(self._bound_at(self._free.limit), self._points[-1].step_ns),
            is_whole=is_closed and self._least_bytes is not None and all(point.is_optimal for point in points),
        )

    def refuted_bytes(self, most_ns: int) -> int | None:
        """Return the largest limit with which it is proven that no plan takes at most `most_ns`."""
        least = [] if self._least_bytes is None else [self._least_bytes - 1]
        return max([limit for limit in self._solved if self._bound_at(limit) > most_ns] + least, default=None)

    @property
    def _left_s(self) -> float:
        """Seconds left; a rest that is too short for a solve is none."""
        left_s = self._ends_s - now_s()
        return left_s if left_s > _LEAST_SHARE * self._seconds else 0.0

    @property
    def _share_s(self) -> float:
        return max(_SOLVE_SHARE * self._left_s, _LEAST_SHARE * self._seconds)

    def _find_least(self) -> None:
        """Take the plan that needs the least memory."""
        if self._left_s > 0:
            least = least_memory(self._free, seconds=self._share_s)
            self._take(least.counts)
            if least.proven:
                self._least_bytes = least.peak_bytes

    def _solve(self, limit_bytes: int | None) -> bool:
        """Take the shortest plan with another limit; returns whether the search goes on."""
        problem = _with_limit(self._free, limit_bytes)
        outcome = _solved(problem, self._points, self._bound_at(problem.limit), self._share_s)
        if outcome is None:
            return False
        self._solved[problem.limit] = outcome.lower_bound_ns
        if outcome.plan is not None:
            self._take(problem.counts(outcome.plan))
        return True

    def _take(self, counts: Integers) -> None:
        """Take a plan, with as little memory as its step needs, unless another one beats it."""
        simulation = self._free.simulate(smaller_peak(self._free, counts))
        new = MemoryPoint(
            plan=simulation.plan,
            peak_bytes=max(simulation.peak_memory_bytes),
            step_ns=simulation.makespan_ns,
            lower_bound_ns=0,
        )
        kept: list[MemoryPoint] = []
        for point in sorted([*self._points, new], key=lambda point: (point.peak_bytes, point.step_ns)):
            if not kept or point.step_ns < kept[-1].step_ns * (1 - EQUAL_SHARE):
                kept.append(point)
        self._points = kept

    def _bound_at(self, limit_bytes: int) -> int:
        """Return the best bound on all plans with this limit: one with a higher limit holds for them too."""
        return max((bound for limit, bound in self._solved.items() if limit >= limit_bytes), default=0)

    def _bound(self, point: MemoryPoint) -> int:
        return min(self._bound_at(point.peak_bytes), point.step_ns)

    def _gaps(self) -> Iterator[tuple[float, int]]:
        """Yield how much each part of the curve matters in which plans may be missing, with the next limit to solve."""
        solved = sorted(self._solved)
        for less, more in pairwise(self._points):
            if self._most_ns is not None and (more.step_ns > self._most_ns or less.peak_bytes >= self._limit):
                continue
            tried = _last_between(solved, less, more)
            is_tried, flat_until = tried is not None, less.peak_bytes if tried is None else tried
            width = more.peak_bytes - flat_until
            if width <= 2 * _FINE_BYTES and is_tried:
                continue
            distance = max(0, flat_until - self._limit, self._limit - more.peak_bytes)
            area = width * (less.step_ns - more.step_ns) / (1 + distance / _NEAR_BYTES)
            yield area, (more.peak_bytes - 1 if width <= 2 * _FINE_BYTES else flat_until + width // 2)

    def _is_flat(self) -> bool:
        """Return whether the last limit tried between neighbours is proven to allow nothing shorter than the first."""
        solved = sorted(self._solved)
        tried = ((less, _last_between(solved, less, more)) for less, more in pairwise(self._points))
        return all(limit is None or self._bound_at(limit) >= less.step_ns * (1 - EQUAL_SHARE) for less, limit in tried)


def _last_between(solved: list[int], less: MemoryPoint, more: MemoryPoint) -> int | None:
    """Return the highest of the sorted limits that were solved from the peak of `less` on, below that of `more`."""
    place = bisect_left(solved, more.peak_bytes)
    return solved[place - 1] if place > 0 and solved[place - 1] >= less.peak_bytes else None


def _with_limit(problem: Problem, limit_bytes: int | None) -> Problem:
    return replace(problem, request=replace(problem.request, memory_limit_bytes=limit_bytes), more_bytes=())


def _solved(problem: Problem, known: list[MemoryPoint], bound_ns: int, seconds: float) -> Outcome | None:
    """Return the outcome of a problem; None after Ctrl-C."""
    settings = RaceSettings(
        patience_s=0.5, advise=False, known=tuple(point.plan for point in known), lower_bound_ns=bound_ns
    )
    try:
        outcome = Race(problem, settings).run(Clock(limit_s=seconds))
    except Interrupted:
        return None
    return None if outcome.interrupted else outcome
