"""The verb ``evenflow compare``."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from evenflow import solve
from evenflow.baselines.named_plans import NamedPlan, Skipped, naive_plans
from evenflow.cli.exit_status import status_code
from evenflow.cli.shared import options
from evenflow.cli.shared.compared_plans import (
    RECOMMENDED_PICTURE,
    manual_plans,
    picture_option,
    picture_paths,
    recommended_plan,
)
from evenflow.cli.shared.decided_plans import MOST_SECONDS, decided
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.message_options import message_options
from evenflow.cli.shared.plan_pictures import plan_svg, plans_html, plans_svg
from evenflow.cli.shared.progress import shown_progress
from evenflow.cli.shared.targets import target_options
from evenflow.cli.text.block_text import block_to_paste
from evenflow.cli.text.comparison_table import comparison_table
from evenflow.cli.text.plan_text import no_plan_text
from evenflow.cli.text.tables import binding_note
from evenflow.cli.verbs.compare.baseline import BASELINE, BASELINE_OF
from evenflow.cli.verbs.compare.compare_options import CompareJob, CompareOptions, compare_job
from evenflow.export.chrome_trace import TracedStep, chrome_trace
from evenflow.export.results.comparison_fields import RECOMMENDED, comparison_fields
from evenflow.export.results.network_fields import network_fields
from evenflow.export.results.outcome_fields import outcome_fields
from evenflow.language import _
from evenflow.model import Plan, Request
from evenflow.schedule import default_family
from evenflow.simulate import simulate
from evenflow.solve import Outcome, ProgressCallback
from evenflow.solve.for_target import solve_for_target

COMPARISON_PICTURE = "comparison.svg"
GIVEN = "given"
"""Name of the plan of a plan file among the plans."""
_ALL = picture_option("all")


@click.command()
@click.argument("layers", metavar="LAYERS.json")
@click.option("--ranks", type=options.RANK_COUNT, help="Pipeline ranks; known from --baseline.")
@click.option("--microbatches", type=options.MICROBATCH_COUNT, help="Microbatches of one step; known from --baseline.")
@options.CHUNKS
@options.MEMORY
@click.option(
    "--schedule",
    metavar="NAME",
    help="One of `evenflow schedules`, such as zb-h1; with --baseline also best, to try all that its framework has.  "
    "[default: that of --baseline, or 1f1b, or interleaved for several chunks]",
)
@options.LESS_MEMORY
@options.SEQUENCE_SPLITS
@options.TIME_LIMIT
@click.option(
    BASELINE,
    "baseline_file",
    type=options.FILE,
    metavar="FILE",
    help="Also compare what you run today: a configuration or script of your framework, which is planned for.",
)
@target_options.target_option(BASELINE_OF, help="Framework of that file.  [default: the one that is recognised]")
@click.option("--manual", type=options.FILE, metavar="FILE.yaml", help="Also compare your own plans, from this file.")
@click.option(
    "--naive/--no-naive",
    default=True,
    show_default=True,
    help="Also compare layers dealt evenly, with everything recomputed and with nothing.",
)
@message_options
@click.option(
    "--output-folder",
    type=options.FILE,
    default="output",
    show_default=True,
    metavar="DIR",
    help="Folder that pictures are written to.",
)
@options.JSON
@options.HTML
@options.TRACE
@options.OVERWRITE
def compare(**keywords: Any) -> int:
    """Set the recommended plan beside naive ones and your own, in one table, a picture of each, and one of all.

    LAYERS.json may be a plan file, or a report: its plan is compared too, and its sizes, schedule, memory limit and
    messages hold where no option gives others.

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
    asked = CompareOptions(**keywords)
    job = compare_job(asked)
    request, limit = job.request, job.request.memory_limit_bytes
    yours = None if job.baseline is None else job.baseline.simulated(request.network, request.communication)
    given = [] if job.given is None else [_given(job.given, request)]
    others = [*([yours] if yours else []), *given, *_others(asked, request, job.schedule)]
    outputs = Outputs(
        {"--json": asked.json_file, "--html": asked.html_file, "--trace": asked.trace_file},
        pictures={
            picture_option(RECOMMENDED): asked.output_folder / RECOMMENDED_PICTURE,
            _ALL: asked.output_folder / COMPARISON_PICTURE,
            **picture_paths(others, asked.output_folder),
        },
        inputs={
            _("the layer file"): Path(asked.layers),
            _("the manual file"): asked.manual,
            _("the file of {option}", option=BASELINE): asked.baseline_file,
        },
        overwrite=asked.overwrite,
        without_mark=("--json",),
    )
    with shown_progress() as progress:
        outcome = _solve(job, asked.time_limit, progress)
    recommended = recommended_plan(outcome)
    made = [plan for plan in (recommended, *others) if isinstance(plan, NamedPlan)]
    _print(made, others, outcome, limit)
    if job.baseline is not None and yours is not None:
        job.baseline.print_notes()
    if outcome.simulation is not None and job.baseline is not None and yours is not None:
        click.echo(f"\n{job.baseline.advice(yours.simulation, outcome.simulation, limit)}")
    elif outcome.simulation is not None and (block := block_to_paste(outcome.simulation, limit)):
        click.echo(f"\n{RECOMMENDED}:\n{block}")
    fields = outcome_fields(outcome, request.sizes, schedule=job.schedule)
    outputs.write_json(lambda: comparison_fields(fields, others, limit))
    traced = [TracedStep.of(plan.simulation, name=plan.name, memory_limit_bytes=limit) for plan in made]
    outputs.write("--trace", lambda: chrome_trace(traced))
    _draw(made, outputs, limit)
    if made:
        files = [] if outcome.simulation is None else [fields | network_fields(outcome.simulation)]
        decide = partial(
            decided,
            asked=request,
            target=None if job.baseline is None else job.baseline.target,
            version="" if job.baseline is None else job.baseline.version,
            time_limit_s=min(MOST_SECONDS, 0.25 * asked.time_limit),
        )
        outputs.write("--html", lambda: plans_html(made, memory_limit_bytes=limit, files=files, decide=decide))
    click.echo(
        _("\nwrote pictures to {output_folder}/", output_folder=asked.output_folder)
        + (_(", numbers to {json_file}", json_file=asked.json_file) if asked.json_file else "")
        + (_(", a report to {html_file}", html_file=asked.html_file) if made and asked.html_file else "")
        + (_(", timelines to {trace_file}", trace_file=asked.trace_file) if asked.trace_file else "")
    )
    return status_code(outcome.status)


