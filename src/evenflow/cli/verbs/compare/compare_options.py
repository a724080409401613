"""The options of ``evenflow compare``, and what is planned by them."""

from dataclasses import dataclass, replace
from pathlib import Path

import click

from evenflow.cli.shared import options
from evenflow.cli.shared.files.given_model import read_model
from evenflow.cli.shared.message_options import MessageOptions
from evenflow.cli.verbs.compare.baseline import BASELINE, BASELINE_OF, GivenBaseline
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Network, Plan, Request, Sizes
from evenflow.profiles.plan_file import PlanFile
from evenflow.schedule import default_family
from evenflow.targets.target import GivenSizes, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """The command line, as click passes it."""

    layers: str
    ranks: int | None
    microbatches: int | None
    chunks: int | None
    memory: str | None
    schedule: str | None
    less_memory: bool
    sequence_splits: int
    time_limit: float
    baseline_file: Path | None
    baseline_of: Target | None
    manual: Path | None
    naive: bool
    messages: MessageOptions
    output_folder: Path
    json_file: Path | None
    html_file: Path | None
    trace_file: Path | None
    overwrite: bool


@dataclass(frozen=True, kw_only=True)
class CompareJob:
    """What is planned, and what it is compared with."""

    request: Request
    schedule: str
    """The family of the recommended plan, and of the naive ones."""
    baseline: GivenBaseline | None
    given: Plan | None
    """The plan of a plan file that was given instead of a layer file."""
    tries_all: bool
    """Whether the recommended plan may have any schedule of the baseline's framework."""
    chunk_counts: tuple[int, ...]
    """Numbers of chunks that it may have; none: 1 to 4."""


def compare_job(asked: CompareOptions) -> CompareJob:
    """Read the layer file and the baseline, whose sizes and schedule hold where no option gives others.

    A plan file in the place of the layer file holds its model, and is a baseline too.

    Raises:
        InputError: an option or a file that breaks a rule.
    """
    limit = options.memory_limit(asked.memory)
    if asked.baseline_of is not None and asked.baseline_file is None:
        rule = _("must come with {option}, the file that it is about", option=BASELINE)
        raise InputError(value=asked.baseline_of.name, rule=rule, place=BASELINE_OF)
    given = read_model(asked.layers)
    network, planned = given.network, given.planned
    baseline = _baseline(asked, network)
    plan = _plan(baseline, planned)
    tries_all = baseline is not None and (asked.schedule or "").lower() == options.BEST
    sizes, schedule = _sizes(replace(asked, schedule=None) if tries_all else asked, plan)
    communication = asked.messages.communication(sequence_splits=sizes.sequence_splits)
    if planned is not None:
        limit = planned.memory_limit_bytes if asked.memory is None else limit
        communication = communication or planned.communication
    request = Request(
        network=network,
        sizes=sizes,
        memory_limit_bytes=limit if network.has_memory else None,
        allow_empty=plan is not None and any(0 in row for row in plan.layers),
        communication=communication,
    )
    return CompareJob(
        request=request,
        schedule=schedule,
        baseline=baseline,
        given=None if planned is None else planned.plan,
        tries_all=tries_all,
        chunk_counts=() if tries_all and asked.chunks is None else (sizes.num_chunks,),
    )


def _baseline(asked: CompareOptions, network: Network) -> GivenBaseline | None:
    if asked.baseline_file is None:
        return None
    given = GivenSizes(num_layers=network.num_layers, num_ranks=asked.ranks, num_microbatches=asked.microbatches)
    return GivenBaseline.read(asked.baseline_file, asked.baseline_of, given)


def _plan(baseline: GivenBaseline | None, planned: PlanFile | None) -> Plan | None:
    """Return the plan whose sizes and schedule hold where no option gives others."""
    if baseline is not None:
        return baseline.baseline.plan
    return None if planned is None else planned.plan


def _sizes(asked: CompareOptions, plan: Plan | None) -> tuple[Sizes, str]:
    """Return the sizes and the schedule that are planned for."""
    ranks = asked.ranks or (None if plan is None else plan.num_ranks)
    microbatches = asked.microbatches or (None if plan is None else plan.num_microbatches)
    for option, count in (("--ranks", ranks), ("--microbatches", microbatches)):
        if count is None:
            raise click.UsageError(
                _("Missing option '{option}', or {baseline}, or a plan file", option=option, baseline=BASELINE)
            )
    if plan is None or asked.schedule is not None or asked.less_memory:
        chunks = asked.chunks if asked.schedule or plan is None else asked.chunks or plan.num_chunks
        num_chunks = options.num_chunks(chunks, schedule=asked.schedule)
        schedule = options.schedule_name(asked.schedule, num_chunks=num_chunks, less_memory=asked.less_memory)
    else:
        num_chunks = asked.chunks or plan.num_chunks
        is_same = num_chunks == plan.num_chunks and not plan.order
        schedule = plan.schedule if is_same else default_family(num_chunks=num_chunks)
    splits = asked.sequence_splits if plan is None or asked.sequence_splits > 1 else plan.sequence_splits
    assert ranks is not None
    assert microbatches is not None
    sizes = Sizes(num_ranks=ranks, num_chunks=num_chunks, num_microbatches=microbatches, sequence_splits=splits)
    return sizes, schedule
