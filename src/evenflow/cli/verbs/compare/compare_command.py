"""The verb ``evenflow compare``."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from evenflow.baselines.named_plans import NamedPlan, Skipped, naive_plans
from evenflow.cli.exit_status import status_code
from evenflow.cli.shared.compared_plans import (
    RECOMMENDED_PICTURE,
    manual_plans,
    picture_option,
    picture_paths,
    recommended_plan,
)
from evenflow.cli.shared.compiling_note import note_compiling
from evenflow.cli.shared.decided_plans import decided
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.memory_margin import certainty_fields, certainty_note
from evenflow.cli.shared.model_config import config_path
from evenflow.cli.shared.plan_pictures import plan_svg, plans_html, plans_svg
from evenflow.cli.shared.progress import shown_progress
from evenflow.cli.shared.reproducible import may_be_reproducible
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.shared.targets.script_inputs import check_scripts, may_read_scripts
from evenflow.cli.shared.time_budget import TimeBudget
from evenflow.cli.shared.training.configuration_options import ConfigurableCommand
from evenflow.cli.shared.training.configured_model import read_planned_model
from evenflow.cli.text.block_text import block_to_paste
from evenflow.cli.text.comparison_table import comparison_table
from evenflow.cli.text.next_text import target_line
from evenflow.cli.text.plan_text import no_plan_text
from evenflow.cli.text.tables import binding_note
from evenflow.cli.verbs.compare.baseline import BASELINE, YOURS
from evenflow.cli.verbs.compare.compare_options import CompareOptions, as_in_baseline, compare_job
from evenflow.cli.verbs.compare.recommendation import recommended, shorter_notes
from evenflow.export.chrome_trace import TracedStep, chrome_trace
from evenflow.export.results.outcome_fields import RECOMMENDED, comparison_fields, outcome_fields
from evenflow.language import _
from evenflow.model import Plan, Request
from evenflow.profiles.plan_fields import network_fields
from evenflow.schedule import default_family
from evenflow.simulate import simulate
from evenflow.solve import Outcome

COMPARISON_PICTURE = "comparison.svg"
GIVEN = "given"
"""Name of the plan of a plan file among the plans."""
_ALL = picture_option("all")


@click.command(cls=ConfigurableCommand)
@click.argument("layers", metavar="LAYERS.json|CONFIG.json")
@options_as("compare_options", CompareOptions)
@may_be_reproducible
@may_read_scripts
def compare(compare_options: CompareOptions) -> int:
    """Set the recommended plan beside naive ones and your own, in one table, a picture of each, and one of all.

    LAYERS.json may be a plan file, or a report: its plan is compared too, and its sizes, schedule, memory limit and
    messages hold where no option gives others. CONFIG.json is the configuration of a model, as for evenflow plan.

    FILE.yaml has named entries with offset, recompute, select_recompute, select_comm_recompute, interleave_num, show
    and file_name. An entry with another interleave_num than --chunks runs the default schedule for its chunks.

    With --baseline, sizes and schedule are those of the file unless options give others, and the recommended plan is
    one that the file's framework can run; --schedule best tries all its schedules. What to change in the file is shown.

    Exit status: that of the recommended plan, as for evenflow plan; the others are compared all the same.

    \b
    Examples:
      evenflow compare examples/llama2_70b.json --ranks 8 --chunks 2 --microbatches 32 --memory 56GB \\
        --manual examples/manual_70b.yaml
      evenflow compare layers.json --memory 56GB --baseline pretrain.sh
    """
    model = read_planned_model(compare_options, completed=as_in_baseline(compare_options))
    model.say_remarks()
    job = compare_job(compare_options, model)
    check_scripts()
    request, limit = job.request, job.given_limit_bytes
    yours = None if job.baseline is None else job.baseline.simulated(request.network, request.communication)
    file_plans = [] if job.file_plan is None else [_of_file(job.file_plan, request)]
    others = [*([yours] if yours else []), *file_plans, *_others(compare_options, request, job.schedule)]
    outputs = Outputs(
        paths_of(compare_options),
        pictures={
            picture_option(RECOMMENDED): compare_options.output_folder / RECOMMENDED_PICTURE,
            _ALL: compare_options.output_folder / COMPARISON_PICTURE,
            **picture_paths(others, compare_options.output_folder),
        },
        inputs={
            _("the layer file"): Path(config_path(compare_options.layers)),
            _("the manual file"): compare_options.manual,
            _("the file of {option}", option=BASELINE): compare_options.baseline_file,
        },
        overwrite=compare_options.overwrite,
        without_mark=("--json",),
    )
    drawn = [plan.simulation.timeline.schedule.num_actions for plan in others if isinstance(plan, NamedPlan)]
    actions = max(drawn, default=0) * (len(drawn) + 1)  # the recommended plan has about as many as the longest
    budget = TimeBudget.of(compare_options.time_limit, outputs, num_actions=actions)
    with shown_progress(time_limit_s=budget.search_s) as progress:
        beside = [plan for plan in others if isinstance(plan, NamedPlan)]
        outcome = recommended(job, beside, time_limit_s=budget.search_s, progress=progress)
    note_compiling(is_last_word=outcome.status.is_proven)
    made = [plan for plan in (recommended_plan(outcome), *beside) if plan is not None]
    _print(made, others, outcome, limit)
    for note in shorter_notes(job, beside, outcome):
        click.echo(note, err=True)
    if job.baseline is not None and yours is not None:
        job.baseline.print_notes()
        if not job.tries_all and (note := job.baseline.in_pairs(yours.simulation, limit)):
            click.echo(note, err=True)
    if outcome.simulation is not None and job.baseline is not None and yours is not None:
        click.echo(f"\n{job.baseline.advice(yours.simulation, outcome.simulation, limit)}")
    elif outcome.simulation is not None and compare_options.manual is None:
        click.echo(f"\n{RECOMMENDED}: {target_line()}")
    elif outcome.simulation is not None and (block := block_to_paste(outcome.simulation, limit)):
        click.echo(f"\n{RECOMMENDED}:\n{block}")  # a manual file has plans in MindFormers' words
    fields = outcome_fields(outcome, request.sizes, schedule=job.schedule)  # the latter where there is no plan
    if outcome.simulation is not None:
        fields |= certainty_fields(outcome.simulation, limit_bytes=limit)
    notes = {} if job.baseline is None else {YOURS: job.baseline.note_fields()}
    outputs.write_json(lambda: comparison_fields(fields, others, limit, notes=notes))
    actions = sum(plan.simulation.timeline.schedule.num_actions for plan in made)
    outputs.warn_of_size(actions)
    most = outputs.most_traced(actions, seconds=budget.left.seconds)

    def trace() -> str:
        steps = [TracedStep.of(plan.simulation, name=plan.name, memory_limit_bytes=limit) for plan in made]
        return chrome_trace(steps, most_actions=most)

    outputs.write("--trace", trace)
    _draw(made, outputs, limit)
    if made:
        files = [] if outcome.simulation is None else [fields | network_fields(outcome.simulation)]
        decide = partial(
            decided,
            request=request,
            target=None if job.baseline is None else job.baseline.target,
            version="" if job.baseline is None else job.baseline.version,
            time_limit_s=budget.decision_s,
        )
        outputs.write("--html", lambda: plans_html(made, memory_limit_bytes=limit, files=files, decide=decide))
    click.echo(
        _("\nwrote pictures to {output_folder}/", output_folder=compare_options.output_folder)
        + (_(", numbers to {json_file}", json_file=compare_options.json_file) if compare_options.json_file else "")
        + (
            _(", a report to {html_file}", html_file=compare_options.html_file)
            if made and compare_options.html_file
            else ""
        )
        + (
            _(", timelines to {trace_file}", trace_file=compare_options.trace_file)
            if compare_options.trace_file
            else ""
        )
    )
    return status_code(outcome.status)


def _of_file(plan: Plan, request: Request) -> NamedPlan:
    """Return the plan of the plan file."""
    simulation = simulate(request.network, plan, communication=request.communication)
    return NamedPlan(name=GIVEN, simulation=simulation, picture=f"{GIVEN}.svg")


def _others(compare_options: CompareOptions, request: Request, schedule: str) -> list[NamedPlan | Skipped]:
    """Return the plans to compare with."""
    network, sizes, communication = request.network, request.sizes, request.communication
    others = (
        naive_plans(network, sizes, schedule=schedule, communication=communication, allow_empty=request.allow_empty)
        if compare_options.naive
        else []
    )
    if compare_options.manual is None:
        return others

    def schedule_of(num_chunks: int) -> str:
        if num_chunks == sizes.num_chunks:
            return schedule
        return default_family(num_chunks=num_chunks, less_memory=compare_options.less_memory)

    return others + manual_plans(
        compare_options.manual,
        network,
        sizes,
        communication=communication,
        always_draw=True,
        schedule_of_chunks=schedule_of,
    )


def _print(
    made: Sequence[NamedPlan], others: Sequence[NamedPlan | Skipped], outcome: Outcome, limit: int | None
) -> None:
    if outcome.simulation is None:
        click.echo(no_plan_text(outcome), err=True)
    else:
        sure = certainty_note(outcome.simulation, limit_bytes=limit, confidence=None)
        notes = filter(None, (f"{RECOMMENDED}: {outcome.certificate()}", binding_note(outcome), sure))
        click.echo("\n".join(notes) + "\n")
    if made:
        click.echo(comparison_table(made, limit))
    for other in others:
        if isinstance(other, Skipped):
            click.echo(_("{name} is skipped: {reason}", name=other.name, reason=other.reason))
        elif other.certificate:
            click.echo(f"{other.name}: {other.certificate}")


def _draw(made: Sequence[NamedPlan], outputs: Outputs, limit: int | None) -> None:
    for plan in made:
        outputs.write(picture_option(plan.name), partial(plan_svg, plan, memory_limit_bytes=limit))
    if made:
        outputs.write(_ALL, partial(plans_svg, made, memory_limit_bytes=limit))
