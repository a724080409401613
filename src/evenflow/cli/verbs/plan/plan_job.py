"""The work of ``evenflow plan``: made from its options, then solved."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from evenflow import solve
from evenflow.baselines.even_plan import even_plan
from evenflow.cli.shared import options
from evenflow.cli.shared.files.given_model import GivenModel
from evenflow.cli.shared.group_sizes import check_given_size
from evenflow.cli.shared.layers_per_rank import kept_by_chunks
from evenflow.cli.shared.memory_margin import with_margin
from evenflow.cli.shared.split_sequences import note_left_out
from evenflow.cli.shared.targets.empty_cells import may_be_empty
from evenflow.cli.shared.targets.framework_layers import in_layers_of
from evenflow.cli.shared.targets.target_file import TargetFile
from evenflow.cli.shared.targets.target_options import version_of
from evenflow.cli.shared.training.configured_model import Completed, PipelineOptions
from evenflow.cli.text.shorter_neighbour_text import OtherOption
from evenflow.cli.verbs.plan.plan_options import PlanOptions, Task
from evenflow.errors import InputError, Interrupted
from evenflow.interruption import was_interrupted
from evenflow.language import _
from evenflow.model import (
    ANY_CONTENT,
    Abilities,
    Cells,
    Network,
    Plan,
    Request,
    Sizes,
    has_whole_segments,
    segment_kind,
    without_offload,
)
from evenflow.predict.transformer import Transformer
from evenflow.profiles.plan_degrees import MissingDegrees, PlannedDegrees
from evenflow.schedule import FAMILIES, default_family
from evenflow.simulate import host_uses
from evenflow.solve import BestOutcome, Neighbours, Outcome, ProgressCallback
from evenflow.solve.best import chunk_counts, solve_variants
from evenflow.solve.contest.neighbours import comparison_seconds
from evenflow.solve.for_target import search_for_target, solve_for_target
from evenflow.solve.group_choice import GroupSizes
from evenflow.solve.order.alternate import solve_any_order
from evenflow.solve.order.fitted import solve_fitted
from evenflow.solve.rank_orders import rank_orders
from evenflow.solve.requests import ContestSearch
from evenflow.targets.frameworks.mindformers.target import TARGET as MINDFORMERS
from evenflow.targets.frameworks.mindformers.values import SCHEDULES
from evenflow.targets.target import Target

_ELSEWHERE_SHARE = 0.25
"""Share of the time for a quick look at what the framework cannot run."""


@dataclass(frozen=True, kw_only=True)
class PlanJob:
    """A request, and how it is solved."""

    options: PlanOptions
    """The options; their target is that of the file that the plan goes into, where they name none."""
    request: Request
    """The request; with `Task.BEST_SCHEDULE` it has the largest number of chunks. Its limit may leave some free."""
    given_limit_bytes: int | None
    """The limit that was given."""
    schedule: str
    """Name of the schedule family, or of the task."""
    contest: ContestSearch
    """The search over all that is left free."""
    file_plan: Plan | None
    """The plan of a plan file in the place of a layer file; None for another file."""
    applied_file: TargetFile | None
    """File that the plan goes into."""
    version: str
    """Version of the framework whose plans alone are tried; empty without one."""
    degrees: PlannedDegrees | MissingDegrees | None
    """What stages of several devices do, by a plan file."""
    looks_elsewhere: bool
    """Whether the plan is compared with what other frameworks could run."""
    extrapolation: Mapping[str, object]
    """Where the times of a configuration go beyond a calibration, as JSON has it; empty without a calibration."""

    @property
    def num_actions(self) -> int:
        """About how many actions a step has, with two of every cell for each microbatch."""
        return 2 * self.request.sizes.num_cells * self.request.sizes.num_units

    def within(self, seconds: float) -> "PlanJob":
        """Return the job with at most so much time for its searches."""
        limit_s = min(seconds, self.options.time_limit)
        return replace(
            self,
            options=replace(self.options, time_limit=limit_s),
            contest=replace(self.contest, time_limit_s=limit_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of a job."""

    outcome: Outcome
    best: BestOutcome | None = None
    """All schedules that were tried, with `Task.BEST_SCHEDULE`."""
    neighbours: Neighbours | None = None
    """What a quick look around the plan found; None where none was taken."""
    kept: Outcome | None = None
    """What a quick look found where nothing is moved to the host; None where none was taken."""
    shorter: tuple[OtherOption, ...] = ()
    """Shorter plans that one other option allows, the shortest first, where the plan is for one framework."""
    elsewhere: BestOutcome | None = None
    """What a quick look at all schedules found, where the plan is for one framework; None where none was taken."""


