"""The neighbours of a plan: what other schedules and numbers of chunks make of the same request, at a quick look."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from evenflow.errors import InputError, Interrupted
from evenflow.language import _
from evenflow.model import Plan, Request
from evenflow.schedule import FAMILIES, default_family
from evenflow.simulate import compared_families
from evenflow.solve.best_outcome import ScheduleCandidate
from evenflow.solve.clock import Clock, now_s
from evenflow.solve.contest.contest import Contest
from evenflow.solve.contest.entry import Entry
from evenflow.solve.outcome import Outcome, Progress, ProgressCallback, Status
from evenflow.solve.problem import make_problem, problem_of_order
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.race import Race, RaceSettings

_SHARE, _MOST_SECONDS = 0.1, 10.0
"""Share of the time limit for all neighbours together, and most seconds."""
_LEAST_SECONDS = 0.5
"""Fewest seconds that show anything."""
_QUICK_SECONDS = 1.0
"""Seconds that a comparison may take however soon the plan was found; otherwise it takes no longer than the search."""
_PATIENCE_SECONDS = 0.3
"""Seconds to wait for the end of a long step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """What a quick look around a plan found."""

    candidates: tuple[ScheduleCandidate, ...] = ()
    """The neighbours, the shortest makespan first, then those without a plan."""
    same_without_limit: bool = False
    """Whether it is proven that no plan of the same schedule is shorter without the memory limit."""


def comparison_seconds(time_limit_s: float) -> float:
    """Return the seconds of a time limit that are for the comparison; 0 where they would be too few."""
    seconds = min(_SHARE * time_limit_s, _MOST_SECONDS)
    return seconds if seconds >= _LEAST_SECONDS else 0.0


def find_neighbours(
    request: Request,
    outcome: Outcome,
    families: Sequence[str],
    *,
    time_limit_s: float,
    progress: ProgressCallback | None = None,
) -> Neighbours:
    """Return the candidates one step from the plan of `outcome`: another of `families`, or one chunk less or more.

    Takes at most `time_limit_s`, and no longer than the search for the plan did, but a second. Only plans shorter than
    that of `outcome` are looked for. Ctrl-C ends it with what was found.
    """
    simulation = outcome.simulation
    if simulation is None or outcome.interrupted or not time_limit_s:
        return Neighbours()
    began, pairs = now_s(), _pairs(request, simulation.plan, families)
    seconds = min(time_limit_s, max(_QUICK_SECONDS, outcome.solve_seconds))
    contest = Contest(
        [Entry(schedule=name, num_chunks=count, group_size=None, floor_ns=0) for name, count in pairs],
        lambda entry: make_problem(
            replace(request, sizes=replace(request.sizes, num_chunks=entry.num_chunks), group_size=None),
            schedule=entry.schedule,
        ),
        began=began,
        memory_limit_bytes=request.memory_limit_bytes,
        time_limit_s=seconds,
        progress=as_comparison(progress, after_s=outcome.solve_seconds),
        cutoff_ns=simulation.makespan_ns,
        other_orders=(simulation.timeline.schedule,),
        known=(simulation.plan,),
    )
    same = False
    with suppress(InputError, Interrupted, KeyboardInterrupt):
        same = _same_without_limit(request, outcome, time_limit_s=seconds / 2)
        if pairs:
            contest.run()
    return Neighbours(candidates=contest.candidates, same_without_limit=same)


def _pairs(request: Request, plan: Plan, families: Sequence[str]) -> list[tuple[str, int]]:
    """Return the schedules and numbers of chunks to try, those with as many chunks as `plan` first."""
    sizes, count = request.sizes, plan.num_chunks
    gaining = compared_families(request.network, request.communication)
    pairs = [
        (name, count)
        for name in families
        if name != plan.schedule
        and (name in gaining or not FAMILIES[name].has_pairs)
        and FAMILIES[name].has_chunks(count)
        and (FAMILIES[name].can_split or sizes.sequence_splits == 1)
    ]
    if request.layers is not None:  # layers that the caller has decided are those of so many chunks
        return pairs
    most = request.network.num_layers // sizes.num_ranks
    for other in (count - 1, count + 1):
        name = default_family(num_chunks=max(1, other), less_memory=plan.schedule == "interleaved-less-memory")
        if name in families and other >= 1 and (other <= most or request.allow_empty):
            pairs.append((name, other))
    return pairs


def _same_without_limit(request: Request, outcome: Outcome, *, time_limit_s: float) -> bool:
    """Return whether a proof shows that no plan is shorter without the memory limit; tried where that can be.

    Raises Interrupted when Ctrl-C comes meanwhile.
    """
    simulation = outcome.simulation
    assert simulation is not None
    if outcome.binding != () or outcome.status is not Status.OPTIMAL or simulation.plan.used_kinds:
        return False
    unlimited = problem_of_order(replace(request, memory_limit_bytes=None), simulation.timeline.schedule)
    race = Race(unlimited, RaceSettings(patience_s=_PATIENCE_SECONDS, advise=False, known=(simulation.plan,)))
    free = race.run(Clock(limit_s=time_limit_s), cutoff_ns=simulation.makespan_ns)
    if free.interrupted:
        raise Interrupted(_("interrupted"))
    return free.lower_bound_ns >= simulation.makespan_ns * (1 - 2 * TOLERANCE)


def as_comparison(progress: ProgressCallback | None, *, after_s: float) -> ProgressCallback | None:
    """Return a callback that says that plans of other schedules are looked for, `after_s` after the search began."""
    if progress is None:
        return None

    def tell(report: Progress) -> None:
        phase = _("comparing {phase}", phase=report.phase)
        progress(replace(report, seconds=after_s + report.seconds, phase=phase))

    return tell
