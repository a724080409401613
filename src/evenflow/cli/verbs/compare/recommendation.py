"""What ``evenflow compare`` recommends: no longer than a plan beside it that the options allow, whatever its order."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from evenflow import solve
from evenflow.baselines.named_plans import NamedPlan
from evenflow.cli.verbs.compare.baseline import YOURS
from evenflow.cli.verbs.compare.compare_options import CompareJob
from evenflow.errors import InputError, Interrupted
from evenflow.interruption import was_interrupted
from evenflow.language import _, _n
from evenflow.model import Plan
from evenflow.schedule import schedule_of
from evenflow.solve import Outcome, ProgressCallback
from evenflow.solve.binding import with_binding
from evenflow.solve.clock import Clock
from evenflow.solve.for_target import solve_for_target
from evenflow.solve.known_plans import allowed_counts
from evenflow.solve.problem import problem_of_order
from evenflow.solve.race import Race, RaceSettings
from evenflow.solve.requests import ContestSearch
from evenflow.solve.time_left import TimeLeft
from evenflow.units import milliseconds

_FIRST_SHARE = 0.7
"""Of the time, where a plan beside has another order than that which is planned for first."""


def recommended(
    job: CompareJob, beside: Sequence[NamedPlan], *, time_limit_s: float, progress: ProgressCallback | None
) -> Outcome:
    """Return the best plan found: under the schedule of the job, or the order of a plan `beside` that is shorter.

    With a baseline it is one that the baseline's framework can run.
    """
    left = TimeLeft.of(time_limit_s)
    known = [named.simulation.plan for named in beside]
    others = [named for named in beside if not _is_first_order(job, named.simulation.plan) and _may_be(job, named)]
    first_s = (_FIRST_SHARE if others else 1.0) * left.seconds
    best = _under_first_order(job, known, first_s, progress)
    for named in sorted(others, key=lambda other: other.simulation.makespan_ns):
        best_ns = best.makespan_ns
        if (best_ns is not None and named.simulation.makespan_ns >= best_ns) or was_interrupted():
            break
        try:
            other = _under_order_of(job, named.simulation.plan, left.seconds, progress)
        except Interrupted:
            break
        if other is not None and other.makespan_ns is not None and (best_ns is None or other.makespan_ns < best_ns):
            return other
    return best


def shorter_notes(job: CompareJob, beside: Sequence[NamedPlan], outcome: Outcome) -> Iterator[str]:
    """Yield a sentence for every plan beside that fits and is shorter all the same: why it is not recommended."""
    for named in beside:
        simulation = named.simulation
        is_shorter = outcome.makespan_ns is None or simulation.makespan_ns < outcome.makespan_ns
        if not is_shorter or not _fits(job, named) or not _has_sizes(job, simulation.plan):
            continue
        if job.baseline is not None and named.name == YOURS and outcome.makespan_ns is not None:
            continue  # the advice says to keep it
        step = f"{milliseconds(simulation.makespan_ns):,.3f} ms"
        plan = simulation.plan
        if _may_be(job, named):
            yield _(
                "note: {name} fits and takes {step}: it is not among the plans that are looked for",
                name=named.name,
                step=step,
            )
        else:
            yield _n(
                "note: {name} fits and takes {step}, under {schedule} with 1 chunk, which the options leave out",
                "note: {name} fits and takes {step}, under {schedule} with {count} chunks, which the options leave out",
                count=plan.num_chunks,
                name=named.name,
                step=step,
                schedule=plan.schedule,
            )


def _under_first_order(
    job: CompareJob, known: Sequence[Plan], time_limit_s: float, progress: ProgressCallback | None
) -> Outcome:
    if job.baseline is None:
        return solve.solve(
            job.request, schedule=job.schedule, time_limit_s=time_limit_s, progress=progress, known=known
        )
    target = job.baseline.target
    return solve_for_target(
        job.request,
        target.abilities(job.baseline.version),
        ContestSearch(num_chunks=job.chunk_counts, time_limit_s=time_limit_s, progress=progress, known=known),
        title=target.title,
        schedules=() if job.tries_all else (job.schedule,),
    ).outcome


def _under_order_of(
    job: CompareJob, plan: Plan, time_limit_s: float, progress: ProgressCallback | None
) -> Outcome | None:
    """Return the best plan found under the order of a plan; None where that is not one that is looked for."""
    try:
        if job.baseline is not None:
            target = job.baseline.target
            search = ContestSearch(
                num_chunks=(plan.num_chunks,), time_limit_s=time_limit_s, progress=progress, known=[plan]
            )
            abilities = target.abilities(job.baseline.version)
            return solve_for_target(
                job.request, abilities, search, title=target.title, schedules=(plan.schedule,)
            ).outcome
        problem = problem_of_order(
            replace(job.request, sizes=plan.sizes, group_size=plan.group_size), schedule_of(plan)
        )
    except InputError:  # the framework, or the request, has no such order
        return None
    if allowed_counts(problem, plan) is None:
        return None
    race = Race(problem, RaceSettings(known=(plan,)))
    return with_binding(race.run(Clock(limit_s=time_limit_s), progress=progress), problem)


def _is_first_order(job: CompareJob, plan: Plan) -> bool:
    """Return whether a plan is of the orders that are planned for first, which are searched with it in mind."""
    if plan.order or (plan.group_size is not None and job.baseline is None):
        return False
    if job.tries_all:
        return not job.chunk_counts or plan.num_chunks in job.chunk_counts
    return (plan.schedule, plan.num_chunks) == (job.schedule, job.request.sizes.num_chunks)


def _may_be(job: CompareJob, named: NamedPlan) -> bool:
    """Return whether the options allow the order of a plan, and the plan to be recommended."""
    plan = named.simulation.plan
    is_free = (plan.schedule == job.schedule and not plan.order) or not job.has_schedule
    return is_free and (plan.num_chunks == job.request.sizes.num_chunks or not job.has_chunks) and _fits(job, named)


def _fits(job: CompareJob, named: NamedPlan) -> bool:
    return _has_sizes(job, named.simulation.plan) and named.simulation.fits(job.request.memory_limit_bytes)


def _has_sizes(job: CompareJob, plan: Plan) -> bool:
    """Return whether a plan has the sizes that are planned for, whatever its chunks."""
    return replace(plan.sizes, num_chunks=1) == replace(job.request.sizes, num_chunks=1)