def in_layers_of_framework(plan_options: PlanOptions) -> Completed:
    """Return what says of the pipeline of a configuration how the framework that is planned for counts its layers."""

    def completed(pipeline: PipelineOptions, _model: Transformer) -> PipelineOptions:
        framework = _framework(*_applied_file(plan_options))
        if framework is None:
            return pipeline
        target, version = framework
        return pipeline.for_abilities(target.abilities(version))

    return completed


def plan_job(plan_options: PlanOptions, model: GivenModel) -> PlanJob:
    """Read the other files and check everything that can be checked before the search.

    Raises:
        InputError: an option or a file that breaks a rule.
    """
    applied, plan_options = _applied_file(plan_options)
    target, task = plan_options.target, plan_options.task
    version = version_of(plan_options.target, plan_options.asked_version)
    framework = _framework(applied, plan_options)
    if framework is not None:
        model = in_layers_of(model, *framework)
    limit = model.memory_limit_bytes if plan_options.memory is None else options.memory_limit(plan_options.memory)
    network, limit = plan_options.unequal_ranks.applied(model.network, limit, num_ranks=plan_options.ranks)
    share = plan_options.configuration.optimizer_offload or 0.0
    if framework is not None:
        framework[0].check_offload(share, framework[1], place="--optimizer-offload")
    host = plan_options.host.applied(
        network, num_ranks=plan_options.ranks, chooses_fetches=True, for_optimizer=share > 0
    )
    network = plan_options.segments.applied(host)
    _check_placed(plan_options.place_ranks, network)
    communication = plan_options.messages.communication_or(
        model.communication, network, sequence_splits=plan_options.sequence_splits
    )
    num_chunks, schedule = _schedule(plan_options, task)
    if target is None or target.abilities(version).splits_sequences:
        note_left_out(network, sequence_splits=plan_options.sequence_splits, schedule=schedule)
    sizes = Sizes(
        num_ranks=plan_options.ranks,
        num_chunks=num_chunks,
        num_microbatches=plan_options.microbatches,
        sequence_splits=plan_options.sequence_splits,
    )
    if task is Task.ONE_SCHEDULE:
        check_given_size(plan_options.group_size, schedule=schedule, sizes=sizes)
    tries_all = task is Task.BEST_SCHEDULE and plan_options.chunks is None
    counts = chunk_counts(network, num_ranks=plan_options.ranks) if tries_all else (num_chunks,)
    most = None if target is None else target.abilities(version).most_chunks
    if target is not None and most is not None:
        counts = _few_enough(counts, most, target.title)
    allow_empty = may_be_empty(plan_options.allow_empty, target, version)
    kept = kept_by_chunks(
        plan_options.layers_per_rank,
        num_layers=network.num_layers,
        num_ranks=plan_options.ranks,
        counts=counts,
        allow_empty=allow_empty,
    )
    if target is not None:
        _check_segments(plan_options.segments.recompute_segments or (), target.abilities(version), kept, target.title)
    if applied is not None:
        group_size = plan_options.group_size if isinstance(plan_options.group_size, int) else None
        _check_applies(applied, network, replace(sizes, num_chunks=min(kept or counts)), schedule, group_size, kept)
    request = Request(
        network=network,
        sizes=replace(sizes, num_chunks=max(counts)),
        memory_limit_bytes=limit if network.has_memory else None,
        cell_rule=plan_options.rule,
        allow_empty=allow_empty,
        group_size=plan_options.group_size if isinstance(plan_options.group_size, int) else None,
        communication=communication,
        layers=None if kept is None or task is Task.BEST_SCHEDULE else kept[num_chunks],
    )
    file_plan = None if model.planned is None else model.planned.plan
    known: tuple[Plan, ...] = () if file_plan is None else (file_plan,)
    if plan_options.memory is not None:  # that of a plan file has nothing to leave free any more
        request, left_s, known = with_margin(
            request,
            schedule=schedule,
            confidence=plan_options.confidence,
            time_limit_s=plan_options.time_limit,
            known=known,
        )
        plan_options = replace(plan_options, time_limit=left_s)
    return PlanJob(
        options=plan_options,
        request=request,
        given_limit_bytes=limit,
        schedule=schedule,
        contest=ContestSearch(
            num_chunks=counts,
            layers=kept,
            group_sizes=_group_sizes(plan_options, applied),
            time_limit_s=plan_options.time_limit,
            known=known,
            place_ranks=plan_options.place_ranks,
            host_links=plan_options.host.tried(network, num_ranks=plan_options.ranks),
            fetches_by_cell=plan_options.host.chooses_ahead,
        ),
        file_plan=file_plan,
        applied_file=applied,
        version=version,
        degrees=model.degrees,
        extrapolation=model.extrapolation,
        looks_elsewhere=target is not None and plan_options.schedule is not None and task is Task.BEST_SCHEDULE,
    )


