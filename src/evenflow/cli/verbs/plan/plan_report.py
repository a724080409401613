"""The report page of ``evenflow plan``, with what more or less memory is worth and what to copy to run the plan."""

from collections.abc import Mapping
from dataclasses import replace

from evenflow.baselines.named_plans import NamedPlan
from evenflow.cli.shared.plan_pictures import plans_html
from evenflow.cli.shared.progress import shown_progress
from evenflow.cli.shared.targets.run_blocks import run_blocks
from evenflow.cli.text.decision_text import decision_sentences
from evenflow.cli.verbs.plan.plan_job import PlanJob
from evenflow.interruption import was_interrupted
from evenflow.model import CellRule, Plan, Request
from evenflow.profiles.plan_file import PlanFile
from evenflow.schedule import Schedule
from evenflow.solve import Outcome
from evenflow.solve.problem import problem_of_order
from evenflow.solve.recompute_ways import recompute_ways
from evenflow.solve.sensitivity import Sensitivity, sensitivity

_MOST_SECONDS = 10.0
_SHARE = 0.25
"""Share of the time limit that each of the two parts beside the search may take."""


def plan_page(outcome: Outcome, named: NamedPlan, job: PlanJob, *, fields: Mapping[str, object], quiet: bool) -> str:
    """Return the page of a plan; `fields` are those of its plan file. After Ctrl-C it has the plan alone."""
    plan, simulation = named.simulation.plan, named.simulation
    seconds = min(_MOST_SECONDS, _SHARE * job.time_limit_s)
    order = simulation.timeline.schedule
    worth: Sensitivity | None = None
    if outcome.memory_limit_bytes is not None:
        request = _request_of(job, plan, order)
        with shown_progress(quiet=quiet) as progress:
            worth = sensitivity(request, plan, order, time_limit_s=seconds, progress=progress)
    planned = PlanFile(
        plan=plan,
        network=simulation.network,
        communication=simulation.communication,
        memory_limit_bytes=outcome.memory_limit_bytes,
        degrees=job.degrees,
    )
    blocks = [] if was_interrupted() else run_blocks(planned, first=job.target, time_limit_s=seconds)
    return plans_html(
        [named],
        memory_limit_bytes=outcome.memory_limit_bytes,
        files=[fields],
        decision=decision_sentences(outcome, worth),
        run=blocks,
    )


def _request_of(job: PlanJob, plan: Plan, order: Schedule) -> Request:
    """Return what was asked for, for the schedule and the ways of recomputing of the plan that was found."""
    has_layers = job.kept_layers is not None
    request = replace(
        job.request, sizes=plan.sizes, group_size=plan.group_size, layers=plan.layers if has_layers else None
    )
    if job.target is None:
        return request
    abilities = job.target.abilities(job.version)
    request = replace(request, layers=plan.layers if has_layers or abilities.even_cut else None)
    rules = [way.rule for way in recompute_ways(request, abilities) if way.bounds is None]
    return replace(request, cell_rule=next((rule for rule in rules if _holds(request, rule, plan, order)), rules[0]))


def _holds(request: Request, rule: CellRule, plan: Plan, order: Schedule) -> bool:
    """Return whether all cells of a plan keep a rule."""
    problem = problem_of_order(replace(request, cell_rule=rule), order)
    return all(problem.may_hold(content) for content in problem.counts(plan))
