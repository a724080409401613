"""Planning under the order of one schedule family, as `evenflow.plan`."""

from collections.abc import Sequence

from evenflow.asking import takes
from evenflow.model import Plan, Request
from evenflow.schedule import default_family, family_name
from evenflow.solve.binding import with_binding
from evenflow.solve.clock import Clock
from evenflow.solve.outcome import Outcome, ProgressCallback
from evenflow.solve.problem import make_problem
from evenflow.solve.race import Race, RaceSettings
from evenflow.solve.requests import PlanRequest


@takes(PlanRequest)
def plan(request: PlanRequest) -> Outcome:
    """Return the layers and recompute counts of every cell that minimise the makespan within the memory limit.

    `schedule` is a family's name (default: 1F1B for one chunk, interleaved for more, with `less_memory` its variant),
    `group_size` the microbatches of a group in an interleaved one (default: as many as ranks).
    `mix_any` lets `select` and `comm` layers share a cell, which MindFormers cannot express; `allow_empty` allows
    cells without layers. With `layers` ``[chunk][rank]`` every cell holds so many, and only recomputation is chosen:
    bound and status are those of plans with these layers. Of `known` plans the answer is no longer than those that it
    could be. `progress` is called from this thread a few times a second.

    Raises InputError for sizes or networks that make no sense, and Interrupted when Ctrl-C comes before any plan; a
    later Ctrl-C returns the best plan so far. Infeasible input is an answer: see `Outcome.infeasibility`.
    """
    problem = request.problem(
        num_chunks=request.num_chunks,
        mix_any=request.mix_any,
        group_size=request.group_size,
        layers=request.layers,
    )
    family = _family(request.schedule, request.num_chunks, request.less_memory)
    return solve(
        problem,
        schedule=family,
        time_limit_s=request.time_limit_s,
        progress=request.progress,
        known=request.known,
    )


def solve(
    request: Request,
    *,
    schedule: str,
    time_limit_s: float = 60.0,
    progress: ProgressCallback | None = None,
    known: Sequence[Plan] = (),
) -> Outcome:
    """Return the best plan of `request` under the order of the family `schedule`; `plan` says the rest."""
    clock = Clock(limit_s=time_limit_s)
    problem = make_problem(request, schedule=schedule)
    race = Race(problem, RaceSettings(known=known))
    return with_binding(race.run(clock, progress=progress), problem)


def _family(schedule: str | None, num_chunks: int, less_memory: bool) -> str:
    if schedule is None:
        return default_family(num_chunks=num_chunks, less_memory=less_memory)
    name = family_name(schedule)
    return "interleaved-less-memory" if less_memory and name == "interleaved" else name
