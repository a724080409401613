"""The verb ``evenflow plan``."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from evenflow import solve
from evenflow.baselines.even_plan import even_plan
from evenflow.cli.shared import options
from evenflow.cli.shared.output_files import check_outputs, write_text
from evenflow.cli.shared.progress import shown_progress
from evenflow.cli.shared.strategies import RECOMMENDED, Strategy
from evenflow.cli.shared.training_yaml import TrainingYaml
from evenflow.cli.shared.write_pictures import write_picture
from evenflow.cli.status import status_code
from evenflow.cli.text.best_text import best_text
from evenflow.cli.text.plan_text import block_to_paste, no_plan_text, plan_text
from evenflow.cli.verbs import plan_search as searched
from evenflow.cli.verbs.plan_layers import LAYERS_PER_RANK, kept_by_chunks
from evenflow.export.mindformers import SCHEDULES as MINDFORMERS_SCHEDULES
from evenflow.export.results.best_fields import best_fields
from evenflow.export.results.json_text import format_object
from evenflow.export.results.outcome_fields import outcome_fields
from evenflow.model import Cells, Network, Plan, Request, Sizes
from evenflow.schedule import default_family, format_schedule
from evenflow.solve import BestOutcome, Outcome
from evenflow.solve.best import chunk_counts
from evenflow.solve.order.alternate import solve_any_order


@click.command()
@click.argument("layers", metavar="LAYERS.json")
@options.RANKS
@options.MICROBATCHES
@options.CHUNKS
@options.MEMORY
@options.PLAN_SCHEDULE
@searched.SPLIT_BACKWARD
@options.LESS_MEMORY
@options.SEQUENCE_SPLITS
@options.TIME_LIMIT
@click.option(
    "--mix",
    type=click.Choice(["mindformers", "any"]),
    default="mindformers",
    show_default=True,
    help="Recompute kinds that may share a cell: those MindFormers can express, or any.",
)
@click.option("--allow-empty", is_flag=True, help="Allow cells without a layer.")
@LAYERS_PER_RANK
@options.p2p_options
@options.JSON
@options.SVG
@searched.ORDER
@click.option(
    "--apply", "train_yaml", type=options.FILE, metavar="FILE.yaml", help="Write FILE.planned.yaml: this with the plan."
)
@click.option("--quiet", is_flag=True, help="Print only the block to paste.")
def plan(
    layers: str,
    ranks: int,
    microbatches: int,
    chunks: int | None,
    memory: str | None,
    schedule: str | None,
    split_backward: bool,
    less_memory: bool,
    sequence_splits: int,
    time_limit: float,
    mix: str,
    allow_empty: bool,
    layers_per_rank: tuple[str, ...],
    p2p_latency_us: float | None,
    p2p_bandwidth_gbps: float | None,
    boundary_mb: float | None,
    json_file: Path | None,
    svg_file: Path | None,
    order_file: Path | None,
    train_yaml: Path | None,
    quiet: bool,
) -> int:
    """Find the shortest step of the model in LAYERS.json that fits in memory, and prove how short it can be.

    LAYERS.json is a layer file; - reads it from standard input. --apply takes a MindFormers training YAML and writes
    another beside it, with all that the plan decides and otherwise unchanged. With --schedule best, all schedules are
    tried side by side, with --apply those that MindFormers can run. --schedule search looks for the order of work as
    well, and bounds the step over any order.

    Exit status: 0 a plan, 2 bad input, 3 infeasible, 4 no plan in the time given, 130 interrupted before a plan.

    \b
    Examples:
      evenflow plan examples/llama2_70b.json --ranks 8 --chunks 2 --microbatches 32 --memory 56GB \\
        --time-limit 60 --json plan.json --svg plan.svg
      evenflow plan examples/llama2_70b.json --ranks 4 --chunks 2 --microbatches 8 --memory 56GB \\
        --layers-per-rank 19,20,20,21 --apply train.yaml
      evenflow plan examples/llama2_70b.json --ranks 4 --microbatches 8 --memory 64GB --schedule best
      evenflow plan examples/llama2_70b.json --ranks 8 --microbatches 32 --memory 56GB --schedule search \\
        --split-backward --order order.csv
    """
    limit = options.memory_limit(memory)
    messages = options.communication(p2p_latency_us, p2p_bandwidth_gbps, boundary_mb, sequence_splits=sequence_splits)
    wants_best = options.is_best(schedule, less_memory=less_memory)
    wants_search = searched.is_search(
        schedule, less_memory=less_memory, split_backward=split_backward, applies=train_yaml is not None
    )
    if wants_best or wants_search:
        num_chunks, family = chunks or 1, options.BEST if wants_best else options.SEARCH
    else:
        num_chunks = options.num_chunks(chunks, schedule=schedule)
        family = options.schedule_name(schedule, num_chunks=num_chunks, less_memory=less_memory)
    sizes = Sizes(
        num_ranks=ranks, num_chunks=num_chunks, num_microbatches=microbatches, sequence_splits=sequence_splits
    )
    network = options.read_network(layers)
    counts = chunk_counts(network, num_ranks=ranks) if wants_best and chunks is None else (num_chunks,)
    sizes = replace(sizes, num_chunks=max(counts))
    kept = kept_by_chunks(
        layers_per_rank,
        num_layers=network.num_layers,
        num_ranks=ranks,
        counts=counts,
        allow_empty=allow_empty,
    )
    fewest = replace(sizes, num_chunks=min(kept or counts))
    train = None if train_yaml is None else _training_yaml(train_yaml, network, fewest, family, kept)
    check_outputs(
        {
            "--json": json_file,
            "--svg": svg_file,
            "--order": order_file,
            "--apply": train.target if train else None,
        },
        inputs={"the layer file": Path(layers), "the file of --apply": train_yaml},
    )
    if limit is not None and not network.has_memory:
        click.echo("note: the layer file has no memory data, so --memory is not checked", err=True)
        limit = None
    request = Request(
        network=network,
        sizes=sizes,
        memory_limit_bytes=limit,
        mix_any=mix == "any",
        allow_empty=allow_empty,
        communication=messages,
        layers=None if kept is None or wants_best else kept[num_chunks],
    )
    best = None
    with shown_progress(quiet=quiet) as progress:
        if wants_best:
            families = MINDFORMERS_SCHEDULES if train else ()
            best = solve.solve_best(
                request,
                num_chunks=counts,
                families=families,
                layers=kept,
                time_limit_s=time_limit,
                progress=progress,
            )
            outcome = best.outcome
        elif wants_search:
            outcome = solve_any_order(
                request, split_backward=split_backward, time_limit_s=time_limit, progress=progress
            )
        else:
            outcome = solve.solve(request, schedule=family, time_limit_s=time_limit, progress=progress)
    return _answer(
        outcome,
        sizes,
        best,
        schedule=family,
        json_file=json_file,
        svg_file=svg_file,
        order_file=order_file,
        train=train,
        quiet=quiet,
    )


def _training_yaml(
    path: Path, network: Network, sizes: Sizes, family: str, kept: Mapping[int, Cells] | None
) -> TrainingYaml:
    """The file of ``--apply``, refused before the search where no plan of these sizes could be applied to it."""
    train = TrainingYaml.read(path)
    schedule = default_family(num_chunks=sizes.num_chunks) if family == options.BEST else family
    layers = None if kept is None else kept[sizes.num_chunks]
    if kept is None and network.num_layers >= sizes.num_cells:  # --allow-empty needs fewer
        layers = even_plan(network, sizes, schedule=schedule).layers
    if layers is not None:
        train.applied(
            Plan(
                schedule=schedule,
                num_microbatches=sizes.num_microbatches,
                layers=layers,
                sequence_splits=sizes.sequence_splits,
            )
        )
    return train


def _answer(
    outcome: Outcome,
    sizes: Sizes,
    best: BestOutcome | None,
    *,
    schedule: str,
    json_file: Path | None,
    svg_file: Path | None,
    order_file: Path | None,
    train: TrainingYaml | None,
    quiet: bool,
) -> int:
    """Write the files and print the answer; a file that fails does not take the plan with it."""
    written = []
    try:
        if json_file is not None:
            fields = best_fields(best, sizes) if best else outcome_fields(outcome, sizes, schedule=schedule)
            write_text(json_file, format_object(fields), option="--json")
            written.append(json_file)
        if svg_file is not None and outcome.simulation is not None:
            headline = outcome.certificate().splitlines()[0]
            strategy = Strategy(name=RECOMMENDED, simulation=outcome.simulation, picture=None, certificate=headline)
            write_picture(strategy, svg_file, memory_limit_bytes=outcome.memory_limit_bytes, option="--svg")
            written.append(svg_file)
        if order_file is not None and outcome.simulation is not None:
            write_text(order_file, format_schedule(outcome.simulation.timeline.schedule), option="--order")
            written.append(order_file)
        if train is not None and outcome.plan is not None:
            written.append(train.write(outcome.plan))
            if outcome.plan.schedule == "interleaved-less-memory":
                click.echo("note: the less-memory order has no key in the YAML: set ENABLE_LESS_MEM_VPP=1", err=True)
    finally:
        _print(outcome, best, written, quiet=quiet)
    return status_code(outcome.status)


def _print(outcome: Outcome, best: BestOutcome | None, written: list[Path], *, quiet: bool) -> None:
    simulation = outcome.simulation
    table = best_text(best) if best and not quiet else ""
    if simulation is None:
        click.echo("\n\n".join(filter(None, (no_plan_text(outcome), table))), err=True)
        if written and not quiet:
            click.echo("wrote " + ", ".join(map(str, written)), err=True)
        return
    block = block_to_paste(simulation.plan)
    if quiet:
        click.echo(block, nl=bool(block))
        return
    certificate = f"{outcome.certificate()} (solved in {outcome.solve_seconds:.1f} s)"
    paragraphs = [plan_text(simulation, outcome.memory_limit_bytes, certificate=certificate), table, block]
    if written:
        paragraphs.append("wrote " + ", ".join(map(str, written)))
    click.echo("\n\n".join(paragraph for paragraph in paragraphs if paragraph))
