"""The verb ``evenflow simulate``."""

from pathlib import Path

import click

from evenflow.cli.shared import options
from evenflow.cli.shared.output_files import check_outputs, write_text
from evenflow.cli.shared.strategies import Strategy
from evenflow.cli.shared.write_pictures import write_picture
from evenflow.cli.text.plan_text import block_to_paste, plan_text
from evenflow.cli.verbs.simulate_given import GivenPlan, read_files
from evenflow.export.results.json_text import format_object
from evenflow.export.results.plan_fields import simulation_fields
from evenflow.simulate import simulate as run_on_paper
from evenflow.units import milliseconds


@click.command()
@click.argument("files", metavar="LAYERS.json [PLAN.json]", nargs=-1, required=True)
@click.option("--layers", "layer_rows", metavar="N,N,…", multiple=True, help="Layers by rank; once a chunk, in order.")
@click.option(
    "--recompute",
    "recompute_rows",
    metavar="KIND=N,N,…",
    multiple=True,
    help="Layers by rank that recompute under KIND; once a chunk, in order.",
)
@click.option("--ranks", type=options.COUNT, help="Pipeline ranks (follows from --layers or the plan file).")
@click.option("--chunks", type=options.COUNT, help="Model chunks of each rank (follows likewise).")
@click.option("--microbatches", type=options.COUNT, help="Microbatches of one step.")
@options.SCHEDULE
@options.LESS_MEMORY
@click.option("--sequence-splits", type=options.COUNT, help="Parts that each sequence is cut into.  [default: 1]")
@options.MEMORY
@options.p2p_options
@options.JSON
@options.SVG
def simulate(
    files: tuple[str, ...],
    layer_rows: tuple[str, ...],
    recompute_rows: tuple[str, ...],
    ranks: int | None,
    chunks: int | None,
    microbatches: int | None,
    schedule: str | None,
    less_memory: bool,
    sequence_splits: int | None,
    memory: str | None,
    p2p_latency_us: float | None,
    p2p_bandwidth_gbps: float | None,
    boundary_mb: float | None,
    json_file: Path | None,
    svg_file: Path | None,
) -> int:
    """Run a plan on paper: exact timeline, memory and bubbles.

    The plan is a PLAN.json that --json wrote, or is given by --microbatches with --layers and --recompute. Without
    --layers, the layers are dealt evenly to --ranks x --chunks cells. The two files may stand in any order.

    Exit status: 0 simulated (also when over the memory limit, which is said), 2 bad input.

    \b
    Examples:
      evenflow simulate examples/llama2_70b.json plan.json --memory 56GB --svg plan.svg
      evenflow simulate examples/llama2_70b.json --microbatches 8 --layers 20,20,20,20 --recompute full=5,4,3,2
    """
    limit = options.memory_limit(memory)
    network, plan = read_files(files)
    given = GivenPlan(
        layers=layer_rows,
        recompute=recompute_rows,
        ranks=ranks,
        chunks=chunks,
        microbatches=microbatches,
        schedule=schedule,
        less_memory=less_memory,
        sequence_splits=sequence_splits,
    )
    if plan is None:
        plan = given.plan(network)
    else:
        given.check_unused()
    check_outputs(
        {"--json": json_file, "--svg": svg_file}, inputs={f"the input file {file}": Path(file) for file in files}
    )
    messages = options.communication(
        p2p_latency_us, p2p_bandwidth_gbps, boundary_mb, sequence_splits=plan.sequence_splits
    )
    if not network.has_memory:
        limit = None
    simulation = run_on_paper(network, plan, communication=messages)
    written = []
    if json_file is not None:
        write_text(json_file, format_object(simulation_fields(simulation, limit)), option="--json")
        written.append(str(json_file))
    if svg_file is not None:
        strategy = Strategy(name="simulated", simulation=simulation, picture=None)
        write_picture(strategy, svg_file, memory_limit_bytes=limit, option="--svg")
        written.append(str(svg_file))
    makespan = f"one step takes {milliseconds(simulation.makespan_ns):,.3f} ms"
    paragraphs = [plan_text(simulation, limit, certificate=makespan), block_to_paste(plan)]
    if written:
        paragraphs.append("wrote " + ", ".join(written))
    click.echo("\n\n".join(paragraph for paragraph in paragraphs if paragraph))
    return 0
