"""The work of ``evenflow plan``: made from its options, then solved."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from evenflow import solve
from evenflow.baselines.even_plan import even_plan
from evenflow.cli.shared import options
from evenflow.cli.shared.files.input_files import read_network
from evenflow.cli.shared.group_sizes import check_asked
from evenflow.cli.shared.training_yaml import TrainingYaml
from evenflow.cli.verbs.plan.layers_per_rank import kept_by_chunks
from evenflow.cli.verbs.plan.plan_options import PlanOptions, Task
from evenflow.model import Cells, Network, Plan, Request, Sizes, mixing
from evenflow.schedule import FAMILIES, default_family
from evenflow.solve import BestOutcome, Neighbours, Outcome, ProgressCallback
from evenflow.solve.best import chunk_counts
from evenflow.solve.contest.neighbours import comparison_seconds
from evenflow.solve.group_choice import GroupSizes
from evenflow.solve.order.alternate import solve_any_order
from evenflow.solve.order.fitted import solve_fitted
from evenflow.targets.mindformers.values import SCHEDULES


@dataclass(frozen=True, kw_only=True)
class PlanJob:
    """A request, and how it is solved."""

    task: Task
    request: Request
    """The request; with `Task.BEST_SCHEDULE` it has the largest number of chunks."""
    schedule: str
    """Name of the schedule family, or of the task."""
    chunk_counts: tuple[int, ...]
    """Numbers of chunks that are tried."""
    kept_layers: Mapping[int, Cells] | None
    """Layers that the user has decided, by number of chunks."""
    group_sizes: GroupSizes
    """Group sizes of interleaved schedules that are tried where several schedules are."""
    split_backward: bool
    time_limit_s: float
    compares: bool
    """Whether the plan is compared with its neighbours."""
    training_yaml: TrainingYaml | None
    """File that the plan goes into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of a job."""

    outcome: Outcome
    best: BestOutcome | None = None
    """All schedules that were tried, with `Task.BEST_SCHEDULE`."""
    neighbours: Neighbours | None = None
    """What a quick look around the plan found; None where none was taken."""


def plan_job(asked: PlanOptions) -> PlanJob:
    """Read the files and check everything that can be checked before the search.

    Raises:
        InputError: an option or a file that breaks a rule.
    """
    limit = options.memory_limit(asked.memory)
    communication = asked.messages.communication(sequence_splits=asked.sequence_splits)
    task = asked.task
    num_chunks, schedule = _schedule(asked, task)
    sizes = Sizes(
        num_ranks=asked.ranks,
        num_chunks=num_chunks,
        num_microbatches=asked.microbatches,
        sequence_splits=asked.sequence_splits,
    )
    if task is Task.ONE_SCHEDULE:
        check_asked(asked.group_size, schedule=schedule, sizes=sizes)
    network = read_network(asked.layers)
    tries_all = task is Task.BEST_SCHEDULE and asked.chunks is None
    counts = chunk_counts(network, num_ranks=asked.ranks) if tries_all else (num_chunks,)
    kept = kept_by_chunks(
        asked.layers_per_rank,
        num_layers=network.num_layers,
        num_ranks=asked.ranks,
        counts=counts,
        allow_empty=asked.allow_empty,
    )
    train = None
    if asked.train_yaml is not None:
        train = TrainingYaml.read(asked.train_yaml)
        group_size = asked.group_size if isinstance(asked.group_size, int) else None
        _check_applies(train, network, replace(sizes, num_chunks=min(kept or counts)), schedule, group_size, kept)
    request = Request(
        network=network,
        sizes=replace(sizes, num_chunks=max(counts)),
        memory_limit_bytes=limit if network.has_memory else None,
        cell_rule=mixing(asked.mix == "any"),
        allow_empty=asked.allow_empty,
        group_size=asked.group_size if isinstance(asked.group_size, int) else None,
        communication=communication,
        layers=None if kept is None or task is Task.BEST_SCHEDULE else kept[num_chunks],
    )
    return PlanJob(
        task=task,
        request=request,
        schedule=schedule,
        chunk_counts=counts,
        kept_layers=kept,
        group_sizes="every" if asked.group_size == options.EVERY else "usual" if train else "promising",
        split_backward=asked.split_backward,
        time_limit_s=asked.time_limit,
        compares=not asked.quiet,
        training_yaml=train,
    )


def solve_job(job: PlanJob, progress: ProgressCallback | None) -> Answer:
    """Search for the plan."""
    if job.task is Task.BEST_SCHEDULE or job.group_sizes == "every":
        of_target = SCHEDULES if job.training_yaml else ()
        best = solve.solve_best(
            job.request,
            num_chunks=job.chunk_counts,
            families=of_target if job.task is Task.BEST_SCHEDULE else (job.schedule,),
            layers=job.kept_layers,
            group_sizes=job.group_sizes,
            time_limit_s=job.time_limit_s,
            progress=progress,
        )
        return Answer(outcome=best.outcome, best=best)
    if job.task is Task.ANY_ORDER:
        return Answer(
            outcome=solve_any_order(
                job.request, split_backward=job.split_backward, time_limit_s=job.time_limit_s, progress=progress
            )
        )
    comparison_s = comparison_seconds(job.time_limit_s) if job.compares else 0.0
    solver = solve_fitted if FAMILIES[job.schedule].patterns else solve.solve
    outcome = solver(
        job.request, schedule=job.schedule, time_limit_s=job.time_limit_s - comparison_s, progress=progress
    )
    if not comparison_s or outcome.simulation is None:
        return Answer(outcome=outcome)
    neighbours = solve.find_neighbours(job.request, outcome, SCHEDULES, time_limit_s=comparison_s, progress=progress)
    return Answer(outcome=outcome, neighbours=neighbours)


def _schedule(asked: PlanOptions, task: Task) -> tuple[int, str]:
    """Return the chunks of each rank and the name of the schedule."""
    if task is not Task.ONE_SCHEDULE:
        return asked.chunks or 1, options.BEST if task is Task.BEST_SCHEDULE else options.SEARCH
    num_chunks = options.num_chunks(asked.chunks, schedule=asked.schedule)
    return num_chunks, options.schedule_name(asked.schedule, num_chunks=num_chunks, less_memory=asked.less_memory)


def _check_applies(
    train: TrainingYaml,
    network: Network,
    sizes: Sizes,
    schedule: str,
    group_size: int | None,
    kept: Mapping[int, Cells] | None,
) -> None:
    """Refuse, before the search, a training YAML that no plan of these sizes could be applied to."""
    if schedule == options.BEST:
        schedule = default_family(num_chunks=sizes.num_chunks)
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
                group_size=group_size,
            )
        )
