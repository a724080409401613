"""The verb ``evenflow schedule``: show a family, check an order that someone else wrote."""

from pathlib import Path

import click

from evenflow.baselines.equal_stages import check_shown, equal_stages, time_ns, weight_time_ns
from evenflow.cli.shared import options
from evenflow.cli.shared.input_files import STANDARD_INPUT, read_text
from evenflow.cli.shared.output_files import Outputs
from evenflow.cli.text.schedule_text import checked_text, schedule_svg, shown_text
from evenflow.cli.verbs.schedule.order_faults import explained
from evenflow.errors import ScheduleError
from evenflow.export.results.schedule_fields import Formula, schedule_fields
from evenflow.profiles.order_file import parse_order_file
from evenflow.schedule import check_complete, family_name, make_schedule
from evenflow.schedule.bubble_formulas import bubbles_by_formula
from evenflow.schedule.families import chunk_count
from evenflow.simulate import Simulation

_FORWARD = click.option(
    "--forward", "forward_ms", type=float, default=1.0, show_default=True, metavar="MS",
    help="Forward time of one microbatch on one stage.",
)  # fmt: skip
_BACKWARD = click.option(
    "--backward", "backward_ms", type=float, default=2.0, show_default=True, metavar="MS",
    help="Backward time of one microbatch on one stage.",
)  # fmt: skip
_WEIGHT = click.option(
    "--weight", "weight_ms", type=float, metavar="MS",
    help="Part of the backward for the weights, which some schedules run on its own.  [default: half]",
)  # fmt: skip


@click.group(no_args_is_help=False)
def schedule() -> None:
    """Show a family of schedules on equal stages, or check an order of work.

    \b
    Examples:
      evenflow schedule show 1f1b --ranks 4 --microbatches 8
      evenflow schedule check orders.csv
    """


@schedule.command()
@click.argument("name")
@options.RANKS
@options.MICROBATCHES
@click.option("--chunks", type=options.COUNT, help="Model chunks of each rank.  [default: those of the family, or 1]")
@options.SEQUENCE_SPLITS
@_FORWARD
@_BACKWARD
@_WEIGHT
@options.JSON
@options.SVG
def show(
    name: str,
    ranks: int,
    microbatches: int,
    chunks: int | None,
    sequence_splits: int,
    forward_ms: float,
    backward_ms: float,
    weight_ms: float | None,
    json_file: Path | None,
    svg_file: Path | None,
) -> int:
    """Draw the schedule family NAME on equal stages, with its bubbles and live activations.

    Bubbles are shown by place, by formula and simulated side by side. `evenflow schedules` lists the names.

    \b
    Examples:
      evenflow schedule show 1f1b --ranks 4 --microbatches 8
      evenflow schedule show interleaved --ranks 4 --chunks 2 --microbatches 9 --svg interleaved.svg
    """
    family = family_name(name)
    num_chunks = chunk_count(family, chunks)
    forward_ns, backward_ns = time_ns(forward_ms, option="--forward"), time_ns(backward_ms, option="--backward")
    weight_ns = weight_time_ns(weight_ms, backward_ns=backward_ns)
    check_shown(2 * ranks * num_chunks * microbatches * sequence_splits, place="ranks x chunks x microbatches")
    outputs = Outputs({"--json": json_file, "--svg": svg_file})
    sizes = {
        "num_ranks": ranks,
        "num_chunks": num_chunks,
        "num_microbatches": microbatches,
        "sequence_splits": sequence_splits,
    }
    simulation = equal_stages(
        make_schedule(family, **sizes), forward_ns=forward_ns, backward_ns=backward_ns, weight_ns=weight_ns
    )
    formula = [
        bubbles_by_formula(
            family, rank=rank, forward_ns=forward_ns, backward_ns=backward_ns, weight_ns=weight_ns, **sizes
        )
        for rank in range(ranks)
    ]
    click.echo(shown_text(simulation, formula))
    _write(outputs, simulation, formula)
    return 0


@schedule.command()
@click.argument("file")
@_FORWARD
@_BACKWARD
@_WEIGHT
@options.JSON
@options.SVG
def check(
    file: str,
    forward_ms: float,
    backward_ms: float,
    weight_ms: float | None,
    json_file: Path | None,
    svg_file: Path | None,
) -> int:
    """Check that the order in FILE is complete and can finish.

    FILE is the CSV of torch.distributed.pipelining, or Paddle's job lists as JSON; - is standard input. For an order
    that can never finish, the answer shows where every rank is stuck, and the circle of actions that wait for each
    other.

    Exit status: 0 the order is fine, 2 it has a fault or cannot be read.

    \b
    Example:
      evenflow schedule check orders.csv
    """
    forward_ns, backward_ns = time_ns(forward_ms, option="--forward"), time_ns(backward_ms, option="--backward")
    weight_ns = weight_time_ns(weight_ms, backward_ns=backward_ns)
    outputs = Outputs({"--json": json_file, "--svg": svg_file}, inputs={"the input file": Path(file)})
    text, place = read_text(file)
    order = parse_order_file(text, name="stdin" if file == STANDARD_INPUT else Path(file).stem, place=place)
    check_shown(2 * order.num_stages * order.num_units, place=place)
    try:
        check_complete(order)
        simulation = equal_stages(order, forward_ns=forward_ns, backward_ns=backward_ns, weight_ns=weight_ns)
    except ScheduleError as error:
        raise explained(error, order, place=place) from None
    click.echo(checked_text(simulation, place=place))
    _write(outputs, simulation, None)
    return 0


def _write(outputs: Outputs, simulation: Simulation, formula: Formula | None) -> None:
    """Write the files that were asked for, and say so."""
    outputs.write_json(lambda: schedule_fields(simulation, formula))
    outputs.write("--svg", lambda: schedule_svg(simulation))
    if outputs.sentence:
        click.echo(f"\n{outputs.sentence}")