def _solve(job: CompareJob, time_limit_s: float, progress: ProgressCallback | None) -> Outcome:
    """Return the best plan, with a baseline among those that its framework can run."""
    if job.baseline is None:
        return solve.solve(job.request, schedule=job.schedule, time_limit_s=time_limit_s, progress=progress)
    target = job.baseline.target
    return solve_for_target(
        job.request,
        target.abilities(job.baseline.version),
        title=target.title,
        schedules=() if job.tries_all else (job.schedule,),
        num_chunks=job.chunk_counts,
        time_limit_s=time_limit_s,
        progress=progress,
    ).outcome


def _given(plan: Plan, request: Request) -> NamedPlan:
    """Return the plan of the plan file."""
    simulation = simulate(request.network, plan, communication=request.communication)
    return NamedPlan(name=GIVEN, simulation=simulation, picture=f"{GIVEN}.svg")


def _others(asked: CompareOptions, request: Request, schedule: str) -> list[NamedPlan | Skipped]:
    """Return the plans to compare with."""
    network, sizes, communication = request.network, request.sizes, request.communication
    others = naive_plans(network, sizes, schedule=schedule, communication=communication) if asked.naive else []
    if asked.manual is None:
        return others

    def schedule_of(num_chunks: int) -> str:
        if num_chunks == sizes.num_chunks:
            return schedule
        return default_family(num_chunks=num_chunks, less_memory=asked.less_memory)

    return others + manual_plans(
        asked.manual,
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
        click.echo("\n".join(filter(None, (f"{RECOMMENDED}: {outcome.certificate()}", binding_note(outcome)))) + "\n")
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
