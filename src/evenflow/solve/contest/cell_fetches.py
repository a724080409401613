"""A number of actions ahead for the fetches of each cell: a better one than one for all, and a bound over all of them.

How many actions a fetch is ahead of its backward decides what is on a device at a time, so each change of a cell's
number is followed by a short search for what its layers may then keep.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from evenflow.model import HostLink, cells
from evenflow.simulate import Integers, aheads
from evenflow.solve.problem import Problem, problem_of_order, without_copy_time
from evenflow.solve.search.annealing import Annealing

_TRIED = (1, 2, 3, 0)
_STEPS = 2000
"""Moves of the search after each change."""
_LEAST_GAIN = 1e-4
"""Share of the step by which a change must shorten it: less is not worth a number for each cell."""


def soonest_back(problem: Problem) -> Problem:
    """Return a problem whose plans take no longer than those of `problem`, and fit where they do, whatever is ahead.

    Copies take no time there, and no more is on a device than its own action needs: fetches begin with their backwards,
    and what leaves is gone before the next action wherever another microbatch is there.
    """
    assert problem.host_link is not None, "nothing moves"
    link = replace(problem.host_link, ahead=0, cell_ahead=(), behind=1, buffers=1)
    return without_copy_time(_over(problem, link))


def better_fetches(problem: Problem, counts: Integers, *, stop: Callable[[], bool]) -> tuple[HostLink, Integers] | None:
    """Return a link with numbers ahead by cell and counts [num_cells, num_kinds] under it that make a shorter plan.

    One cell's number changes at a time, as long as that helps and until `stop` says so. Returns None where nothing
    helps, or nothing moves.
    """
    link, best_ns = problem.host_link, problem.makespan_ns(problem.costs(counts))
    assert link is not None, "nothing moves"
    table = problem.schedule.stage_table
    ahead = aheads(link, table)
    better = None
    improves = True
    while improves:
        improves = False
        for stage in np.flatnonzero(_moved_bytes(problem, counts)):
            for number in _TRIED:
                if stop():
                    return better
                if number == ahead[stage]:
                    continue
                changed = ahead.copy()
                changed[stage] = number
                own = replace(link, cell_ahead=cells(changed[table].tolist()))
                answer = _improved(_over(problem, own), counts)
                if answer is not None and answer[0] < best_ns * (1 - _LEAST_GAIN):
                    (best_ns, counts), ahead, improves = answer, changed, True
                    better = own, counts
    return better


def _over(problem: Problem, link: HostLink) -> Problem:
    """Return the same problem over another link."""
    request = replace(problem.request, network=replace(problem.request.network, host_link=link))
    return problem_of_order(request, problem.schedule, graph=problem.graph.of_actions)


def _moved_bytes(problem: Problem, counts: Integers) -> Integers:
    """Return the bytes that move of every cell."""
    offloaded = problem.costs(counts).offloaded_bytes
    return np.zeros(problem.num_cells, dtype=np.int64) if offloaded is None else offloaded


def _improved(problem: Problem, counts: Integers) -> tuple[int, Integers] | None:
    """Return the makespan and the counts of a good plan near `counts`; None where these do not fit."""
    if np.any(problem.rank_memory(problem.costs(counts)) > problem.limits):
        return None
    search = Annealing(problem=problem, counts=counts.copy())
    search.improve(steps=_STEPS)
    return search.incumbent
