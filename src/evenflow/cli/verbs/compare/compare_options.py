"""The options of ``evenflow compare``, and what is planned by them."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from evenflow.asking import asked, asked_as, optional
from evenflow.cli.missing import missing_options
from evenflow.cli.shared import options
from evenflow.cli.shared.defaults import without_defaults
from evenflow.cli.shared.files.given_model import SAID_BY_PLANS, GivenModel, mixes_any
from evenflow.cli.shared.host_options import HostOptions
from evenflow.cli.shared.memory_margin import with_error_free
from evenflow.cli.shared.message_options import MessageOptions
from evenflow.cli.shared.rank_options import RankOptions
from evenflow.cli.shared.segment_options import SegmentOptions
from evenflow.cli.shared.split_sequences import note_left_out
from evenflow.cli.shared.targets.empty_cells import may_be_empty
from evenflow.cli.shared.targets.framework_layers import in_layers_of
from evenflow.cli.shared.targets.target_file import TargetFile
from evenflow.cli.shared.targets.target_options import TargetName
from evenflow.cli.shared.training.configuration_options import ConfigurationOptions
from evenflow.cli.shared.training.configured_model import Completed, PipelineOptions
from evenflow.cli.verbs.compare.baseline import BASELINE, BASELINE_OF, GivenBaseline
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan, Request, Sizes, mixing, offering
from evenflow.predict.half_blocks import count_half_blocks
from evenflow.predict.training import moved_chain
from evenflow.predict.transformer import Transformer
from evenflow.profiles.plan_file import PlanFile
from evenflow.questions import NUM_CHUNKS, NUM_MICROBATCHES, NUM_RANKS, NUM_SEQUENCE_SPLITS, SEARCH_TIME
from evenflow.schedule import default_family
from evenflow.targets.target import GivenSizes, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What ``evenflow compare`` is asked for: an option for each field."""

    layers: str
    ranks: int | None = field(default=None, metadata=asked_as(NUM_RANKS, help="Pipeline ranks; known from --baseline."))
    microbatches: int | None = field(
        default=None, metadata=asked_as(NUM_MICROBATCHES, help="Microbatches of one step; known from --baseline.")
    )
    chunks: int | None = field(default=None, metadata=NUM_CHUNKS)
    memory: str | None = field(default=None, metadata=options.MEMORY_TEXT)
    schedule: str | None = optional(
        "--schedule",
        metavar="NAME",
        help="One of `evenflow schedules`, such as zb-h1; with --baseline also best, to try all that its framework "
        "has.  [default: that of --baseline, or 1f1b, or interleaved for several chunks]",
    )
    less_memory: bool = field(default=False, metadata=options.SHORTEST_WARM_UP)
    sequence_splits: int = field(default=1, metadata=NUM_SEQUENCE_SPLITS)
    time_limit: float = field(default=60.0, metadata=SEARCH_TIME)
    baseline_file: Path | None = optional(
        BASELINE,
        help="Also compare what you run today: a configuration or script of your framework, which is planned for.",
    )
    baseline_of: Target | None = optional(
        BASELINE_OF,
        kind=TargetName(),
        metavar="NAME",
        help="Framework of that file.  [default: the one that is recognised]",
    )
    manual: Path | None = optional("--manual", metavar="FILE.yaml", help="Also compare your own plans, from this file.")
    naive: bool = optional(
        "--naive/--no-naive",
        default=True,
        shows_default=True,
        help="Also compare layers dealt evenly, with everything recomputed and with nothing.",
    )
    allow_empty: bool | None = field(default=None, metadata=options.ALLOWS_EMPTY)
    unequal_ranks: RankOptions = field(metadata=asked(group=RankOptions))
    segments: SegmentOptions = field(metadata=asked(group=SegmentOptions))
    host: HostOptions = field(metadata=asked(group=HostOptions))
    messages: MessageOptions = field(metadata=asked(group=MessageOptions))
    output_folder: Path = optional(
        "--output-folder",
        default=Path("output"),
        shows_default=True,
        metavar="DIR",
        help="Folder that pictures are written to.",
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    html_file: Path | None = field(default=None, metadata=options.HTML_FILE)
    trace_file: Path | None = field(default=None, metadata=options.TRACE_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)
    configuration: ConfigurationOptions = field(metadata=asked(group=ConfigurationOptions))


@dataclass(frozen=True, kw_only=True)
class CompareJob:
    """What is planned, and what it is compared with."""

    request: Request
    """What is recommended keeps its limit, which may leave some of that given free."""
    given_limit_bytes: int | None
    """The limit that was given, for the plans beside it."""
    schedule: str
    """The family of the recommended plan, and of the naive ones."""
    baseline: GivenBaseline | None
    file_plan: Plan | None
    """The plan of a plan file that was given instead of a layer file."""
    tries_all: bool
    """Whether the recommended plan may have any schedule of the baseline's framework."""
    chunk_counts: tuple[int, ...]
    """Numbers of chunks that it may have; none: 1 to 4."""
    has_schedule: bool
    """Whether an option says which schedule it has."""
    has_chunks: bool
    """Whether an option says how many chunks it has."""


def compare_job(compare_options: CompareOptions, model: GivenModel) -> CompareJob:
    """Read the baseline, whose sizes and schedule hold where no option gives others.

    A plan file in the place of the layer file, which holds its model, is a baseline too.

    Raises:
        InputError: an option or a file that breaks a rule.
    """
    if compare_options.baseline_of is not None and compare_options.baseline_file is None:
        rule = _("must come with {option}, the file that it is about", option=BASELINE)
        raise InputError(value=compare_options.baseline_of.name, rule=rule, place=BASELINE_OF)
    if model.planned is not None:
        compare_options = without_defaults(compare_options, SAID_BY_PLANS)
    file = _baseline_file(compare_options)
    if file is not None:
        model = in_layers_of(model, file.target, file.version)
    network, planned = model.network, model.planned
    baseline = None
    if file is not None:
        own_layers = network.num_layers - network.mtp_layers
        baseline = _baseline(compare_options, file, num_layers=own_layers, mtp_layers=network.mtp_layers)
        baseline = baseline.of_network(network)
    plan = _plan(baseline, planned)
    tries_all = baseline is not None and (compare_options.schedule or "").lower() == options.BEST
    sizes, schedule = _sizes(replace(compare_options, schedule=None) if tries_all else compare_options, plan)
    note_left_out(network, sequence_splits=sizes.sequence_splits, schedule=schedule)
    limit = model.memory_limit_bytes if compare_options.memory is None else options.memory_limit(compare_options.memory)
    network, limit = compare_options.unequal_ranks.applied(network, limit, num_ranks=sizes.num_ranks)
    for_optimizer = bool(compare_options.configuration.optimizer_offload)
    moving = compare_options.host.applied(network, num_ranks=sizes.num_ranks, for_optimizer=for_optimizer)
    network = compare_options.segments.applied(moving)
    if plan is not None:  # it may compute layers again together
        network = offering(network, plan.used_kinds)
    communication = compare_options.messages.communication_or(
        model.communication, network, sequence_splits=sizes.sequence_splits
    )
    request = Request(
        network=network,
        sizes=sizes,
        memory_limit_bytes=limit if network.has_memory else None,
        cell_rule=mixing(planned is not None and mixes_any(planned.plan)),
        allow_empty=may_be_empty(
            compare_options.allow_empty, *((None, None) if file is None else (file.target, file.version))
        ),
        communication=communication,
    )
    given_limit = request.memory_limit_bytes
    if compare_options.memory is not None:  # that of a plan file has nothing to leave free any more
        request = with_error_free(request)
    return CompareJob(
        request=request,
        given_limit_bytes=given_limit,
        schedule=schedule,
        baseline=baseline,
        file_plan=None if planned is None else planned.plan,
        tries_all=tries_all,
        chunk_counts=() if tries_all and compare_options.chunks is None else (sizes.num_chunks,),
        has_schedule=not tries_all and (compare_options.schedule is not None or compare_options.less_memory),
        has_chunks=compare_options.chunks is not None,
    )


def as_in_baseline(compare_options: CompareOptions) -> Completed:
    """Return what completes the pipeline of a configuration by that of the baseline."""

    def completed(pipeline: PipelineOptions, model: Transformer) -> PipelineOptions:
        file = _baseline_file(compare_options)
        if file is None:
            return pipeline
        abilities = file.target.abilities(file.version)
        num_layers = count_half_blocks(model) if abilities.parts_blocks else model.layers
        baseline = _baseline(compare_options, file, num_layers=num_layers, mtp_layers=model.predicted_tokens)
        plan = baseline.baseline.plan
        return replace(
            pipeline.for_abilities(abilities),
            ranks=pipeline.ranks or plan.num_ranks,
            microbatches=pipeline.microbatches or plan.num_microbatches,
            chunks=pipeline.chunks or (plan.num_chunks if pipeline.schedule is None else None),
            used_kinds=(*plan.used_kinds, *(moved_chain(plan.moved_share.kind) if plan.moved_share else ())),
        )

    return completed


def _baseline_file(compare_options: CompareOptions) -> TargetFile | None:
    """Return the file of ``--baseline``; raises InputError where it cannot be read or its framework be told."""
    if compare_options.baseline_file is None:
        return None
    return TargetFile.read(compare_options.baseline_file, compare_options.baseline_of, option=BASELINE_OF, does="read")


def _baseline(compare_options: CompareOptions, file: TargetFile, *, num_layers: int, mtp_layers: int) -> GivenBaseline:
    sizes = GivenSizes(
        num_layers=num_layers,
        mtp_layers=mtp_layers,
        num_ranks=compare_options.ranks,
        num_microbatches=compare_options.microbatches,
    )
    return GivenBaseline.read(file, sizes)


def _plan(baseline: GivenBaseline | None, planned: PlanFile | None) -> Plan | None:
    """Return the plan whose sizes and schedule hold where no option gives others."""
    if baseline is not None:
        return baseline.baseline.plan
    return None if planned is None else planned.plan


def _sizes(compare_options: CompareOptions, plan: Plan | None) -> tuple[Sizes, str]:
    """Return the sizes and the schedule that are planned for."""
    ranks = compare_options.ranks or (None if plan is None else plan.num_ranks)
    microbatches = compare_options.microbatches or (None if plan is None else plan.num_microbatches)
    if ranks is None or microbatches is None:
        lacking = {"--ranks": ranks, "--microbatches": microbatches}
        raise missing_options(lacking, elsewhere=_("{baseline} or a plan file", baseline=BASELINE))
    if plan is None or compare_options.schedule is not None or compare_options.less_memory:
        chunks = (
            compare_options.chunks
            if compare_options.schedule or plan is None
            else compare_options.chunks or plan.num_chunks
        )
        num_chunks = options.num_chunks(chunks, schedule=compare_options.schedule)
        schedule = options.schedule_name(
            compare_options.schedule, num_chunks=num_chunks, less_memory=compare_options.less_memory
        )
    else:
        num_chunks = compare_options.chunks or plan.num_chunks
        is_same = num_chunks == plan.num_chunks and not plan.order
        schedule = plan.schedule if is_same else default_family(num_chunks=num_chunks)
    splits = (
        compare_options.sequence_splits if plan is None or compare_options.sequence_splits > 1 else plan.sequence_splits
    )
    assert ranks is not None
    assert microbatches is not None
    sizes = Sizes(num_ranks=ranks, num_chunks=num_chunks, num_microbatches=microbatches, sequence_splits=splits)
    return sizes, schedule
