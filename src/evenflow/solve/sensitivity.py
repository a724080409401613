"""What memory is worth: the shortest step with more or less of it, on all ranks and on each whose limit binds.

Every answer is a solve of its own, under the order of the plan: that a limit binds says little, for with more room on
one rank the layers of all others move too.
"""

from dataclasses import dataclass, replace

from evenflow.errors import Interrupted
from evenflow.interruption import was_interrupted
from evenflow.model import Plan, Request
from evenflow.schedule import Schedule
from evenflow.solve.binding import binding_limits
from evenflow.solve.clock import Clock
from evenflow.solve.outcome import Outcome
from evenflow.solve.problem import Problem, problem_of_order
from evenflow.solve.race import Race, RaceSettings
from evenflow.units import GIGABYTE

CHANGE_BYTES = 4 * GIGABYTE
"""By how much the limit of all ranks is changed."""
RANK_BYTES = GIGABYTE
"""What one rank gets more, unless the smallest change that it waits for needs more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitWorth:
    """The step with another limit on all ranks."""

    limit_bytes: int
    step_ns: int | None
    """None where no plan was found."""
    lower_bound_ns: int
    fits: bool
    """Whether that limit is not proven to be too small for any plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankWorth:
    """The step with more memory on one rank alone."""

    rank: int
    more_bytes: int
    step_ns: int
    lower_bound_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What memory is worth to a plan."""

    step_ns: int
    limit_bytes: int
    limits: tuple[LimitWorth, ...]
    """With `CHANGE_BYTES` more and less on all ranks, as far as the time sufficed."""
    ranks: tuple[RankWorth, ...]
    """Of the ranks whose limits bind, in their order, as far as the time sufficed."""
    binding: tuple[int, ...]
    """All ranks whose limits bind."""


def sensitivity(request: Request, plan: Plan, order: Schedule, *, time_limit_s: float = 10.0) -> Sensitivity | None:
    """Return how the shortest step under `order` changes with memory; None without a limit or after Ctrl-C.

    The rule of cells is that of the request. The time is shared by the questions equally: where it does not suffice to
    prove an optimum, its step is the best found, and its bound says so.
    """
    layers = None if request.layers is None else plan.layers
    request = replace(request, sizes=plan.sizes, group_size=plan.group_size, layers=layers)
    problem = problem_of_order(request, order)
    if problem.memory_limit_bytes is None or was_interrupted():
        return None
    binding = binding_limits(problem, plan)
    changes = [problem.limit + CHANGE_BYTES, problem.limit - CHANGE_BYTES]
    share_s = time_limit_s / (len(changes) + len(binding))
    limits, ranks = [], []
    for limit in changes:
        if limit > problem.constants.max():
            outcome = _solved(_with_limit(problem, limit), plan if limit > problem.limit else None, share_s)
            if outcome is None:
                return None
            limits.append(
                LimitWorth(
                    limit_bytes=limit,
                    step_ns=outcome.makespan_ns,
                    lower_bound_ns=outcome.lower_bound_ns,
                    fits=outcome.infeasibility is None or outcome.infeasibility.smallest_limit_bytes <= limit,
                )
            )
    for limit_of_rank in binding:
        more = max(RANK_BYTES, limit_of_rank.more_bytes)
        more_bytes = tuple(more if rank == limit_of_rank.rank else 0 for rank in range(problem.num_ranks))
        outcome = _solved(replace(problem, more_bytes=more_bytes), plan, share_s)
        if outcome is None or outcome.makespan_ns is None:
            break
        ranks.append(
            RankWorth(
                rank=limit_of_rank.rank,
                more_bytes=more,
                step_ns=outcome.makespan_ns,
                lower_bound_ns=outcome.lower_bound_ns,
            )
        )
    return Sensitivity(
        step_ns=problem.simulate(problem.counts(plan)).makespan_ns,
        limit_bytes=problem.limit,
        limits=tuple(limits),
        ranks=tuple(ranks),
        binding=tuple(limit_of_rank.rank for limit_of_rank in binding),
    )


def _with_limit(problem: Problem, limit_bytes: int) -> Problem:
    return replace(problem, request=replace(problem.request, memory_limit_bytes=limit_bytes))


def _solved(problem: Problem, start: Plan | None, seconds: float) -> Outcome | None:
    """Return the outcome of a problem; None after Ctrl-C."""
    race = Race(problem, RaceSettings(patience_s=0.5, advise=False, known=() if start is None else (start,)))
    try:
        outcome = race.run(Clock(limit_s=seconds))
    except Interrupted:
        return None
    return None if outcome.interrupted else outcome
