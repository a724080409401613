"""The outcome of a search that also looked for an order, with bounds that hold for any order."""

from dataclasses import dataclass, replace

from evenflow.interruption import was_interrupted
from evenflow.language import _
from evenflow.model import Plan
from evenflow.schedule import Schedule, order_lines
from evenflow.simulate import Simulation, is_compiling, stage_costs
from evenflow.solve.binding import with_binding
from evenflow.solve.bounds import AnyPlan, any_order_bound_ns, given_cells_bound
from evenflow.solve.outcome import Outcome, Progress, ProgressCallback, Status
from evenflow.solve.problem import Problem, problem_of_order
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.restrictions import Restrictions
from evenflow.solve.start import recomputing_less
from evenflow.solve.work import Work, make_work
from evenflow.units import milliseconds


@dataclass(frozen=True, kw_only=True)
class OrderedOutcome(Outcome):
    """A plan that may have an order of its own; `lower_bound_ns` holds for any cells and any order of these sizes."""

    family: Outcome
    """The best plan found under a family's order for equal times, with the bound for that order."""
    order_lower_bound_ns: int
    """Lower bound on any order of this plan's cells on their ranks within the limit."""
    made_for_times: bool = False
    """Whether the order is that of `family`, made for the times of the plan; otherwise any order was looked for."""

    def certificate(self) -> str:
        """Return what the order gains over families, and how good the plan is proven to be, as lines of text."""
        return "\n".join(
            (
                self._gain(),
                _("bound for any order of these cells: {bound}", bound=self._bound(self.order_lower_bound_ns)),
                _(
                    "bound for any order of any cells{split}: {bound}",
                    split=self.restricted,
                    bound=self._bound(self.lower_bound_ns),
                ),
            )
        )

    def _gain(self) -> str:
        assert self.makespan_ns is not None  # of every OrderedOutcome
        if self.family.plan is None or self.family.makespan_ns is None:
            return _(
                "{step_ms:,.3f} ms in an order of its own; under the order of a family no plan was found",
                step_ms=milliseconds(self.makespan_ns),
            )
        gain = 100 * (1 - self.makespan_ns / self.family.makespan_ns)
        if self.made_for_times:
            return _(
                "{step_ms:,.3f} ms with the order of {schedule} made for these times, {gain:.2f} % less "
                "than under its order for equal times ({certificate})",
                step_ms=milliseconds(self.makespan_ns),
                gain=gain,
                schedule=self.family.plan.schedule,
                certificate=self.family.certificate(),
            )
        return _(
            "{step_ms:,.3f} ms, {gain:.2f} % less than the best plan of a family that was found "
            "({schedule}, {family_ms:,.3f} ms)",
            step_ms=milliseconds(self.makespan_ns),
            gain=gain,
            schedule=self.family.plan.schedule,
            family_ms=milliseconds(self.family.makespan_ns),
        )

    def _bound(self, bound_ns: int) -> str:
        assert self.makespan_ns is not None
        gap = 100 * (1 - bound_ns / self.makespan_ns)
        return _("{bound_ms:,.3f} ms, at most {gap:.2f} % shorter", bound_ms=milliseconds(bound_ns), gap=gap)


def ordered_outcome(
    best: Simulation,
    problem: Problem,
    family: Outcome,
    *,
    split_backward: bool,
    in_pairs: bool,
    solve_seconds: float,
    interrupted: bool,
    made_for_times: bool = False,
    known_bound_ns: int = 0,
) -> Outcome:
    """Return the outcome of a search for cells and order that found `best`, bounded, with the limits that bind.

    `problem` has the sizes and the limit of the search, under any order; `split_backward` and `in_pairs` say whether
    backwards may be split, and forwards run beside them. `known_bound_ns` is a bound on all these plans.
    """
    under_order = problem_of_order(problem.request, best.timeline.schedule)
    best = under_order.simulate(recomputing_less(under_order, under_order.counts(best.plan)))
    plans = AnyPlan.of(problem.request, may_split=split_backward, in_pairs=in_pairs)
    bound = max(known_bound_ns, any_order_bound_ns(plans))
    of_cells = bound  # it holds for these cells too
    if not interrupted and not was_interrupted() and not is_compiling():  # the compiler would let it wait
        work = work_of(best, problem, split_backward=split_backward, in_pairs=in_pairs)
        of_cells = max(bound, given_cells_bound(work).lower_bound_ns)
    outcome = OrderedOutcome(
        status=Status.OPTIMAL if bound >= best.makespan_ns * (1 - 2 * TOLERANCE) else Status.FEASIBLE,
        simulation=best,
        lower_bound_ns=min(bound, best.makespan_ns),
        memory_limit_bytes=problem.memory_limit_bytes,
        solve_seconds=solve_seconds,
        first_plan_seconds=family.first_plan_seconds,
        interrupted=interrupted,
        restrictions=Restrictions(full_cells=problem.request.full_cells),
        family=family,
        order_lower_bound_ns=min(of_cells, best.makespan_ns),
        made_for_times=made_for_times,
    )
    return with_binding(outcome, under_order)


def work_of(simulation: Simulation, problem: Problem, *, split_backward: bool, in_pairs: bool) -> Work:
    """Return the work of a plan of `problem`, whatever its order."""
    order = simulation.timeline.schedule.in_turn()
    return make_work(
        stage_costs(problem.request.network, simulation.plan, order, in_pairs=in_pairs),
        order,
        memory_limit_bytes=problem.memory_limit_bytes,
        communication=simulation.communication,
        split_backward=split_backward,
    )


def without_bounds(
    progress: ProgressCallback | None, best: Simulation | None, *, after_s: float = 0.0
) -> ProgressCallback | None:
    """Return a callback that reports the best plan so far, without bounds that hold for one order or one cut.

    `after_s` are the seconds that passed before what reports to it began.
    """
    if progress is None:
        return None
    report, best_ns = progress, best.makespan_ns if best else None

    def watch(inner: Progress) -> None:
        known = [makespan_ns for makespan_ns in (best_ns, inner.makespan_ns) if makespan_ns is not None]
        seconds = after_s + inner.seconds
        report(replace(inner, seconds=seconds, makespan_ns=min(known, default=None), lower_bound_ns=0))

    return watch


def with_order(plan: Plan, schedule: Schedule) -> Plan:
    """Return `plan` with the order of `schedule`, by its name alone if that is a family's for equal times."""
    lines = order_lines(schedule)
    group_size = None if lines else schedule.group_size
    return replace(plan, schedule=schedule.name, order=lines, group_size=group_size)
