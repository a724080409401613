"""The verb ``evenflow plan``."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from evenflow.baselines.named_plans import NamedPlan
from evenflow.cli.exit_status import status_code
from evenflow.cli.shared.compiling_note import note_compiling
from evenflow.cli.shared.decided_plans import decided
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.memory_margin import certainty_fields, certainty_note
from evenflow.cli.shared.model_config import config_path
from evenflow.cli.shared.plan_pictures import plan_svg, plans_html
from evenflow.cli.shared.progress import shown_progress, shown_step
from evenflow.cli.shared.reproducible import may_be_reproducible
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.shared.targets.script_inputs import check_scripts, may_read_scripts
from evenflow.cli.shared.targets.target_text import block_text
from evenflow.cli.shared.time_budget import TimeBudget
from evenflow.cli.shared.training.configuration_options import ConfigurableCommand
from evenflow.cli.shared.training.configured_model import read_planned_model
from evenflow.cli.shared.training.training_options import options_typed
from evenflow.cli.text.best_text import best_text, elsewhere_text
from evenflow.cli.text.block_text import block_to_paste, without_environment
from evenflow.cli.text.certificate_text import written_line
from evenflow.cli.text.plan_text import no_plan_text, plan_text
from evenflow.cli.text.roomier_text import roomier_text
from evenflow.cli.text.shorter_neighbour_text import neighbour_line, other_option_line, shorter_neighbour
from evenflow.cli.text.tables import binding_note, without_host_note
from evenflow.cli.verbs.plan.first_lines import first_lines, next_line, spread_line
from evenflow.cli.verbs.plan.other_options import seconds_for_others, shorter_by_option
from evenflow.cli.verbs.plan.plan_certificate import OPTION as CERTIFICATE
from evenflow.cli.verbs.plan.plan_certificate import certified, check_certifiable
from evenflow.cli.verbs.plan.plan_job import Answer, PlanJob, in_layers_of_framework, plan_job, solve_job
from evenflow.cli.verbs.plan.plan_options import PlanOptions
from evenflow.cli.verbs.plan.roomier import (
    MOST_LONGER,
    RoomierAnswer,
    check_alternatives,
    roomier_answer,
    seconds_for_alternatives,
)
from evenflow.export.chrome_trace import TracedStep, chrome_trace
from evenflow.export.results.certificate_fields import certificate_file
from evenflow.export.results.outcome_fields import (
    RECOMMENDED,
    best_fields,
    elsewhere_fields,
    neighbour_fields,
    other_option_fields,
    outcome_fields,
    roomier_fields,
)
from evenflow.language import _
from evenflow.profiles.plan_degrees import kept_degrees
from evenflow.profiles.plan_fields import network_fields
from evenflow.schedule import FAMILIES, format_schedule
from evenflow.simulate import Simulation
from evenflow.solve import Neighbours, Outcome
from evenflow.solve.clock import counts_work
from evenflow.targets.frameworks.mindformers.target import TARGET as MINDFORMERS
from evenflow.targets.frameworks.mindformers.values import environment
from evenflow.units import milliseconds


@click.command(cls=ConfigurableCommand)
@click.argument("layers", metavar="LAYERS.json|CONFIG.json")
@options_as("request", PlanOptions)
@may_be_reproducible
@may_read_scripts
def plan(request: PlanOptions) -> int:
    """Find the shortest step of the model in LAYERS.json that fits in memory, and prove how short it can be.

    LAYERS.json is a layer file; - reads it from standard input. A plan file, such as evenflow tune writes, is one too,
    and has the ranks, microbatches, schedule, memory limit and messages that are not given here. CONFIG.json is the
    configuration of a model, as transformers writes it, or the folder that has it: with --accelerator, its layers are
    those that evenflow predict -o writes, and its memory limit and messages follow from the accelerator. --apply takes
    a MindFormers training YAML and writes another beside it, with all that the plan decides and otherwise unchanged.
    With --schedule best, all schedules are tried side by side, with --apply those that MindFormers can run. --schedule
    search looks for the order of work as well, and bounds the step over any order. --group-size best tries every group
    size of an interleaved schedule, and the proof is over all of them.

    Exit status: 0 a plan, 2 bad input, 3 infeasible, 4 no plan in the time given, 130 interrupted, 143 ended.

    \b
    Examples:
      evenflow plan examples/configs/llama3_70b.json --accelerator h100 --tensor 8 --ranks 8 --microbatches 32
      evenflow plan examples/llama2_70b.json --ranks 8 --chunks 2 --microbatches 32 --memory 56GB \\
        --time-limit 60 --json plan.json --svg plan.svg
      evenflow plan examples/llama2_70b.json --ranks 4 --chunks 2 --microbatches 8 --memory 56GB \\
        --layers-per-rank 19,20,20,21 --apply train.yaml
      evenflow plan examples/llama2_70b.json --ranks 4 --microbatches 8 --memory 64GB --schedule best
      evenflow plan examples/llama2_70b.json --ranks 8 --microbatches 32 --memory 56GB --schedule search \\
        --split-backward --order order.csv
      evenflow plan tune.json --json plan.json
    """
    request = request.with_gpipe()
    model = read_planned_model(request, completed=in_layers_of_framework(request))
    model.say_remarks()
    plan_options = model.completed(request, written_out=options_typed())
    job = plan_job(plan_options, model)
    if job.applied_file is None:
        check_scripts()  # nothing of them is read
    outputs = Outputs(
        {
            **paths_of(plan_options),
            "--apply": None if job.applied_file is None else job.applied_file.beside("planned"),
        },
        inputs={
            _("the layer file"): Path(config_path(plan_options.layers)),
            _("the file of --apply"): plan_options.applied_file,
        },
        overwrite=plan_options.overwrite,
        without_mark=("--order",)
        if job.applied_file is None or job.applied_file.has_comments
        else ("--order", "--apply"),
        formats={CERTIFICATE: ".json"},
    )
    check_alternatives(job)
    if outputs.has(CERTIFICATE):
        check_certifiable(job)
    if plan_options.memory is not None and not job.request.network.has_memory:
        click.echo(_("note: the layer file has no memory data, so --memory is not checked"), err=True)
    budget = TimeBudget.of(plan_options.time_limit, outputs, num_actions=job.num_actions)
    job = job.within(budget.search_s / 2 if outputs.has(CERTIFICATE) else budget.search_s)
    with shown_progress(time_limit_s=job.options.time_limit, quiet=plan_options.quiet) as progress:
        others_s, roomier_s = seconds_for_others(job), seconds_for_alternatives(job)
        answer = solve_job(job.within(job.options.time_limit - others_s - roomier_s), progress)
        answer = replace(answer, shorter=shorter_by_option(job, answer.outcome, seconds=others_s, progress=progress))
    roomier = None
    if roomier_s:
        with shown_step(_("looking for plans that leave more memory free")):
            roomier = roomier_answer(job, answer, seconds=roomier_s)
    note_compiling(is_last_word=answer.outcome.status.is_proven)
    try:
        _write(answer, job, outputs, budget, roomier)
    finally:  # a file that fails does not take the plan with it
        _print(answer, job, outputs, roomier)
    return status_code(answer.outcome.status)


def _write(answer: Answer, job: PlanJob, outputs: Outputs, budget: TimeBudget, roomier: RoomierAnswer | None) -> None:
    """Write the files that were asked for; without a plan only the JSON."""
    outcome = answer.outcome
    outputs.write_json(lambda: _fields(answer, job) | _roomier_fields(roomier, outcome))
    simulation, applied = outcome.simulation, job.applied_file
    if simulation is None:
        return

    limit = outcome.memory_limit_bytes
    outputs.warn_of_size(simulation.timeline.schedule.num_actions)

    def named(certificate: str) -> NamedPlan:
        return NamedPlan(name=RECOMMENDED, simulation=simulation, certificate=certificate)

    def page() -> str:
        plans = [named(outcome.certificate())]
        decide = partial(
            decided,
            request=replace(
                job.request,
                network=replace(
                    job.request.network,
                    ranks=simulation.network.ranks,
                    host_link=simulation.network.host_link,
                ),
                layers=job.request.layers if job.contest.layers is None else simulation.plan.layers,
            ),
            target=job.options.target,
            version=job.version,
            time_limit_s=budget.decision_s,
            lower_bound_ns=outcome.lower_bound_ns,
        )
        return plans_html(plans, memory_limit_bytes=limit, files=[_fields(answer, job)], decide=decide)

    outputs.write("--svg", lambda: plan_svg(named(outcome.certificate().splitlines()[0]), memory_limit_bytes=limit))
    outputs.write("--html", page)
    most = outputs.most_traced(simulation.timeline.schedule.num_actions, seconds=budget.left.seconds)

    def trace() -> str:
        return chrome_trace([TracedStep.of(simulation, memory_limit_bytes=limit)], most_actions=most)

    outputs.write("--trace", trace)
    outputs.write("--order", lambda: format_schedule(simulation.timeline.schedule))
    if outputs.has(CERTIFICATE):
        certificate = certified(job, simulation, seconds=budget.search_s)
        if certificate is not None:
            outputs.write(CERTIFICATE, partial(certificate_file, certificate))
            click.echo(written_line(certificate, outcome.lower_bound_ns), err=True)
    if applied is not None:
        after = applied.applied(simulation.plan)
        check_scripts()
        outputs.write("--apply", lambda: after, mark_first_line=True)
        if applied.target is MINDFORMERS:
            _note_environment(simulation, limit)


def _note_environment(simulation: Simulation, memory_limit_bytes: int | None) -> None:
    """Say what has no key in a training YAML."""
    for name, value in environment(simulation.plan).items():
        note = _(
            "note: this order has no key in the YAML: set {setting}; without it {consequence}",
            setting=f"{name}={value}",
            consequence=without_environment(simulation, memory_limit_bytes),
        )
        click.echo(note, err=True)


def _fields(answer: Answer, job: PlanJob) -> dict[str, object]:
    sizes = job.request.sizes
    if answer.best is not None:
        fields = best_fields(answer.best, sizes, schedule=job.schedule)
    else:
        fields = outcome_fields(answer.outcome, sizes, schedule=job.schedule)
    if answer.neighbours is not None:
        fields |= neighbour_fields(answer.neighbours, sizes)
    fields |= job.extrapolation
    if job.options.target is not None:
        fields |= {"target": job.options.target.name, "target_version": job.version}
    if answer.kept is not None:
        kept_ns = answer.kept.makespan_ns
        fields["makespan_without_host_ms"] = None if kept_ns is None else milliseconds(kept_ns)
    if answer.elsewhere is not None:
        fields["elsewhere"] = elsewhere_fields(answer.elsewhere)
    if answer.shorter:
        fields["shorter_with"] = [other_option_fields(other.options, other.outcome) for other in answer.shorter]
    if job.degrees is not None and answer.outcome.plan is not None:
        fields |= kept_degrees(job.degrees, answer.outcome.plan)
    simulation = answer.outcome.simulation
    if simulation is None:
        return fields
    return fields | certainty_fields(simulation, limit_bytes=job.given_limit_bytes) | network_fields(simulation)


def _roomier_fields(roomier: RoomierAnswer | None, outcome: Outcome) -> dict[str, object]:
    if roomier is None or outcome.memory_limit_bytes is None:
        return {}
    plans = [(plan.simulation, plan.lower_bound_ns) for plan in roomier.plans]
    return roomier_fields(plans, outcome.memory_limit_bytes, roomier.most_free_bytes)


def _print(answer: Answer, job: PlanJob, outputs: Outputs, roomier: RoomierAnswer | None) -> None:
    quiet = job.options.quiet
    outcome, simulation = answer.outcome, answer.outcome.simulation
    others = best_text(answer.best, target=job.options.target) if answer.best and not quiet else ""
    if answer.elsewhere is not None and not quiet:
        others = "\n".join(filter(None, (others, elsewhere_text(answer.elsewhere, outcome))))
    neighbours = answer.neighbours or Neighbours()
    if simulation is None:
        reason = "\n".join(filter(None, (no_plan_text(outcome), spread_line(job, outcome))))
        click.echo("\n\n".join(filter(None, (reason, others))), err=True)
        if outputs.sentence and not quiet:
            click.echo(outputs.sentence, err=True)
        return
    if job.options.target is not None:
        network = simulation.network
        block = block_text(job.options.target, job.version, simulation.plan, network=network, quiet=quiet)
    elif quiet or job.applied_file is not None:
        block = block_to_paste(simulation, outcome.memory_limit_bytes)
    else:
        block = ""
    if quiet:
        click.echo(block, nl=bool(block))
        return
    seconds = outcome.solve_seconds
    spent = (
        _(" (solved with {seconds:.1f} s of work)", seconds=seconds)
        if counts_work()
        else _(" (solved in {seconds:.1f} s)", seconds=seconds)
    )
    certificate = outcome.certificate() + spent
    kept = without_host_note(answer.kept, outcome)
    binding = binding_note(outcome, same_without_limit=neighbours.same_without_limit)
    sure = certainty_note(simulation, limit_bytes=job.given_limit_bytes, confidence=job.options.confidence)
    notes = "\n".join(filter(None, (kept, binding, sure)))
    answered = plan_text(
        simulation,
        outcome.memory_limit_bytes,
        certificate=certificate,
        first=first_lines(simulation, job),
        ahead=(_shorter(answer), next_line(job, simulation)),
        binding=notes,
        rank_order=outcome.rank_order,
    )
    freer = ""
    if roomier is not None and outcome.memory_limit_bytes is not None:
        freer = roomier_text(
            roomier.plans,
            simulation,
            limit_bytes=outcome.memory_limit_bytes,
            percent=100 * MOST_LONGER,
            most_free_bytes=roomier.most_free_bytes,
        )
    outputs.say(answered, others, freer, block)


def _shorter(answer: Answer) -> str:
    """Return the line on the shortest plan that one option more, or another one, allows; empty without any."""
    outcome = answer.outcome
    if answer.shorter:
        return other_option_line(answer.shorter[0], outcome)
    shorter = shorter_neighbour(answer.neighbours or Neighbours(), outcome)
    if shorter is None or shorter.outcome is None:
        return ""
    chunks = "" if FAMILIES[shorter.schedule].num_chunks else f" --chunks {shorter.num_chunks}"
    return neighbour_line(shorter.outcome, outcome, options=f"--schedule {shorter.schedule}{chunks}")
