"""The verb ``evenflow simulate``."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from evenflow.baselines.named_plans import NamedPlan
from evenflow.cli.shared import options
from evenflow.cli.shared.decided_plans import decided
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.group_sizes import best_simulated
from evenflow.cli.shared.message_options import MessageOptions, message_options
from evenflow.cli.shared.plan_pictures import plan_file_fields, plan_svg, plans_html
from evenflow.cli.text.block_text import block_to_paste
from evenflow.cli.text.plan_text import plan_text
from evenflow.cli.verbs.simulate.given_plan import GivenPlan, read_files
from evenflow.export.chrome_trace import TracedStep, chrome_trace
from evenflow.language import _
from evenflow.simulate import simulate as run_on_paper
from evenflow.units import milliseconds


@click.command()
@click.argument("files", metavar="[LAYERS.json] [PLAN.json]", nargs=-1, required=True)
@click.option(
    "--layers",
    metavar="N,N,…",
    multiple=True,
    help="Layers of each rank. Given once, they are dealt over the chunks of the rank in turn; or give it once for "
    "each chunk, in their order.",
)
@click.option(
    "--recompute",
    metavar="KIND=N,N,…",
    multiple=True,
    help="Layers of each rank that recompute under KIND; given once for each chunk, in their order.",
)
@click.option("--ranks", type=options.RANK_COUNT, help="Pipeline ranks; known from --layers or a plan file.")
@click.option("--chunks", type=options.CHUNK_COUNT, help="Model chunks of each rank; known likewise.")
@click.option("--microbatches", type=options.MICROBATCH_COUNT, help="Microbatches of one step.")
@options.SCHEDULE
@options.LESS_MEMORY
@options.GROUP_SIZE
@click.option("--sequence-splits", type=options.SPLIT_COUNT, help="Parts that each sequence is cut into.  [default: 1]")
@options.MEMORY
@message_options
@options.JSON
@options.SVG
@options.HTML
@options.TRACE
@options.OVERWRITE
def simulate(
    files: tuple[str, ...],
    memory: str | None,
    messages: MessageOptions,
    json_file: Path | None,
    svg_file: Path | None,
    html_file: Path | None,
    trace_file: Path | None,
    overwrite: bool,
    **plan_options: Any,
) -> int:
    """Run a plan on paper: exact timeline, memory and bubbles.

    The plan is a PLAN.json that --json wrote, or is given by --microbatches with --layers and --recompute. Without
    --layers, the layers are dealt evenly to --ranks x --chunks cells. The two files may stand in any order. A PLAN.json
    alone is simulated with the model and the messages that it was made for.

    Exit status: 0 simulated (also when over the memory limit, which is said), 2 bad input.

    \b
    Examples:
      evenflow simulate examples/llama2_70b.json plan.json --memory 56GB --svg plan.svg
      evenflow simulate examples/llama2_70b.json --microbatches 8 --layers 20,20,20,20 --recompute full=5,4,3,2
    """
    limit = options.memory_limit(memory)
    network, plan, messages_of_plan = read_files(files)
    given = GivenPlan(**plan_options)
    if plan is None:
        plan = given.plan(network)
    else:
        given.check_unused()
    outputs = Outputs(
        {"--json": json_file, "--svg": svg_file, "--html": html_file, "--trace": trace_file},
        inputs={_("the input file {file}", file=file): Path(file) for file in files},
        overwrite=overwrite,
    )
    communication = messages.communication(sequence_splits=plan.sequence_splits) or messages_of_plan
    if not network.has_memory:
        limit = None
    choice = ""
    if given.group_size == options.EVERY:
        simulation, choice = best_simulated(
            lambda size: run_on_paper(network, replace(plan, group_size=size), communication=communication),
            schedule=plan.schedule,
            sizes=plan.sizes,
            memory_limit_bytes=limit,
        )
    else:
        simulation = run_on_paper(network, plan, communication=communication)
    outputs.write_json(lambda: plan_file_fields(simulation, limit))
    named = NamedPlan(name="simulated", simulation=simulation)
    outputs.write("--svg", lambda: plan_svg(named, memory_limit_bytes=limit))
    outputs.write("--html", lambda: plans_html([named], memory_limit_bytes=limit, decide=decided))
    outputs.write("--trace", lambda: chrome_trace([TracedStep.of(simulation, memory_limit_bytes=limit)]))
    makespan = _("one step takes {step_ms:,.3f} ms", step_ms=milliseconds(simulation.makespan_ns))
    makespan = f"{makespan}; {choice}" if choice else makespan
    paragraphs = [
        plan_text(simulation, limit, certificate=makespan),
        block_to_paste(simulation, limit),
        outputs.sentence,
    ]
    click.echo("\n\n".join(filter(None, paragraphs)))
    return 0
