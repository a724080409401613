"""A plan that takes as long as another one, whose fullest rank holds less: recomputation that nothing waits for."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import numpy as np

from evenflow.simulate import Integers, StageCosts
from evenflow.solve.problem import Problem
from evenflow.solve.start import may_hold, recomputing_less


def smaller_peak(problem: Problem, counts: Integers) -> Integers:
    """Return counts [num_cells, num_kinds] with the same cut, a step that is not longer and a peak that is not higher.

    The fullest rank recomputes more as long as the step allows it; then all recompute as little as the new peak allows.
    """
    costs = problem.costs(counts)
    step_ns = problem.makespan_ns(costs)
    peaks = problem.rank_memory(costs)
    smaller: tuple[Integers, StageCosts] | None = counts, costs
    while smaller is not None:
        counts, costs = smaller
        peaks = problem.rank_memory(costs)
        smaller = next(_holding_less(problem, counts, int(peaks.argmax()), step_ns), None)
    request = replace(problem.request, memory_limit_bytes=int(peaks.max()))
    return recomputing_less(replace(problem, request=request, more_bytes=()), counts)


def _holding_less(problem: Problem, counts: Integers, rank: int, step_ns: int) -> Iterator[tuple[Integers, StageCosts]]:
    """Yield counts and costs in which one cell of a rank recomputes more, so that the rank holds less, at no time."""
    peak_bytes = problem.rank_peak(problem.costs(counts), rank)
    for cell in np.flatnonzero(np.array(problem.schedule.stage_ranks) == rank):
        for source, target in permutations(range(len(problem.kinds)), 2):
            number = int(counts[cell, source])
            while number:
                changed = counts.copy()
                changed[cell, source] -= number
                changed[cell, target] += number
                number //= 2
                if may_hold(problem, changed[cell]):
                    costs = problem.costs(changed)
                    held = max(problem.rank_peak(costs, rank), problem.keeper_peak(costs, rank))
                    if held < peak_bytes and problem.makespan_ns(costs) <= step_ns:
                        yield changed, costs
