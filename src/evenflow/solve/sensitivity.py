"""What memory is worth: the curve of memory and step on all ranks, and the step with more on each whose limit binds.

Every answer is a solve of its own, under the order of the plan: that a limit binds says little, for with more room on
one rank the layers of all others move too. No answer is a quotient of time and memory: steps fall in stairs.
"""

from dataclasses import dataclass, replace

from evenflow.errors import Interrupted
from evenflow.interruption import was_interrupted
from evenflow.model import Plan, Request
from evenflow.schedule import Schedule
from evenflow.solve.binding import binding_limits
from evenflow.solve.clock import Clock
from evenflow.solve.memory_curve import MemoryCurve, memory_curve
from evenflow.solve.problem import problem_of_order
from evenflow.solve.race import Race, RaceSettings
from evenflow.solve.time_left import TimeLeft
from evenflow.units import GIGABYTE

_CURVE_SHARE = 0.6
"""Share of the time for the curve; the rest is for the ranks, equally."""
_FIRST_LIMITS = 2
"""Of the limits with which some rank would change first, so many are tried first."""
RANK_BYTES = GIGABYTE
"""What one rank gets more, unless the smallest change that it waits for needs more."""


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
    curve: MemoryCurve
    """With other memory on all ranks, from the least that does to what makes no step shorter."""
    ranks: tuple[RankWorth, ...]
    """Of the ranks whose limits bind, in their order, as far as the time sufficed."""
    binding: tuple[int, ...]
    """All ranks whose limits bind."""


def sensitivity(
    request: Request, plan: Plan, order: Schedule, *, time_limit_s: float = 10.0, lower_bound_ns: int = 0
) -> Sensitivity | None:
    """Return how the shortest step under `order` changes with memory; None without a limit or after Ctrl-C.

    The rule of cells is that of the request, and `lower_bound_ns` a bound on all of its plans that is known. Where the
    time does not suffice to prove an optimum, its step is the best found, and its bound says so.
    """
    layers = None if request.layers is None else plan.layers
    request = replace(request, sizes=plan.sizes, group_size=plan.group_size, layers=layers)
    problem = problem_of_order(request, order)
    if problem.memory_limit_bytes is None or was_interrupted():
        return None
    left = TimeLeft.of(time_limit_s)
    binding = binding_limits(problem, plan)
    curve_s = time_limit_s * (_CURVE_SHARE if binding else 1)
    first_bytes = sorted({problem.limit + limit_of_rank.more_bytes for limit_of_rank in binding})[:_FIRST_LIMITS]
    curve = memory_curve(problem, plan, seconds=curve_s, lower_bound_ns=lower_bound_ns, first_bytes=first_bytes)
    if curve is None:
        return None
    ranks = []
    for limit_of_rank in binding:
        if left.is_over:
            break
        more = max(RANK_BYTES, limit_of_rank.more_bytes)
        more_bytes = tuple(more if rank == limit_of_rank.rank else 0 for rank in range(problem.num_ranks))
        race = Race(replace(problem, more_bytes=more_bytes), RaceSettings(patience_s=0.5, advise=False, known=(plan,)))
        try:
            outcome = race.run(Clock(limit_s=(time_limit_s - curve_s) / len(binding)))
        except Interrupted:
            break
        if outcome.interrupted or outcome.makespan_ns is None:
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
        curve=curve,
        ranks=tuple(ranks),
        binding=tuple(limit_of_rank.rank for limit_of_rank in binding),
    )
