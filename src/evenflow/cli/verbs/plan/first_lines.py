"""What people come for, as the first lines of the answer: the step, what it is beside other plans, and what is next."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from evenflow.baselines.named_plans import NAIVE_PLANS, NamedPlan, naive_plans
from evenflow.cli.text.beside_text import beside_line, step_ns
from evenflow.cli.verbs.plan.plan_job import PlanJob
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.schedule import FAMILIES, default_family
from evenflow.simulate import Simulation, simulate
from evenflow.units import milliseconds

_MOST_ACTIONS = 100_000
"""Actions of a step beyond which no other plan is simulated beside it: that is no part of the time limit."""
_STANDARD_OUTPUT = Path("-")


def first_lines(simulation: Simulation, job: PlanJob) -> list[str]:
    """Return the step, and how much shorter it is than the user's own plan and than equal stages."""
    limit = job.given_limit_bytes
    return [
        _step_line(simulation, job),
        *(beside_line(simulation, name, other, limit) for name, other in _others(simulation, job)),
    ]


def _step_line(simulation: Simulation, job: PlanJob) -> str:
    time_ns, known = step_ns(simulation), job.degrees
    step = _("step {step_ms:,.3f} ms", step_ms=milliseconds(time_ns))
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


def _others(simulation: Simulation, job: PlanJob) -> Iterator[tuple[str, Simulation]]:
    """Yield the plans to compare with, each with what it is: that of the plan file, and equal stages.

    Equal stages recompute nothing; where these do not fit, those that recompute everything come too.
    """
    if simulation.timeline.schedule.num_actions > _MOST_ACTIONS:
        return
    if job.file_plan is not None and (own := _simulated(job.file_plan, simulation)) is not None:
        yield _("the plan of the file"), own
    for named in _equal_stages(simulation, job):
        yield _equal_words(named, simulation), named.simulation


def _simulated(known: Plan, simulation: Simulation) -> Simulation | None:
    """Return the simulation of a plan that is known; None where it is not a plan of the same work."""
    plan = simulation.plan
    if (known.num_microbatches, known.sequence_splits) != (plan.num_microbatches, plan.sequence_splits):
        return None
    try:
        return simulate(simulation.network, known, communication=simulation.communication)
    except InputError:  # it has other layers or ranks
        return None


def _equal_stages(simulation: Simulation, job: PlanJob) -> Sequence[NamedPlan]:
    try:
        made = naive_plans(
            simulation.network,
            simulation.plan.sizes,
            schedule=_family(simulation.plan),
            communication=simulation.communication,
            allow_empty=job.request.allow_empty,
        )
    except InputError:  # the network cannot be cut evenly
        return ()
    by_name = {plan.name: plan for plan in made if isinstance(plan, NamedPlan)}
    recomputing, plain = (by_name.get(name) for name in NAIVE_PLANS)
    if plain is not None and plain.simulation.fits(job.given_limit_bytes):
        return (plain,)
    return [plan for plan in (plain, recomputing) if plan is not None]


def _family(plan: Plan) -> str:
    if plan.order or plan.schedule not in FAMILIES:
        return default_family(num_chunks=plan.num_chunks)
    return plan.schedule


def _equal_words(named: NamedPlan, simulation: Simulation) -> str:
    schedule = named.simulation.plan.schedule
    nothing = not any(named.simulation.plan.recompute.values())
    kind = next(iter(named.simulation.plan.recompute), "")
    words = (
        _("equal stages, nothing recomputed") if nothing else _("equal stages, recompute {kind} everywhere", kind=kind)
    )
    return words if schedule == simulation.plan.schedule else _("{words}, {schedule}", words=words, schedule=schedule)


def next_line(job: PlanJob) -> str:
    """Return the command, or the options, that come next."""
    file, target = job.options.results.json_file, job.options.target
    if job.applied_file is not None:
        return _("next: train with {file}", file=job.applied_file.beside("planned"))
    edits = target is not None and target.apply is not None
    if file is None or file == _STANDARD_OUTPUT:
        if target is None:
            return _("next: --target NAME prints it for your framework, --json plan.json keeps it")
        if edits:
            return _("next: with --json plan.json, evenflow apply plan.json FILE edits your own file")
        return _("next: paste the lines below; --json plan.json keeps the plan")
    if target is None:
        return _("next: evenflow export {file} --to NAME prints it for your framework", file=file)
    if edits:
        return _("next: evenflow apply {file} FILE edits your own file", file=file)
    return _("next: paste the lines below")
