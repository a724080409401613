"""The verb ``evenflow schedule``: show a family, or check an order of work."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from evenflow.asking import asked, asked_as
from evenflow.baselines.equal_stages import equal_stages
from evenflow.cli.shared import options
from evenflow.cli.shared.files.input_files import STANDARD_INPUT, read_text
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.group_sizes import best_simulated, check_given_size
from evenflow.cli.shared.plan_pictures import MADE_BY
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import ResultFiles, paths_of
from evenflow.cli.text.schedule_text import checked_text, schedule_html, schedule_svg, shown_text
from evenflow.cli.verbs.schedule.order_faults import explained
from evenflow.cli.verbs.schedule.stage_times import StageTimes
from evenflow.errors import InputError, ScheduleError
from evenflow.export.chrome_trace import TracedStep, chrome_trace
from evenflow.export.results.json_text import format_object
from evenflow.export.results.schedule_fields import Formula, schedule_fields
from evenflow.language import _
from evenflow.model import Sizes
from evenflow.profiles.order_file import parse_order_file
from evenflow.profiles.plan_fields import plan_file_fields
from evenflow.questions import NUM_CHUNKS, NUM_MICROBATCHES, NUM_RANKS, NUM_SEQUENCE_SPLITS
from evenflow.schedule import bubbles_by_formula, check_complete, chunk_count, family_name, make_schedule
from evenflow.simulate import Simulation

MOST_ACTIONS = 1_000_000
"""Actions of a schedule to be looked at."""


@click.group(no_args_is_help=False)
def schedule() -> None:
    """Show a family of schedules on equal stages, or check an order of work.

    \b
    Examples:
      evenflow schedule show 1f1b --ranks 4 --microbatches 8
      evenflow schedule check orders.csv
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """What ``evenflow schedule show`` is asked for: an option for each field."""

    ranks: int = field(metadata=NUM_RANKS)
    microbatches: int = field(metadata=NUM_MICROBATCHES)
    chunks: int | None = field(
        default=None,
        metadata=asked_as(NUM_CHUNKS, help="Model chunks of each rank.  [default: those of the family, or 1]"),
    )
    sequence_splits: int = field(default=1, metadata=NUM_SEQUENCE_SPLITS)
    group_size: int | str | None = field(default=None, metadata=options.GROUP_OF)
    times: StageTimes = field(metadata=asked(group=StageTimes))
    results: ResultFiles = field(metadata=asked(group=ResultFiles))
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What ``evenflow schedule check`` is asked for beside its file: an option for each field."""

    times: StageTimes = field(metadata=asked(group=StageTimes))
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    svg_file: Path | None = field(default=None, metadata=options.SVG_FILE)
    html_file: Path | None = field(default=None, metadata=options.HTML_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@schedule.command()
@click.argument("name")
@options_as("request", ShowOptions)
def show(name: str, request: ShowOptions) -> int:
    """Draw the schedule family NAME on equal stages, with its bubbles and live activations.

    Bubbles are shown by place, by formula and simulated side by side. `evenflow schedules` lists the names.

    \b
    Examples:
      evenflow schedule show 1f1b --ranks 4 --microbatches 8
      evenflow schedule show interleaved --ranks 4 --chunks 2 --microbatches 9 --svg interleaved.svg
    """
    times, group_size = request.times.keywords(), request.group_size
    family = family_name(name)
    sizes = Sizes(
        num_ranks=request.ranks,
        num_chunks=chunk_count(family, request.chunks),
        num_microbatches=request.microbatches,
        sequence_splits=request.sequence_splits,
    )
    num_actions = 2 * sizes.num_cells * sizes.num_microbatches * sizes.sequence_splits
    _check_shown(num_actions, place=_("ranks x chunks x microbatches"))
    outputs = Outputs(paths_of(request), overwrite=request.overwrite)
    check_given_size(group_size, schedule=family, sizes=sizes)

    def of_groups(size: int | None) -> Simulation:
        return equal_stages(make_schedule(family, **asdict(sizes), group_size=size), **times)

    if group_size == options.EVERY:
        simulation, choice = best_simulated(of_groups, schedule=family, sizes=sizes)
        click.echo(f"{choice}\n")
    else:
        simulation = of_groups(group_size if isinstance(group_size, int) else None)
    formula = [
        bubbles_by_formula(family, rank=rank, group_size=simulation.plan.group_size, **times, **asdict(sizes))
        for rank in range(sizes.num_ranks)
    ]
    click.echo(shown_text(simulation, formula))
    _write(outputs, simulation, formula)
    return 0


@schedule.command()
@click.argument("file")
@options_as("request", CheckOptions)
def check(file: str, request: CheckOptions) -> int:
    """Check that the order in FILE is complete and can finish.

    FILE is the CSV of torch.distributed.pipelining, or Paddle's job lists as JSON; - is standard input. For an order
    that can never finish, the answer shows where every rank is stuck, and the circle of actions that wait for each
    other.

    Exit status: 0 the order is fine, 2 it has a fault or cannot be read.

    \b
    Example:
      evenflow schedule check orders.csv
    """
    times = request.times.keywords()
    outputs = Outputs(paths_of(request), inputs={_("the input file"): Path(file)}, overwrite=request.overwrite)
    text, place = read_text(file)
    order = parse_order_file(text, name="stdin" if file == STANDARD_INPUT else Path(file).stem, place=place)
    _check_shown(2 * order.num_stages * order.num_units, place=place)
    try:
        check_complete(order)
        simulation = equal_stages(order, **times)
    except ScheduleError as error:
        raise explained(error, order, place=place) from None
    click.echo(checked_text(simulation, place=place))
    _write(outputs, simulation, None)
    return 0


def _check_shown(num_actions: int, *, place: str) -> None:
    """Refuse a schedule that is too long to be looked at."""
    if num_actions > MOST_ACTIONS:
        rule = _("must be at most {limit:,} actions, to be looked at", limit=MOST_ACTIONS)
        raise InputError(value=num_actions, rule=rule, place=place)


def _write(outputs: Outputs, simulation: Simulation, formula: Formula | None) -> None:
    """Write the files that were asked for, and say so."""
    outputs.write_json(lambda: schedule_fields(simulation, formula))
    outputs.write("--svg", lambda: schedule_svg(simulation))
    is_of_family = formula is not None  # any other order has no name that a plan could say
    plan = format_object(plan_file_fields(simulation, None)) if is_of_family else None
    outputs.write("--html", lambda: schedule_html(simulation, plan=plan, made_by=MADE_BY))
    most = outputs.most_traced(simulation.timeline.schedule.num_actions)
    outputs.write("--trace", lambda: chrome_trace([TracedStep.of(simulation)], most_actions=most))
    outputs.say(is_apart=True)