def _check_segments(lengths: Sequence[int], abilities: Abilities, kept: Mapping[int, Cells] | None, title: str) -> None:
    """Refuse segments that no plan for a framework can have: none of these, or none that fill the decided cells."""
    known = abilities.recompute_kinds
    for length in lengths:
        if segment_kind(length) not in known:
            rule = _("must be left out for {title}, which has no such segments", title=title)
        elif kept is None or not any(has_whole_segments(layers, (length,)) for layers in kept.values()):
            rule = _("must divide the layers of every cell for {title}, as --layers-per-rank decides them", title=title)
        else:
            continue
        remedy = _("decide such layers, or plan without --target")
        raise InputError(value=length or "all", rule=rule, place="--recompute-segments", remedy=remedy)


def _check_placed(size: int | None, network: Network) -> None:
    """Refuse to place ranks that are all alike, or in too many orders."""
    if size is None:
        return
    place = "--place-ranks"
    if len(set(network.ranks)) < 2:
        raise InputError(
            value=size,
            rule=_("must come with ranks that differ"),
            place=place,
            remedy=_("say how with --rank-accelerator, --rank-speed or --rank-memory"),
        )
    rank_orders(network.ranks, size, place=place)


def _group_sizes(plan_options: PlanOptions, applied: TargetFile | None) -> GroupSizes:
    """Return the group sizes that are tried where several schedules are."""
    if plan_options.group_size == options.EVERY:
        return "every"
    return "usual" if applied and not plan_options.target else "promising"


def solve_job(job: PlanJob, progress: ProgressCallback | None) -> Answer:
    """Search for the plan; where it moves anything to the host, also for one that does not."""
    kept_s = comparison_seconds(job.options.time_limit) if job.request.network.offloads else 0.0
    if not kept_s:
        return _solved(job, progress)
    answer = _solved(job.within(job.options.time_limit - kept_s), progress)
    simulation = answer.outcome.simulation
    if simulation is None or not any(use.moves for use in host_uses(simulation)) or was_interrupted():
        return answer
    request = replace(job.request, network=without_offload(simulation.network))
    with suppress(Interrupted, InputError):  # the answer is there already
        return replace(answer, kept=_kept(replace(job, request=request).within(kept_s), simulation.plan, progress))
    return answer


def _kept(job: PlanJob, plan: Plan, progress: ProgressCallback | None) -> Outcome:
    """Return a plan that moves nothing: of the schedule and sizes of `plan`, or any that the framework can run."""
    if job.options.target is not None:
        return _solved(replace(job, contest=replace(job.contest, host_links=())), progress).outcome
    request = replace(job.request, sizes=plan.sizes, group_size=plan.group_size)
    return solve.solve(request, schedule=plan.schedule, time_limit_s=job.options.time_limit, progress=progress)


def _solved(job: PlanJob, progress: ProgressCallback | None) -> Answer:
    """Search for the plan."""
    if job.options.target is not None:
        return _solve_for_target(job, job.options.target, progress)
    if job.options.task is Task.BEST_SCHEDULE or job.contest.group_sizes == "every":
        of_target = SCHEDULES if job.applied_file else ()
        best = solve.solve_best(
            job.request,
            replace(job.contest, progress=progress),
            families=of_target if job.options.task is Task.BEST_SCHEDULE else (job.schedule,),
        )
        return Answer(outcome=best.outcome, best=best)
    if job.options.task is Task.ANY_ORDER:
        return Answer(
            outcome=solve_any_order(
                job.request,
                split_backward=job.options.split_backward,
                host_links=job.contest.host_links,
                time_limit_s=job.options.time_limit,
                progress=progress,
                known=job.contest.known,
            )
        )
    if job.contest.place_ranks is not None or job.contest.host_links:
        placed = solve_variants(job.request, replace(job.contest, progress=progress), schedule=job.schedule)
        return Answer(outcome=placed.outcome, best=placed)
    comparison_s = comparison_seconds(job.options.time_limit) if not job.options.quiet else 0.0
    fits_order = FAMILIES[job.schedule].patterns and not job.request.network.offloads
    solver = solve_fitted if fits_order else solve.solve
    outcome = solver(
        job.request,
        schedule=job.schedule,
        time_limit_s=job.options.time_limit - comparison_s,
        progress=progress,
        known=job.contest.known,
    )
    if not comparison_s or outcome.simulation is None:
        return Answer(outcome=outcome)
    neighbours = solve.find_neighbours(job.request, outcome, SCHEDULES, time_limit_s=comparison_s, progress=progress)
    return Answer(outcome=outcome, neighbours=neighbours)


