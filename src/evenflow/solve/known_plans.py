"""Plans that are known before a search begins, so that its answer is never longer than one that it could have given."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from evenflow.baselines.even_plan import even_stages
from evenflow.errors import InputError
from evenflow.model import FULL, NONE, Plan, Request
from evenflow.schedule import schedule_of
from evenflow.simulate import Integers, Simulation
from evenflow.solve.problem import Problem, problem_of_order
from evenflow.solve.start import fits, may_hold


def shortest_known(problem: Problem, plans: Sequence[Plan]) -> Integers | None:
    """Return the counts [num_cells, num_kinds] of the shortest of `plans` that `problem` allows; None without one.

    Only the cells of a plan matter: they run in the order of the problem.
    """
    allowed = [counts for plan in plans if (counts := allowed_counts(problem, plan)) is not None]
    if len(allowed) < 2:
        return allowed[0] if allowed else None
    return min(allowed, key=lambda counts: problem.simulate(counts).makespan_ns)


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
    return counts if _allows(problem, counts) else None


def counted_alike(problem: Problem, plan: Plan) -> Integers | None:
    """Return the counts [num_cells, num_kinds] of a plan's layers with as many recomputed as each cell must at least.

    None where cells may recompute whatever they want, where the plan has another kind than `full`, or where that is
    not allowed.
    """
    if not problem.counts_full or not set(plan.used_kinds) <= {FULL}:
        return None
    table = tuple(
        tuple(
            min(max(plan.count(FULL, chunk, rank), least), most)
            for rank, (least, most) in enumerate(map(problem.full_range, row))
        )
        for chunk, row in enumerate(plan.layers)
    )
    return allowed_counts(problem, replace(plan, recompute={FULL: table}))


def in_own_order(request: Request, plan: Plan) -> Simulation | None:
    """Return the step of a plan in its own order; None where the request does not allow it."""
    try:
        problem = problem_of_order(request, schedule_of(plan))
    except InputError:  # other sizes
        return None
    counts = allowed_counts(problem, plan)
    return None if counts is None else problem.simulate(counts)


def even_known(problem: Problem) -> Integers | None:
    """Return the counts [num_cells, num_kinds] of the even cut, or the fixed one, that recomputes least.

    All of its layers are under one kind, or as many of each cell under `full` as the rule of the cells asks for. None
    where no such plan is allowed, or fits.
    """
    if problem.fixed_bounds is None:
        layers = np.array(even_stages(problem.num_layers, problem.num_cells), dtype=np.int64)
    else:
        layers = np.array([end - start for start, end in pairwise(problem.fixed_bounds.tolist())], dtype=np.int64)
    allowed = (counts for counts in _alike(problem, layers) if _allows(problem, counts))
    if problem.counts_full:  # the fewest come first
        return next(allowed, None)
    return min(allowed, key=lambda counts: int(problem.costs(counts).backward_ns.sum()), default=None)


def _alike(problem: Problem, layers: Integers) -> Iterator[Integers]:
    """Yield counts [num_cells, num_kinds] of cells that all recompute alike."""
    empty = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
    if not problem.counts_full:
        for kind in range(len(problem.kinds)):
            counts = empty.copy()
            counts[:, kind] = layers
            yield counts
        return
    full, none = problem.kinds.index(FULL), problem.kinds.index(NONE)
    ranges = [problem.full_range(number) for number in layers.tolist()]
    for number in range(min(low for low, _high in ranges), max(high for _low, high in ranges) + 1):
        counts = empty.copy()
        counts[:, full] = [min(max(number, low), high) for low, high in ranges]
        counts[:, none] = layers - counts[:, full]
        yield counts


def _allows(problem: Problem, counts: Integers) -> bool:
    """Return whether a problem allows these counts [num_cells, num_kinds]: cut, contents of cells and memory."""
    layers = counts.sum(axis=1)
    if layers.min() < problem.min_layers:
        return False
    if problem.fixed_bounds is not None and (problem.fixed_bounds[1:] != layers.cumsum()).any():
        return False
    if problem.placement is not None and not problem.placement.allows_all(np.concatenate(([0], layers.cumsum()))):
        return False
    return all(may_hold(problem, content) for content in counts) and fits(problem, counts)
