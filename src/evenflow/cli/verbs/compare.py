"""The verb ``evenflow compare``."""

from collections.abc import Sequence
from dataclasses import dataclass
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
from evenflow.cli.shared.files.input_files import read_network
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.message_options import MessageOptions, message_options
from evenflow.cli.shared.plan_pictures import plan_svg, plans_svg
from evenflow.cli.shared.progress import shown_progress
from evenflow.cli.text.block_text import block_to_paste
from evenflow.cli.text.comparison_table import comparison_table
from evenflow.cli.text.plan_text import no_plan_text
from evenflow.cli.text.tables import binding_note
from evenflow.export.results.comparison_fields import RECOMMENDED, comparison_fields
from evenflow.export.results.outcome_fields import outcome_fields
from evenflow.language import _
from evenflow.model import Request, Sizes
from evenflow.schedule import default_family
from evenflow.solve import Outcome

COMPARISON_PICTURE = "comparison.svg"
_ALL = picture_option("all")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """The command line, as click passes it."""

    layers: str
    ranks: int
    microbatches: int
    chunks: int | None
    memory: str | None
    schedule: str | None
    less_memory: bool
    sequence_splits: int
    time_limit: float
    manual: Path | None
    naive: bool
    messages: MessageOptions
    output_folder: Path
    json_file: Path | None
    overwrite: bool


@click.command()
@click.argument("layers", metavar="LAYERS.json")
@options.RANKS
@options.MICROBATCHES
@options.CHUNKS
@options.MEMORY
@options.SCHEDULE
@options.LESS_MEMORY
@options.SEQUENCE_SPLITS
@options.TIME_LIMIT
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
@options.OVERWRITE
def compare(**keywords: Any) -> int:
    """Set the recommended plan beside naive ones and your own, in one table, a picture of each, and one of all.

    FILE.yaml has named entries with offset, recompute, select_recompute, select_comm_recompute, interleave_num, show
    and file_name. An entry with another interleave_num than --chunks runs the default schedule for its chunks.

    Exit status: that of the recommended plan, as for evenflow plan; the others are compared all the same.

    \b
    Example:
      evenflow compare examples/llama2_70b.json --ranks 8 --chunks 2 --microbatches 32 --memory 56GB \\
        --manual examples/manual_70b.yaml
    """
    asked = CompareOptions(**keywords)
    request, schedule = _request(asked)
    others = _others(asked, request, schedule)
    outputs = Outputs(
        {"--json": asked.json_file},
        pictures={
            picture_option(RECOMMENDED): asked.output_folder / RECOMMENDED_PICTURE,
            _ALL: asked.output_folder / COMPARISON_PICTURE,
            **picture_paths(others, asked.output_folder),
        },
        inputs={_("the layer file"): Path(asked.layers), _("the manual file"): asked.manual},
        overwrite=asked.overwrite,
        without_mark=("--json",),
    )
    with shown_progress() as progress:
        outcome = solve.solve(request, schedule=schedule, time_limit_s=asked.time_limit, progress=progress)
    recommended, limit = recommended_plan(outcome), request.memory_limit_bytes
    made = [plan for plan in (recommended, *others) if isinstance(plan, NamedPlan)]
    _print(made, others, outcome, limit)
    fields = outcome_fields(outcome, request.sizes, schedule=schedule)
    outputs.write_json(lambda: comparison_fields(fields, others, limit))
    _draw(made, outputs, limit)
    click.echo(
        _("\nwrote pictures to {output_folder}/", output_folder=asked.output_folder)
        + (_(", numbers to {json_file}", json_file=asked.json_file) if asked.json_file else "")
    )
    return status_code(outcome.status)


def _request(asked: CompareOptions) -> tuple[Request, str]:
    """Return what is solved, and the name of its schedule."""
    limit = options.memory_limit(asked.memory)
    communication = asked.messages.communication(sequence_splits=asked.sequence_splits)
    num_chunks = options.num_chunks(asked.chunks, schedule=asked.schedule)
    schedule = options.schedule_name(asked.schedule, num_chunks=num_chunks, less_memory=asked.less_memory)
    sizes = Sizes(
        num_ranks=asked.ranks,
        num_chunks=num_chunks,
        num_microbatches=asked.microbatches,
        sequence_splits=asked.sequence_splits,
    )
    network = read_network(asked.layers)
    limit = limit if network.has_memory else None
    return Request(network=network, sizes=sizes, memory_limit_bytes=limit, communication=communication), schedule


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
    if outcome.simulation is not None and (block := block_to_paste(outcome.simulation, limit)):
        click.echo(f"\n{RECOMMENDED}:\n{block}")


def _draw(made: Sequence[NamedPlan], outputs: Outputs, limit: int | None) -> None:
    for plan in made:
        outputs.write(picture_option(plan.name), partial(plan_svg, plan, memory_limit_bytes=limit))
    if made:
        outputs.write(_ALL, partial(plans_svg, made, memory_limit_bytes=limit))