def _few_enough(counts: tuple[int, ...], most: int, title: str) -> tuple[int, ...]:
    """Return the numbers of chunks that a framework can run; raises InputError without any."""
    kept = tuple(count for count in counts if count <= most)
    if not kept:
        rule = _("must be at most {most} for {title}", most=most, title=title)
        raise InputError(value=min(counts), rule=rule, place="--chunks")
    return kept


def _solve_for_target(job: PlanJob, target: Target, progress: ProgressCallback | None) -> Answer:
    """Search among the plans that a framework can run, and take a quick look at the others where that was asked."""
    elsewhere_s = _ELSEWHERE_SHARE * job.options.time_limit if job.looks_elsewhere else 0.0
    abilities = target.abilities(job.version)
    with _named_by_options():
        if job.options.task is Task.ANY_ORDER:
            outcome = search_for_target(
                job.request,
                abilities,
                title=target.title,
                split_backward=job.options.split_backward,
                host_links=job.contest.host_links,
                time_limit_s=job.options.time_limit,
                progress=progress,
                known=job.contest.known,
            )
            return Answer(outcome=outcome)
        best = solve_for_target(
            job.request,
            abilities,
            replace(job.contest, progress=progress, time_limit_s=job.options.time_limit - elsewhere_s),
            title=target.title,
            schedules=() if job.options.task is Task.BEST_SCHEDULE else (job.schedule,),
        )
    elsewhere = None
    if elsewhere_s and not was_interrupted():
        with suppress(Interrupted):  # the answer is there already
            elsewhere = solve.solve_best(
                replace(job.request, cell_rule=ANY_CONTENT),
                replace(
                    job.contest,
                    progress=progress,
                    num_chunks=() if job.contest.layers is None else job.contest.num_chunks,
                    group_sizes="promising",
                    time_limit_s=elsewhere_s,
                    known=(*job.contest.known, *([best.outcome.plan] if best.outcome.plan else [])),
                ),
            )
    return Answer(outcome=best.outcome, best=best, elsewhere=elsewhere)


@contextmanager
def _named_by_options() -> Iterator[None]:
    """Name the option in an error about a size or the schedule."""
    try:
        yield
    except InputError as error:
        places = {name: f"--{name}" for name in ("ranks", "chunks", "microbatches", "schedule")}
        places |= {"sequence_splits": "--sequence-splits", _("the number of chunks"): "--chunks"}
        if error.place not in places:
            raise
        place = places[error.place]
        raise InputError(value=error.value, rule=error.rule, place=place, remedy=error.remedy) from None


def _applied_file(plan_options: PlanOptions) -> tuple[TargetFile | None, PlanOptions]:
    """Return the file of ``--apply``; a file of another framework than MindFormers says what is planned for."""
    if plan_options.applied_file is None:
        return None, plan_options
    file = TargetFile.read(plan_options.applied_file, plan_options.target, option="--target", yaml=MINDFORMERS)
    if plan_options.target is None and file.target is not MINDFORMERS:
        return file, replace(plan_options, target=file.target)
    if plan_options.target is None:
        plan_options.check_beside_training_yaml()
    return file, plan_options


def _framework(applied: TargetFile | None, plan_options: PlanOptions) -> tuple[Target, str] | None:
    """Return the framework that is planned for, and its version; None where there is none."""
    if plan_options.target is not None:
        return plan_options.target, version_of(plan_options.target, plan_options.asked_version)
    return None if applied is None else (MINDFORMERS, MINDFORMERS.versions[-1])


def _schedule(plan_options: PlanOptions, task: Task) -> tuple[int, str]:
    """Return the chunks of each rank and the name of the schedule."""
    if task is not Task.ONE_SCHEDULE:
        return plan_options.chunks or 1, options.BEST if task is Task.BEST_SCHEDULE else options.SEARCH
    num_chunks = options.num_chunks(plan_options.chunks, schedule=plan_options.schedule)
    return num_chunks, options.schedule_name(
        plan_options.schedule, num_chunks=num_chunks, less_memory=plan_options.less_memory
    )


def _check_applies(
    file: TargetFile,
    network: Network,
    sizes: Sizes,
    schedule: str,
    group_size: int | None,
    kept: Mapping[int, Cells] | None,
) -> None:
    """Refuse, before the search, a file that no plan of these sizes could be applied to."""
    if schedule == options.BEST:
        schedule = default_family(num_chunks=sizes.num_chunks)
    layers = None if kept is None else kept[sizes.num_chunks]
    if kept is None and network.num_layers >= sizes.num_cells:
        layers = even_plan(network, sizes, schedule=schedule).layers
    if layers is None:
        return
    plan = Plan(
        schedule=schedule,
        num_microbatches=sizes.num_microbatches,
        layers=layers,
        sequence_splits=sizes.sequence_splits,
        group_size=group_size,
    )
    if file.target is MINDFORMERS or file.target.can_run(plan):  # others are planned for what they run
        file.applied(plan)
