"""The verb ``evenflow memory-curve``."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from evenflow.asking import asked_as, optional
from evenflow.baselines.named_plans import NamedPlan
from evenflow.cli.shared import options
from evenflow.cli.shared.decided_plans import curve_points, problem_of_plan
from evenflow.cli.shared.files.input_files import read_plan
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.plan_pictures import plans_html
from evenflow.cli.shared.progress import shown_step
from evenflow.cli.shared.reproducible import may_be_reproducible
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.shared.targets.target_options import VERSION, TargetName, version_of
from evenflow.cli.text.decision_text import decision_sentences
from evenflow.cli.text.memory_curve_text import memory_curve_text, place_of_plan
from evenflow.errors import InputError, Interrupted
from evenflow.export.results.memory_curve_fields import memory_curve_fields
from evenflow.language import _
from evenflow.profiles.plan_file import PlanFile
from evenflow.questions import TIME_LIMIT
from evenflow.report.shown import Advice, Shown
from evenflow.simulate import Simulation
from evenflow.solve.binding import binding_limits
from evenflow.solve.sensitivity import Sensitivity, sensitivity
from evenflow.solve.time_left import TimeLeft
from evenflow.targets.target import Target
from evenflow.units import GIGABYTE, megabytes

_MOST_TIMELINES = 5
"""Timelines of a page: the plan, and those that a reader chooses among."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCurveOptions:
    """What ``evenflow memory-curve`` is asked for beside its file: an option for each field."""

    memory: str | None = field(
        default=None,
        metadata=asked_as(options.MEMORY_TEXT, help="Memory limit of each rank.  [default: that of the plan]"),
    )
    target: Target | None = optional(
        "--target", kind=TargetName(), metavar="NAME", help="Only plans that this framework can run."
    )
    asked_version: str | None = field(default=None, metadata=VERSION)
    time_limit: float = field(
        default=60.0, metadata=asked_as(TIME_LIMIT, help="Stop after this time, with the points found so far.")
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    html_file: Path | None = field(
        default=None,
        metadata=asked_as(
            options.HTML_FILE, help="Write a page for the browser: the curve, whose knees open a plan each."
        ),
    )
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command()
@click.argument("plan", metavar="PLAN.json")
@options_as("request", MemoryCurveOptions)
@may_be_reproducible
def memory_curve(plan: str, request: MemoryCurveOptions) -> int:
    """Say which step every amount of memory allows, as a curve whose points are plans with their proof.

    PLAN.json is a plan file. Its order of work stays. Every point is the shortest plan that needs at most so much
    memory on every rank, from the least that there is a plan for to what makes no step shorter. A knee is a point from
    which on memory buys less time than before. Where limits of single ranks bind, it says what more on one is worth.

    \b
    Examples:
      evenflow memory-curve plan.json
      evenflow memory-curve plan.json --time-limit 300 --json curve.json --html curve.html
    """
    planned = read_plan(plan)
    outputs = Outputs(
        paths_of(request), inputs={_("the input file {file}", file=plan): Path(plan)}, overwrite=request.overwrite
    )
    version = version_of(request.target, request.asked_version)
    if request.memory is not None:
        planned = replace(planned, memory_limit_bytes=options.memory_limit(request.memory))
    problem = problem_of_plan(planned, target=request.target, version=version)
    if problem is None:
        raise _without_limit(planned)
    with shown_step(_("solving one memory limit after the other")):
        worth = sensitivity(
            problem.request,
            planned.plan,
            problem.schedule,
            time_limit_s=TimeLeft.of_command(request.time_limit).seconds,
        )
    if worth is None:
        raise Interrupted(_("interrupted: there is no result yet"))
    plans = tuple(problem.simulate(problem.counts(point.plan)) for point in worth.curve.points)
    decision = decision_sentences(binding_limits(problem, planned.plan), worth)
    outputs.write_json(lambda: memory_curve_fields(worth, plans))
    outputs.write("--html", lambda: _page(problem.simulate(problem.counts(planned.plan)), worth, plans, decision))
    outputs.say(memory_curve_text(worth), "\n".join(decision))
    return 0


def _without_limit(planned: PlanFile) -> InputError:
    """Return why a plan has no curve."""
    if planned.degrees is not None:
        return InputError(
            rule=_("must not be a two-level plan, whose stages have devices of their own"), place="PLAN.json"
        )
    if planned.memory_limit_bytes is None:
        return InputError(
            rule=_("must have a memory limit, at which its curve begins"),
            place="PLAN.json",
            remedy=_("give one with --memory"),
        )
    return InputError(
        value=f"{megabytes(planned.memory_limit_bytes):,.0f} MB",
        rule=_("must be a limit that the plan keeps to"),
        place="--memory",
        remedy=_("give more, or plan for it with evenflow plan"),
    )


def _page(simulation: Simulation, worth: Sensitivity, plans: tuple[Simulation, ...], decision: list[str]) -> str:
    """Return the page: the plan with the curve, and the plans of the knees nearest to its limit, then of others."""
    curve, limit = worth.curve, worth.limit_bytes
    own = place_of_plan(worth)
    others = sorted(
        (index for index in range(len(plans)) if index != own),
        key=lambda index: (index not in curve.knees, abs(curve.points[index].peak_bytes - limit)),
    )
    chosen = sorted(others[: _MOST_TIMELINES - 1])
    timelines = {index: place for place, index in enumerate(chosen, start=1)}

    def decide(of_plans: list[Shown]) -> list[Shown]:
        own_timeline = {} if own is None else {own: 0}
        points = curve_points(curve.points, timelines=timelines | own_timeline)
        advice = tuple(Advice(text=sentence) for sentence in decision)
        return [replace(of_plans[0], decision=advice, curve=points), *of_plans[1:]]

    named = [NamedPlan(name=_("plan"), simulation=simulation)]
    for index in chosen:
        size = f"{curve.points[index].peak_bytes / GIGABYTE:,.1f} GB"
        named.append(NamedPlan(name=size, simulation=plans[index]))
    return plans_html(named, memory_limit_bytes=limit, decide=decide)
