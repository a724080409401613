"""``--alternatives``: plans that are hardly longer than the best, and leave more memory free."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evenflow.cli.shared.decided_plans import problem_keeping
from evenflow.cli.text.roomier_text import Roomier
from evenflow.cli.verbs.plan.plan_job import Answer, PlanJob
from evenflow.errors import InputError
from evenflow.interruption import was_interrupted
from evenflow.language import _
from evenflow.model import Request
from evenflow.simulate import Simulation
from evenflow.solve.memory_curve import roomier_plans

MOST_LONGER = 0.01
"""Part of the step by which such a plan may be longer."""
_SHARE = 0.25
"""Part of the time limit that they take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomierAnswer:
    """What was found."""

    plans: tuple[Roomier, ...]
    """Those that leave most memory free, these first."""
    most_free_bytes: int | None
    """It is proven that no plan under the order of the best leaves more free; None where nothing is."""


def check_alternatives(job: PlanJob) -> None:
    """Refuse ``--alternatives`` where no memory limit says what is free; raises InputError."""
    if job.options.alternatives is None or job.request.memory_limit_bytes is not None:
        return
    if job.request.network.has_memory:
        rule, remedy = _("must come with a memory limit, of which a plan leaves some free"), _("give one with --memory")
    else:
        rule, remedy = _("must be left out: the layers have no memory data"), _("plan layers that have")
    raise InputError(value=job.options.alternatives, rule=rule, place="--alternatives", remedy=remedy)


def seconds_for_alternatives(job: PlanJob) -> float:
    """Return the seconds of the time limit that they take."""
    return _SHARE * job.options.time_limit if job.options.alternatives else 0.0


def roomier_answer(job: PlanJob, answer: Answer, *, seconds: float) -> RoomierAnswer | None:
    """Return the plans at most so much longer that leave most memory free, in `seconds`; None where nobody asked.

    They are those of the memory curve under the order of the best plan, and the best ones of other schedules that were
    tried; none holds as much as another one that is as short.
    """
    simulation, limit = answer.outcome.simulation, answer.outcome.memory_limit_bytes
    if job.options.alternatives is None or simulation is None or limit is None or was_interrupted():
        return None
    most_ns = int(simulation.makespan_ns * (1 + MOST_LONGER))
    problem = problem_keeping(
        simulation.plan,
        simulation.timeline.schedule,
        request=_request(job, simulation),
        target=job.options.target,
        version=job.version,
    )
    found = roomier_plans(
        problem,
        simulation.plan,
        most_ns=most_ns,
        seconds=seconds,
        lower_bound_ns=answer.outcome.lower_bound_ns,
    )
    points = () if found is None else found.points
    plans = [
        Roomier(simulation=problem.simulate(problem.counts(point.plan)), lower_bound_ns=point.lower_bound_ns)
        for point in points
    ]
    plans += _of_other_schedules(answer, simulation, most_ns)
    refuted = None if found is None else found.refuted_bytes
    return RoomierAnswer(
        plans=_roomiest(plans)[: job.options.alternatives],
        most_free_bytes=None if refuted is None else max(0, limit - refuted - 1),
    )


def _request(job: PlanJob, simulation: Simulation) -> Request:
    """Return what the plan was searched for, on the ranks and with the link that it chose."""
    network = replace(job.request.network, ranks=simulation.network.ranks, host_link=simulation.network.host_link)
    layers = job.request.layers if job.contest.layers is None else simulation.plan.layers
    return replace(job.request, network=network, layers=layers)


def _of_other_schedules(answer: Answer, best: Simulation, most_ns: int) -> Iterator[Roomier]:
    """Yield the plans of other candidates that are short enough and hold less than the best."""
    for candidate in () if answer.best is None else answer.best.candidates:
        simulation = None if candidate.outcome is None else candidate.outcome.simulation
        if candidate.outcome is None or simulation is None or simulation.makespan_ns > most_ns:
            continue
        if max(simulation.peak_memory_bytes) < max(best.peak_memory_bytes):
            yield Roomier(simulation=simulation, lower_bound_ns=candidate.outcome.lower_bound_ns)


def _roomiest(plans: list[Roomier]) -> tuple[Roomier, ...]:
    """Return the plans that no other one beats in memory and step, the one that holds least first."""
    kept: list[Roomier] = []
    for plan in sorted(plans, key=lambda plan: (plan.peak_bytes, plan.simulation.makespan_ns)):
        if not kept or plan.simulation.makespan_ns < kept[-1].simulation.makespan_ns:
            kept.append(plan)
    return tuple(kept)
