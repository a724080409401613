"""The verb ``evenflow replan``."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from evenflow.asking import asked, asked_as, optional
from evenflow.baselines.named_plans import NamedPlan
from evenflow.cli.exit_status import status_code
from evenflow.cli.shared import options
from evenflow.cli.shared.files.input_files import read_plan, read_text
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.plan_pictures import plan_svg
from evenflow.cli.shared.progress import shown_progress
from evenflow.cli.shared.rank_options import RankOptions, check_no_sharers
from evenflow.cli.shared.reproducible import may_be_reproducible
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.text.plan_text import no_plan_text, plan_text
from evenflow.cli.text.replan_text import replan_text
from evenflow.errors import InputError
from evenflow.export.results.replan_fields import replan_fields
from evenflow.fields import as_fields, load_json
from evenflow.language import _, _n
from evenflow.model import RankTraits
from evenflow.profiles.steps import (
    PATTERN_OPTION,
    is_step_file,
    naming_of_pattern,
    pattern_without_timelines,
    read_measured_step,
    step_of_file,
)
from evenflow.profiles.timeline_file import is_timeline_file, timeline_file
from evenflow.questions import SEARCH_TIME
from evenflow.simulate import Simulation, Timeline, simulate
from evenflow.solve.replan import ALIKE, measured_speeds, ranks_without_work
from evenflow.solve.replan import replan as replanned_for
from evenflow.solve.time_left import TimeLeft
from evenflow.units import parse_bandwidth

_MOVE_BANDWIDTH = "--move-bandwidth"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanOptions:
    """What ``evenflow replan`` is asked for: an option for each field."""

    memory: str | None = field(default=None, metadata=options.MEMORY_TEXT)
    unequal_ranks: RankOptions = field(metadata=asked(group=RankOptions))
    move_bandwidth: str | None = optional(
        _MOVE_BANDWIDTH, metavar="RATE", help="Rate at which a rank sends and receives layers, such as 25GBps."
    )
    actions: str | None = optional(
        PATTERN_OPTION, metavar="REGEX", help="How the timelines of STEP name their actions, as for evenflow report."
    )
    allow_empty: bool = field(
        default=True,
        metadata=asked_as(
            options.ALLOWS_EMPTY,
            help="Whether cells may hold no layer, which not every framework can run.  [default: they may]",
        ),
    )
    time_limit: float = field(default=60.0, metadata=SEARCH_TIME)
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    svg_file: Path | None = field(default=None, metadata=options.SVG_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command()
@click.argument("plan", metavar="PLAN.json")
@click.argument("measured", metavar="[STEP]", required=False)
@options_as("request", ReplanOptions)
@may_be_reproducible
def replan(plan: str, measured: str | None, request: ReplanOptions) -> int:
    """Say what to move when ranks of a running plan are slower than it says, and whether moving pays.

    PLAN.json is the plan that runs. STEP is a step of it that was measured, as for evenflow report: a folder that
    Primus dumped, a folder with a profiler's timeline of every rank, a JSON file of your own, or what --timeline of
    evenflow run wrote. A rank is as much slower than the fastest as its work takes longer than planned; or say it with
    --rank-speed. The schedule stays, and the best cut and recomputation on these ranks are found with a proof.

    Exit status: that of the new plan, as for evenflow plan.

    \b
    Examples:
      evenflow replan plan.json traces/ --move-bandwidth 25GBps --json new.json
      evenflow replan plan.json --rank-speed 3:0.9
    """
    planned = read_plan(plan)
    outputs = Outputs(
        paths_of(request),
        inputs={_("the input file {file}", file=file): Path(file) for file in (plan, measured) if file},
        overwrite=request.overwrite,
    )
    limit = planned.memory_limit_bytes if request.memory is None else options.memory_limit(request.memory)
    rate = None if request.move_bandwidth is None else parse_bandwidth(request.move_bandwidth, place=_MOVE_BANDWIDTH)
    assert planned.network is not None
    running = simulate(planned.network, planned.plan, communication=planned.communication)
    ranks, limit, notes = _ranks(running, limit, measured, request)
    with shown_progress(time_limit_s=request.time_limit) as progress:
        answer = replanned_for(
            running,
            ranks,
            memory_limit_bytes=limit if planned.network.has_memory else None,
            allow_empty=request.allow_empty,
            time_limit_s=TimeLeft.of_command(request.time_limit).seconds,
            progress=progress,
        )
    outputs.write_json(lambda: replan_fields(answer, move_bytes_per_s=rate))
    outcome = answer.outcome
    if outcome.simulation is None:
        click.echo(no_plan_text(outcome), err=True)
        return status_code(outcome.status)
    simulation = outcome.simulation
    named = NamedPlan(name="replanned", simulation=simulation, certificate=outcome.certificate())
    outputs.write("--svg", lambda: plan_svg(named, memory_limit_bytes=limit))
    shown = plan_text(simulation, limit, certificate=outcome.certificate())
    told = "\n".join(_("note: {note}", note=note) for note in notes)
    outputs.say(told, _speeds_note(ranks), replan_text(answer, move_bytes_per_s=rate), shown)
    return status_code(outcome.status)


def _ranks(
    running: Simulation, limit: int | None, measured: str | None, request: ReplanOptions
) -> tuple[tuple[RankTraits, ...], int | None, tuple[str, ...]]:
    """Return the ranks as they are, the memory limit of those that have most, and what to know of the measured step."""
    num_ranks, rank_options = running.plan.num_ranks, request.unequal_ranks
    if measured is not None and rank_options.rank_speed is not None:
        rule = _("must not be given beside a measured step, which says it")
        raise InputError(value=rank_options.rank_speed, rule=rule, place="--rank-speed")
    network, limit = rank_options.applied(running.network, limit, num_ranks=num_ranks)
    if not network.offloads:
        check_no_sharers(network)
    ranks = network.ranks or (RankTraits(),) * num_ranks
    if measured is None:
        others = (rank_options.rank_memory, rank_options.rank_link, rank_options.rank_host_sharers)
        if all(rank.speed == 1 for rank in ranks) and others == (None, None, None):
            raise InputError(
                rule=_(
                    "must come with a measured step, or with --rank-speed, --rank-memory, --rank-link or "
                    "--rank-host-sharers"
                ),
                place="PLAN.json",
                remedy=_("say how the ranks differ from the plan"),
            )
        if request.actions is not None:
            raise pattern_without_timelines(request.actions)
        return ranks, limit, ()
    as_fast = tuple(replace(rank, speed=1.0, reserved_bytes=0) for rank in running.network.ranks)
    alike = simulate(replace(running.network, ranks=as_fast), running.plan, communication=running.communication)
    timeline, notes = _measured(measured, request.actions)
    speeds = measured_speeds(alike, timeline)
    if idle := ranks_without_work(alike):
        note = _n(
            "rank {ranks} has no layers, so the step does not tell its speed: it counts as the fastest",
            "ranks {ranks} have no layers, so the step does not tell their speed: they count as the fastest",
            count=len(idle),
            ranks=", ".join(map(str, idle)),
        )
        notes = (*notes, note)
    return tuple(replace(rank, speed=speed) for rank, speed in zip(ranks, speeds, strict=True)), limit, notes


def _measured(path: str, pattern: str | None) -> tuple[Timeline, tuple[str, ...]]:
    """Return the measured step in a file or folder, and what to know of it."""
    step = read_measured_step(Path(path), None if pattern is None else naming_of_pattern(pattern))
    if step is not None:
        return step.timeline, step.notes
    if pattern is not None:
        raise pattern_without_timelines(pattern)
    text, place = read_text(path)
    fields = as_fields(load_json(text, file=place), file=place)
    if is_step_file(fields):
        step = step_of_file(fields)
        return step.timeline, step.notes
    if is_timeline_file(fields):
        return timeline_file(fields).measured, ()
    raise InputError(rule=_("must be the timeline of a run, or a measured step"), place=place)


def _speeds_note(ranks: tuple[RankTraits, ...]) -> str:
    speeds = " ".join(f"{rank.speed:.3g}" for rank in ranks)
    return _(
        "speed of each rank beside the fastest (within {percent:g} % counts as equal): {speeds}",
        percent=100 * ALIKE,
        speeds=speeds,
    )
