"""Plans that are known before a search begins, so that its answer is never longer than one that it could have given."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from evenflow.baselines.even_plan import even_plan
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.schedule import FAMILIES
from evenflow.simulate import Integers
from evenflow.solve.problem import Problem
from evenflow.solve.start import fits, may_hold


def shortest_known(problem: Problem, plans: Sequence[Plan]) -> Integers | None:
    """Return the counts [num_cells, num_kinds] of the shortest of `plans` that `problem` allows; None without one.

    Only the cells of a plan matter: they run in the order of the problem.
    """
    allowed = [counts for plan in plans if (counts := allowed_counts(problem, plan)) is not None]
    return min(allowed, key=lambda counts: problem.simulate(counts).makespan_ns, default=None)


def allowed_counts(problem: Problem, plan: Plan) -> Integers | None:
    """Return the counts [num_cells, num_kinds] of a plan's cells; None where the problem does not allow them."""
    if (plan.num_ranks, plan.num_chunks, plan.num_layers) != (
        problem.num_ranks,
        problem.num_chunks,
        problem.request.network.num_layers,
    ) or not set(plan.used_kinds) <= set(problem.kinds):
        return None
    try:
        counts = problem.counts(plan)
    except InputError:  # it parts layers that stay together
        return None
    layers = counts.sum(axis=1)
    if layers.min() < problem.min_layers:
        return None
    if problem.fixed_bounds is not None and (problem.fixed_bounds[1:] != layers.cumsum()).any():
        return None
    if problem.placement is not None and not problem.placement.allows_all(np.concatenate(([0], layers.cumsum()))):
        return None
    return counts if fits(problem, counts) and all(may_hold(problem, content) for content in counts) else None


def even_known(problem: Problem) -> Integers | None:
    """Return the counts [num_cells, num_kinds] of the even plan under the quickest kind that fits; None without one."""
    if problem.schedule.name not in FAMILIES:
        return None
    allowed: list[Integers] = []
    for kind in problem.kinds:
        with suppress(InputError):  # fewer layers than cells
            plan = even_plan(
                problem.request.network, problem.request.sizes, schedule=problem.schedule.name, recompute=kind
            )
            counts = allowed_counts(problem, plan)
            allowed += [] if counts is None else [counts]
    return min(allowed, key=lambda counts: int(problem.costs(counts).backward_ns.sum()), default=None)
