"""Timelines of a report with what somebody needs who decides: what memory is worth, and how to run the plan."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evenflow.cli.shared.progress import shown_step
from evenflow.cli.shared.targets.run_blocks import run_blocks
from evenflow.cli.text.decision_text import decision_sentences
from evenflow.draw.memory_curve_picture import CurvePoint
from evenflow.interruption import was_interrupted
from evenflow.language import _
from evenflow.model import ANY_CONTENT, CellRule, Plan, Request, mixing
from evenflow.profiles.plan_file import PlanFile, parse_plan_file
from evenflow.report.shown import Advice, Shown
from evenflow.report.what_if import change_code
from evenflow.schedule import Schedule
from evenflow.simulate import simulate
from evenflow.solve.binding import binding_limits
from evenflow.solve.memory_curve import MemoryPoint
from evenflow.solve.problem import Problem, problem_of_order
from evenflow.solve.recompute_ways import recompute_ways
from evenflow.solve.sensitivity import sensitivity
from evenflow.targets.target import Target

MOST_SECONDS = 10.0
"""For each of the two parts."""
_LEAST_SECONDS, _ACTION_SECONDS = 0.5, 3.2e-6
"""What each part may take in any case, and what it takes at least for every action: steps are simulated for it."""


def decided(
    shown: Sequence[Shown],
    *,
    request: Request | None = None,
    target: Target | None = None,
    version: str = "",
    time_limit_s: float = MOST_SECONDS,
    lower_bound_ns: int = 0,
) -> list[Shown]:
    """Return the timelines, the first with sentences on its memory and with what to copy for every framework.

    `request` is what its plan was searched for, or None to make one that asks for it again, `target` the framework
    that it is for, and `lower_bound_ns` a bound on the step of all plans of the request. What memory is worth is not
    asked of a two-level plan, whose stages have devices of their own. Both parts take at most `time_limit_s` each, and
    are left out after Ctrl-C.
    """
    first = shown[0]
    if first.plan is None or was_interrupted():
        return list(shown)
    if max(time_limit_s, _LEAST_SECONDS) < _ACTION_SECONDS * first.schedule.num_actions:
        no_time = _("There was no time for what memory is worth, and for what frameworks run of the plan.")
        return [replace(first, decision=(Advice(text=no_time),)), *shown[1:]]
    planned = parse_plan_file(first.plan, place=first.name)
    with shown_step(_("what more or less memory is worth")) as show:
        decision, curve = _decision(planned, request, target, version, time_limit_s, lower_bound_ns, first.what_if)
        show(_("what frameworks run of the plan"))
        blocks = [] if was_interrupted() else run_blocks(planned, first=target, time_limit_s=time_limit_s)
    advice = tuple(Advice(text=sentence) for sentence in decision)
    return [replace(first, decision=advice, curve=curve, run=tuple(blocks)), *shown[1:]]


def _decision(
    planned: PlanFile,
    request: Request | None,
    target: Target | None,
    version: str,
    time_limit_s: float,
    lower_bound_ns: int,
    what_if: Mapping[str, object] | None,
) -> tuple[list[str], tuple[CurvePoint, ...]]:
    """Return sentences on the memory of a plan, and the curve of what other memory would make of its step."""
    problem = problem_of_plan(planned, request=request, target=target, version=version)
    if problem is None:
        return [], ()
    # A bound on what was asked for holds where this looks for no more.
    is_asked = target is None and (request is None or problem.request.cell_rule == request.cell_rule)
    worth = sensitivity(
        problem.request,
        planned.plan,
        problem.schedule,
        time_limit_s=time_limit_s,
        lower_bound_ns=lower_bound_ns if is_asked else 0,
    )
    points = () if worth is None else worth.curve.points
    sentences = decision_sentences(binding_limits(problem, planned.plan), worth)
    changes = [change_code(point.plan, what_if, problem.schedule, point.peak_bytes) for point in points]
    if len(points) > 1 and all(changes):
        sentences.append(_("a dot of the curve opens its plan; evenflow memory-curve has more of them in more time"))
    return sentences, curve_points(points, changes=changes)


def problem_of_plan(
    planned: PlanFile, *, request: Request | None = None, target: Target | None = None, version: str = ""
) -> Problem | None:
    """Return the problem that a plan solves, under its own order; None without a memory limit that it keeps to.

    Cells keep the rule that was asked for, or the one that says the most of those that the plan keeps.
    """
    if planned.network is None or planned.memory_limit_bytes is None or planned.degrees is not None:
        return None
    simulation = simulate(planned.network, planned.plan, communication=planned.communication)
    if not simulation.fits(planned.memory_limit_bytes):
        return None
    request = request or Request(
        network=planned.network,
        sizes=planned.plan.sizes,
        memory_limit_bytes=planned.memory_limit_bytes,
        communication=planned.communication,
    )
    return problem_keeping(planned.plan, simulation.timeline.schedule, request=request, target=target, version=version)


def problem_keeping(
    plan: Plan, order: Schedule, *, request: Request, target: Target | None = None, version: str = ""
) -> Problem:
    """Return the problem of `request` under an order that `plan` solves, with the first rule of cells that it keeps."""
    cuts_itself = target is not None and target.abilities(version or target.versions[-1]).decides_cut(plan.num_chunks)
    layers = plan.layers if cuts_itself or request.layers is not None else None
    request = replace(request, sizes=plan.sizes, group_size=plan.group_size, layers=layers)
    problems = [problem_of_order(replace(request, cell_rule=rule), order) for rule in _rules(request, target, version)]
    return next((checked for checked in problems if _holds(checked, plan)), problems[-1])


def curve_points(
    points: Sequence[MemoryPoint], *, timelines: Mapping[int, int] | None = None, changes: Sequence[str] = ()
) -> tuple[CurvePoint, ...]:
    """Return the points of a curve for a page, whose `timelines` are those of points, by index.

    `changes` has for every point what makes the first plan of the page that of the point there (see `change_code`).
    """
    return tuple(
        CurvePoint(
            limit_bytes=point.peak_bytes,
            step_ns=point.step_ns,
            is_proven=point.is_optimal,
            timeline=(timelines or {}).get(index),
            change=changes[index] if changes else "",
        )
        for index, point in enumerate(points)
    )


def _rules(request: Request, target: Target | None, version: str) -> list[CellRule]:
    """Return what cells may hold, the rule that was asked for or that says the most first."""
    if target is not None:
        abilities = target.abilities(version or target.versions[-1])
        return [way.rule for way in recompute_ways(request, abilities) if way.bounds is None]
    return [request.cell_rule, mixing(True), ANY_CONTENT]


def _holds(problem: Problem, plan: Plan) -> bool:
    """Return whether all cells of a plan keep the rule of a problem."""
    return all(problem.may_hold(content) for content in problem.counts(plan))
