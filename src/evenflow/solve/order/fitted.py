"""A plan under one family, whose order may be made for the plan's own times."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evenflow.errors import Interrupted
from evenflow.interruption import abandonable, was_interrupted
from evenflow.model import Plan, Request
from evenflow.simulate import Simulation, pairs_save, simulate
from evenflow.solve.binding import with_binding
from evenflow.solve.clock import Clock, now_s
from evenflow.solve.known_plans import in_own_order
from evenflow.solve.order.made_orders import MAKERS, family_orders, load_makers
from evenflow.solve.order.ordered_outcome import ordered_outcome, with_order, without_bounds, work_of
from evenflow.solve.outcome import Outcome, ProgressCallback, Status
from evenflow.solve.problem import Problem, make_problem, problem_of_order
from evenflow.solve.race import Race, RaceSettings

_EQUAL_SHARE = 0.5
"""Most of the time for the plan under the order for equal times, and its proof."""
_ROUND_SHARE = 0.7
"""Share of the time left for the cells under an order that was made."""
_MOST_ROUNDS = 3
_LEAST_GAIN = 0.001
"""Least share of the step that an order of the plan's own must save: without it the family's name says the order."""


def solve_fitted(
    request: Request,
    *,
    schedule: str,
    time_limit_s: float = 60.0,
    progress: ProgressCallback | None = None,
    known: Sequence[Plan] = (),
) -> Outcome:
    """Return the best plan of `request` under the family `schedule`, in an order made for its times if that is shorter.

    First solves for the order for equal times. Where the family has patterns, an order is then made of them for the
    cells of that plan, and the cells are planned again under it, while that helps. Where that saves a thousandth or
    more, the answer is an `OrderedOutcome` with the first one as its `family`; otherwise the first one, whose proof
    gets the rest of the time. Of the `known` plans of this family, also in orders made for their times, the answer is
    no longer than those that it could be. Raises InputError and Interrupted as `evenflow.plan` does.
    """
    began = now_s()
    problem = make_problem(request, schedule=schedule)
    race = Race(problem, RaceSettings(known=known))
    first = race.run(Clock(limit_s=_EQUAL_SHARE * time_limit_s), progress=progress)
    spent_s = now_s() - began
    clock = Clock(limit_s=time_limit_s - spent_s)
    interrupted = first.interrupted or was_interrupted()
    own = [simulation for plan in known if (simulation := _made(request, plan, problem)) is not None]
    best = min(filter(None, (first.simulation, *own)), key=lambda simulation: simulation.makespan_ns, default=None)
    if best is not None and (best is not first.simulation or not interrupted):
        fitting = _Fitting(problem=problem, best=best, clock=clock, after_s=spent_s, progress=progress)
        if not interrupted:
            fitting.run()
        interrupted = interrupted or fitting.interrupted or was_interrupted()
        is_worth_it = (
            first.simulation is None
            or best is not first.simulation
            or fitting.best.makespan_ns <= (1 - _LEAST_GAIN) * first.simulation.makespan_ns
        )
        if is_worth_it:
            return ordered_outcome(
                fitting.best,
                problem,
                with_binding(first, problem),
                split_backward=problem.schedule.splits_backward,
                in_pairs=pairs_save(request.network, request.communication),
                solve_seconds=now_s() - began,
                interrupted=interrupted,
                made_for_times=True,
            )
    if first.status in (Status.FEASIBLE, Status.TIMEOUT) and not interrupted and clock.left_s > 0 and not race.busy:
        first = race.run(Clock(limit_s=clock.left_s), progress=progress)
    first = replace(first, interrupted=first.interrupted or interrupted, solve_seconds=now_s() - began)
    return with_binding(first, problem)


def _made(request: Request, plan: Plan, problem: Problem) -> Simulation | None:
    """Return the step of a known plan whose order was made for its times; None where that is not of the family."""
    if plan.schedule != problem.schedule.name or not plan.order:
        return None
    simulation = in_own_order(request, plan)
    if simulation is None or simulation.timeline.schedule.splits_backward != problem.schedule.splits_backward:
        return None
    return simulation


@dataclass(kw_only=True)
class _Fitting:
    """The alternation of an order made for given cells, and cells under that order."""

    problem: Problem
    """The problem under the order for equal times."""
    best: Simulation
    clock: Clock
    after_s: float
    progress: ProgressCallback | None
    interrupted: bool = False

    def run(self) -> None:
        """Improve order and cells in turn until neither helps or the time is up; a signal ends it with the best."""
        try:
            for _round in range(_MOST_ROUNDS):
                before_ns = self.best.makespan_ns
                self._make_order()
                if self.best.makespan_ns == before_ns or self.clock.left_s <= 0:
                    return
                before_ns = self.best.makespan_ns
                self._plan_cells()
                if self.best.makespan_ns == before_ns or self.clock.left_s <= 0:
                    return
        except (KeyboardInterrupt, Interrupted):
            self.interrupted = True

    def _make_order(self) -> None:
        """Take the shortest order made for the best cells, if it is shorter than theirs."""
        splits, shortest = self.problem.schedule.splits_backward, None
        MAKERS.begin(load_makers)
        if not MAKERS.wait(is_over=lambda: self.clock.left_s <= 0 or was_interrupted()):
            return
        with abandonable():
            for made in family_orders(
                self.problem.schedule.name,
                work_of(self.best, self.problem, split_backward=splits, in_pairs=self.problem.schedule.has_pairs),
            ):
                if made.makespan_ns < (shortest or self.best).makespan_ns:
                    shortest = made
                if self.clock.left_s <= 0:
                    break
        if shortest is not None:
            plan, request = with_order(self.best.plan, shortest.schedule), self.problem.request
            self._take(simulate(request.network, plan, communication=request.communication))

    def _plan_cells(self) -> None:
        """Take the best cells found under the order of the best plan."""
        race = Race(
            problem_of_order(self.problem.request, self.best.timeline.schedule), RaceSettings(known=(self.best.plan,))
        )
        limit = Clock(limit_s=_ROUND_SHARE * self.clock.left_s)
        after_s = self.after_s + self.clock.spent_s
        outcome = race.run(limit, progress=without_bounds(self.progress, self.best, after_s=after_s))
        self.interrupted = outcome.interrupted
        if outcome.simulation is not None:
            self._take(outcome.simulation)

    def _take(self, simulation: Simulation) -> None:
        """Take a plan if it is shorter than the best one."""
        if not simulation.fits(self.problem.memory_limit_bytes):
            raise AssertionError("search and simulator disagree on memory: this is a fault in evenflow")
        if simulation.makespan_ns < self.best.makespan_ns:
            self.best = simulation
