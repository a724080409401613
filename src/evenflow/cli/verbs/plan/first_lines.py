"""What people come for, as the first lines of the answer: the step, what it is beside other plans, and what is next."""

from dataclasses import replace
from pathlib import Path

from evenflow.cli.shared.model_config import config_path
from evenflow.cli.text.beside_text import beside_line, step_line, step_ns
from evenflow.cli.text.equal_stages_text import MOST_ACTIONS, equal_stages_lines
from evenflow.cli.text.next_text import export_line
from evenflow.cli.verbs.plan.plan_job import PlanJob
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.simulate import Simulation, simulate
from evenflow.solve import Outcome

_STANDARD_OUTPUT = Path("-")


def first_lines(simulation: Simulation, job: PlanJob) -> list[str]:
    """Return the step, and how much shorter it is than the user's own plan and than equal stages."""
    limit = job.given_limit_bytes
    own = [] if job.file_plan is None else [_simulated(job.file_plan, simulation)]
    return [
        _step_line(simulation, job),
        *(beside_line(simulation, _("the plan of the file"), other, limit) for other in own if other is not None),
        *equal_stages_lines(simulation, limit, allow_empty=job.request.allow_empty),
    ]


def _step_line(simulation: Simulation, job: PlanJob) -> str:
    time_ns, known = step_ns(simulation), job.degrees
    step = step_line(simulation)
    if not isinstance(known, PlannedDegrees):
        return step
    # At most: the optimizer, and exchanges between copies of the pipeline, come on top.
    plan = simulation.plan
    sequences = plan.num_microbatches * known.microbatch * known.degrees.data
    devices = replace(known.degrees, pipeline=plan.num_ranks, chunks=plan.num_chunks).devices
    return _(
        "{step}, at most {tokens:,.1f} tokens/s per device",
        step=step,
        tokens=sequences * known.sequence / (time_ns / 1e9) / devices,
    )


def _simulated(known: Plan, simulation: Simulation) -> Simulation | None:
    """Return the simulation of a plan that is known; None where it is of other work, or long to simulate."""
    plan = simulation.plan
    if simulation.timeline.schedule.num_actions > MOST_ACTIONS:
        return None
    if (known.num_microbatches, known.sequence_splits) != (plan.num_microbatches, plan.sequence_splits):
        return None
    try:
        return simulate(simulation.network, known, communication=simulation.communication)
    except InputError:  # it has other layers or ranks
        return None


def spread_line(job: PlanJob, outcome: Outcome) -> str:
    """Return how a configuration of which no plan fits goes on more devices; empty for anything else."""
    if outcome.infeasibility is None or job.file_plan is not None or not isinstance(job.degrees, PlannedDegrees):
        return ""
    return _(
        "next: --tensor, or --expert with --data, gives each rank more devices; evenflow tune --model {file} chooses "
        "among all ways to split the training",
        file=config_path(job.options.layers),
    )


def next_line(job: PlanJob, simulation: Simulation) -> str:
    """Return the command, or the options, that come next."""
    file, target = job.options.results.json_file, job.options.target
    if job.applied_file is not None:
        return _("next: train with {file}", file=job.applied_file.beside("planned"))
    if job.request.network.encodes_apart or any(simulation.pool_bytes):
        return export_line(file, simulation)
    edits = target is not None and target.apply is not None
    if file is None or file == _STANDARD_OUTPUT:
        if target is None:
            return _("next: --target NAME prints it for your framework, --json plan.json keeps it")
        if edits:
            return _("next: with --json plan.json, evenflow apply plan.json FILE edits your own file")
        return _("next: paste the lines below; --json plan.json keeps the plan")
    if target is None:
        return export_line(file, simulation)
    if edits:
        return _("next: evenflow apply {file} FILE edits your own file", file=file)
    return _("next: paste the lines below")
