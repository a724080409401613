"""One option changed: what other chunks, sets of modules, or the framework's adapter make of a plan for a framework.

A plan is proven among those that the options allow, and one option more may allow a much shorter one. So a part of the
time limit goes to a quick look at each: only to say which option to look at.
"""

from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO

from evenflow.cli.shared.model_config import config_path
from evenflow.cli.shared.options import BEST, EVERY
from evenflow.cli.shared.training.configured_model import read_planned_model
from evenflow.cli.text.shorter_neighbour_text import OtherOption
from evenflow.cli.verbs.plan.plan_job import PlanJob, in_layers_of_framework, plan_job, solve_job
from evenflow.cli.verbs.plan.plan_options import PlanOptions, Task
from evenflow.errors import InputError, Interrupted
from evenflow.interruption import was_interrupted
from evenflow.model import Plan
from evenflow.predict.chosen_sets import BEST as BEST_SETS
from evenflow.predict.training import sets_among
from evenflow.schedule import FAMILIES, different_group_sizes, group_allowed
from evenflow.solve import Outcome, ProgressCallback
from evenflow.solve.best import MOST_CHUNKS
from evenflow.solve.contest.neighbours import as_comparison
from evenflow.solve.time_left import TimeLeft
from evenflow.targets.registry import target_named

_SHARE, _MOST_SECONDS, _LEAST_SECONDS = 0.15, 15.0, 0.75
"""Share of the time limit for all looks together, most seconds, and fewest that show anything."""
_PARTS_OF_SETS = 4
_STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A job that differs from the user's in one option."""

    options: str
    """That option."""
    job: Callable[[], PlanJob]
    """Makes it; raises InputError where there is none."""
    parts: int = 1
    """Parts of the time that it takes: of many ways of recomputing, each needs a moment."""


def seconds_for_others(job: PlanJob) -> float:
    """Return the seconds of the time limit that looks at other options take; 0 where there are none, or too few."""
    options = job.options
    if options.target is None or options.quiet or options.task is Task.ANY_ORDER:
        return 0.0
    seconds = min(_SHARE * options.time_limit, _MOST_SECONDS)
    return seconds if seconds >= _LEAST_SECONDS else 0.0


def shorter_by_option(
    job: PlanJob, outcome: Outcome, *, seconds: float, progress: ProgressCallback | None
) -> tuple[OtherOption, ...]:
    """Return the plans that are shorter than that of `outcome` and take one other option, the shortest first.

    Takes at most `seconds`. Ctrl-C ends it with what was found.
    """
    plan, step_ns = outcome.plan, outcome.makespan_ns
    if not seconds or plan is None or step_ns is None or outcome.interrupted:
        return ()
    left, looks = TimeLeft.of(seconds), list(_looks(job, plan))
    told = as_comparison(progress, after_s=outcome.solve_seconds)
    shorter: list[OtherOption] = []
    for number, look in enumerate(looks):
        if was_interrupted() or left.is_over:
            break
        share = look.parts / sum(other.parts for other in looks[number:])
        with suppress(InputError, Interrupted):  # the framework has no such plans; the answer is there already
            other = look.job()
            other = replace(other, contest=replace(other.contest, known=(*other.contest.known, plan)))
            looked = solve_job(other.within(share * left.seconds), told).outcome
            if looked.plan is not None and looked.makespan_ns is not None and looked.makespan_ns < step_ns:
                shorter.append(OtherOption(options=look.options, outcome=looked))
    return tuple(sorted(shorter, key=lambda other: other.outcome.makespan_ns or 0))


def _looks(job: PlanJob, plan: Plan) -> Iterator[_Look]:
    """Yield what differs in one option: first the numbers of chunks, those closest to that of `plan` first."""
    options, target = job.options, job.options.target
    assert target is not None
    if job.contest.layers is None:
        schedule = "" if options.schedule is None else f"--schedule {BEST} "
        for count in sorted(_other_counts(job), key=lambda count: (abs(count - plan.num_chunks), count)):
            yield _Look(options=f"{schedule}--chunks {count}", job=partial(_with_chunks, job, count))
    if job.contest.group_sizes != "every" and _runs_other_groups(job):
        yield _Look(options=f"--group-size {EVERY}", job=partial(_with_every_group_size, job))
    if target.adapter and options.applied_file is None:
        yield _Look(options=f"--target {target.adapter}", job=partial(_with_target, job, target.adapter))
    configuration = options.configuration
    if (
        configuration.accelerator is not None
        and configuration.recompute_sets is None
        and config_path(options.layers) != _STANDARD_INPUT
        and sets_among(target.abilities(job.version).recompute_kinds)
    ):
        sets = replace(options, configuration=replace(configuration, recompute_sets=BEST_SETS))
        yield _Look(options=f"--recompute-sets {BEST_SETS}", job=partial(_read, sets), parts=_PARTS_OF_SETS)


def _other_counts(job: PlanJob) -> set[int]:
    """Return numbers of chunks that were not tried, few or one away from those that were, none with a cell too many."""
    tried, request, target = job.contest.num_chunks, job.request, job.options.target
    assert target is not None
    most = target.abilities(job.version).most_chunks or request.network.num_layers
    counts = {*range(1, MOST_CHUNKS + 1), min(tried) - 1, max(tried) + 1} - {0, *tried}
    num_layers, num_ranks = request.network.num_layers, request.sizes.num_ranks
    return {count for count in counts if count <= most and (count - 1) * num_ranks < num_layers}


def _with_chunks(job: PlanJob, count: int) -> PlanJob:
    options = replace(job.options, schedule=BEST, chunks=count, less_memory=False, group_size=None)
    return replace(
        job,
        options=options,
        schedule=BEST,
        contest=replace(job.contest, num_chunks=(count,)),
        looks_elsewhere=False,
    )


def _runs_other_groups(job: PlanJob) -> bool:
    """Return whether the framework runs a schedule of the contest in other groups than the usual ones."""
    target = job.options.target
    assert target is not None
    abilities = target.abilities(job.version)
    sizes = [replace(job.request.sizes, num_chunks=count) for count in job.contest.num_chunks]
    return any(
        size is not None and group_allowed(abilities.groups, size, own)
        for name in (abilities.schedules if job.schedule == BEST else (job.schedule,))
        if FAMILIES[name].has_groups
        for own in sizes
        for size in different_group_sizes(name, own)
    )


def _with_every_group_size(job: PlanJob) -> PlanJob:
    return replace(
        job,
        options=replace(job.options, group_size=EVERY),
        contest=replace(job.contest, group_sizes="every"),
        looks_elsewhere=False,
    )


def _with_target(job: PlanJob, name: str) -> PlanJob:
    target = target_named(name)
    options = replace(job.options, target=target)
    return replace(job, options=options, version=target.version(options.asked_version), looks_elsewhere=False)


def _read(options: PlanOptions) -> PlanJob:
    """Return the job of other options; what is to be known of their model was said already."""
    with redirect_stderr(StringIO()):
        model = read_planned_model(options, completed=in_layers_of_framework(options))
        return replace(plan_job(options, model), looks_elsewhere=False)
