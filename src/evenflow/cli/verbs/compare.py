"""The verb ``evenflow compare``."""

from collections.abc import Sequence
from pathlib import Path

import click

from evenflow import solve
from evenflow.cli.shared import options
from evenflow.cli.shared.output_files import check_outputs, write_text
from evenflow.cli.shared.progress import shown_progress
from evenflow.cli.shared.strategies import (
    RECOMMENDED,
    RECOMMENDED_PICTURE,
    Skipped,
    Strategy,
    manual_strategies,
    naive_strategies,
    pictures,
)
from evenflow.cli.shared.write_pictures import write_comparison, write_picture
from evenflow.cli.status import status_code
from evenflow.cli.text.comparison_table import comparison_table
from evenflow.cli.text.plan_text import no_plan_text
from evenflow.export.results.json_text import format_object
from evenflow.export.results.outcome_fields import outcome_fields
from evenflow.export.results.plan_fields import simulation_fields
from evenflow.model import Request, Sizes
from evenflow.schedule import default_family
from evenflow.solve import Outcome

COMPARISON_PICTURE = "comparison.svg"


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
@click.option("--manual", type=options.FILE, metavar="FILE.yaml", help="Strategies of your own to compare.")
@click.option(
    "--naive/--no-naive",
    default=True,
    show_default=True,
    help="Compare equal cells with everything recomputed, and with nothing.",
)
@options.p2p_options
@click.option(
    "--output-folder", type=options.FILE, default="output", show_default=True, metavar="DIR", help="Where pictures go."
)
@options.JSON
def compare(
    layers: str,
    ranks: int,
    microbatches: int,
    chunks: int | None,
    memory: str | None,
    schedule: str | None,
    less_memory: bool,
    sequence_splits: int,
    time_limit: float,
    manual: Path | None,
    naive: bool,
    p2p_latency_us: float | None,
    p2p_bandwidth_gbps: float | None,
    boundary_mb: float | None,
    output_folder: Path,
    json_file: Path | None,
) -> int:
    """Set the recommended plan beside naive ones and your own: one table, a picture of each, and one of all.

    FILE.yaml has named entries with offset, recompute, select_recompute, select_comm_recompute, interleave_num, show
    and file_name. An entry with another interleave_num than --chunks runs the default schedule for its chunks.

    Exit status: that of the recommended plan, as for evenflow plan; the others are compared all the same.

    \b
    Example:
      evenflow compare examples/llama2_70b.json --ranks 8 --chunks 2 --microbatches 32 --memory 56GB \\
        --manual examples/manual_70b.yaml
    """
    limit = options.memory_limit(memory)
    messages = options.communication(p2p_latency_us, p2p_bandwidth_gbps, boundary_mb, sequence_splits=sequence_splits)
    num_chunks = options.num_chunks(chunks, schedule=schedule)
    family = options.schedule_name(schedule, num_chunks=num_chunks, less_memory=less_memory)
    sizes = Sizes(
        num_ranks=ranks,
        num_chunks=num_chunks,
        num_microbatches=microbatches,
        sequence_splits=sequence_splits,
    )
    network = options.read_network(layers)
    if not network.has_memory:
        limit = None
    others = naive_strategies(network, sizes, schedule=family, communication=messages) if naive else []
    if manual is not None:
        others += manual_strategies(
            manual,
            network,
            sizes,
            communication=messages,
            always_draw=True,
            schedule_of_chunks=lambda count: (
                family if count == num_chunks else default_family(num_chunks=count, less_memory=less_memory)
            ),
        )
    _check_files(layers, manual, output_folder, json_file, others)
    with shown_progress() as progress:
        request = Request(network=network, sizes=sizes, memory_limit_bytes=limit, communication=messages)
        outcome = solve.solve(request, schedule=family, time_limit_s=time_limit, progress=progress)
    strategies = [*_recommended(outcome), *(other for other in others if isinstance(other, Strategy))]
    _print(strategies, others, outcome, limit)
    if json_file is not None:
        write_text(
            json_file,
            format_object(_fields(outcome_fields(outcome, sizes, schedule=family), others, limit)),
            option="--json",
        )
    _draw(strategies, output_folder, limit)
    click.echo(f"\nwrote pictures to {output_folder}/" + (f", numbers to {json_file}" if json_file else ""))
    return status_code(outcome.status)


def _recommended(outcome: Outcome) -> list[Strategy]:
    if outcome.simulation is None:
        return []
    return [
        Strategy(
            name=RECOMMENDED, simulation=outcome.simulation, picture=RECOMMENDED_PICTURE,
            certificate=outcome.certificate(),
        )
    ]  # fmt: skip


def _check_files(
    layers: str, manual: Path | None, folder: Path, json_file: Path | None, others: Sequence[Strategy | Skipped]
) -> None:
    outputs = {
        "--json": json_file,
        f"the picture of {RECOMMENDED}": folder / RECOMMENDED_PICTURE,
        "the picture of all": folder / COMPARISON_PICTURE,
        **pictures(others, folder),
    }
    check_outputs(outputs, inputs={"the layer file": Path(layers), "the manual file": manual})


def _print(
    strategies: Sequence[Strategy], others: Sequence[Strategy | Skipped], outcome: Outcome, limit: int | None
) -> None:
    if outcome.simulation is None:
        click.echo(no_plan_text(outcome), err=True)
    else:
        click.echo(f"{RECOMMENDED}: {outcome.certificate()}\n")
    if strategies:
        click.echo(comparison_table(strategies, limit))
    for other in others:
        if isinstance(other, Skipped):
            click.echo(f"{other.name} is skipped: {other.reason}")


def _draw(strategies: Sequence[Strategy], folder: Path, limit: int | None) -> None:
    for strategy in strategies:
        if strategy.picture is not None:
            path = folder / strategy.picture
            write_picture(strategy, path, memory_limit_bytes=limit, option=f"the picture of {strategy.name}")
    if strategies:
        write_comparison(strategies, folder / COMPARISON_PICTURE, memory_limit_bytes=limit, option="the picture of all")


def _fields(
    recommended: dict[str, object], others: Sequence[Strategy | Skipped], limit: int | None
) -> dict[str, object]:
    """Return the result of every strategy by name; a skipped one has only its reason."""
    fields: dict[str, object] = {RECOMMENDED: recommended}
    for other in others:
        if isinstance(other, Skipped):
            fields[other.name] = {"status": "skipped", "reason": other.reason}
        else:
            fields[other.name] = simulation_fields(other.simulation, limit)
    return fields
