"""A first plan: an even cut that recomputes as much as it can."""

from dataclasses import replace
from itertools import permutations

import numpy as np

from evenflow.model import FULL, NONE
from evenflow.simulate import Integers, StageCosts
from evenflow.solve.problem import Problem


def even_start(problem: Problem) -> Integers:
    """Return the counts [num_cells, num_kinds] of an even cut, or the fixed one, under the kinds that keep the least.

    They may exceed the memory limit.
    """
    return recomputing_most(problem, even_bounds(problem) if problem.fixed_bounds is None else problem.fixed_bounds)


def without_moves(problem: Problem) -> Problem | None:
    """Return the problem of plans that move nothing, so that no rank keeps anything for another; None without any."""
    rule, moved = problem.request.cell_rule, problem.sums.offloaded_bytes
    stay = [kind for index, kind in enumerate(problem.kinds) if moved is None or not moved[index].any()]
    kinds = tuple(kind for kind in stay if kind in rule.kinds or not rule.kinds)
    return replace(problem, request=replace(problem.request, cell_rule=replace(rule, kinds=kinds))) if kinds else None


def recomputing_most(problem: Problem, bounds: Integers) -> Integers:
    """Return the counts [num_cells, num_kinds] of the cells between these bounds, under the kinds that keep the least.

    `bounds` are the first layer of each cell and the end of the last, shape [num_cells + 1].
    """
    counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
    for cell in range(problem.num_cells):
        first, end = int(bounds[cell]), int(bounds[cell + 1])
        if problem.counts_full:
            least, most = problem.full_range(end - first)
            full, none = problem.kinds.index(FULL), problem.kinds.index(NONE)
            counts[cell, full] = most if _smallest_kind(problem, first, end, (full, none)) == full else least
            counts[cell, none] = end - first - counts[cell, full]
        else:
            allowed = tuple(sorted({kind for family in problem.families for kind in family}))
            counts[cell, _smallest_kind(problem, first, end, allowed)] = end - first
    return counts


def recomputing_less(problem: Problem, counts: Integers) -> Integers:
    """Return `counts` with kinds that take less time in as many layers of each cell as fit, one rank after the other.

    Layers are under no kind at all where that costs and keeps the same, as frozen ones do. This is plain code: it
    makes an even cut a fair plan while the loops of the search are not compiled yet.
    """
    counts, costs = counts.copy(), problem.costs(counts)
    ranks, none = np.array(problem.schedule.stage_ranks), problem.kinds.index(NONE)
    changes = [
        (source, target)
        for source, target in permutations(range(len(problem.kinds)), 2)
        if target == none or not _never_quicker(problem, source, target)
    ]
    for rank in range(problem.num_ranks):
        before = None
        while before is not counts:  # what could not be may be after another change on the same rank
            before = counts
            for cell in np.flatnonzero(ranks == rank):
                for source, target in changes:
                    number = int(counts[cell, source])
                    while number:
                        changed = counts.copy()
                        changed[cell, source] -= number
                        changed[cell, target] += number
                        if may_hold(problem, changed[cell]):
                            after = problem.costs(changed)
                            if (
                                _is_quicker(after, costs, int(cell), is_plain=target == none)
                                and problem.rank_peak(after, rank) <= problem.limits[rank]
                            ):
                                counts, costs = changed, after
                        number = min(number // 2, int(counts[cell, source]))
    return counts


def _never_quicker(problem: Problem, source: int, target: int) -> bool:
    """Return whether no layer takes less time, or moves less to the host, under one kind than under another."""
    backward, moved = problem.sums.backward_ns, problem.sums.offloaded_bytes
    if (np.diff(backward[target]) < np.diff(backward[source])).any():
        return False
    return moved is None or not (np.diff(moved[target]) < np.diff(moved[source])).any()


def _is_quicker(after: StageCosts, before: StageCosts, cell: int, *, is_plain: bool) -> bool:
    """Return whether a cell takes less time than before, or moves less to the host in the same.

    It moves no more in either case. Without any kind (`is_plain`) it is enough that it takes and keeps the same.
    """
    more_ns = int(after.backward_ns[cell] - before.backward_ns[cell])
    more_moved = 0
    if after.offloaded_bytes is not None and before.offloaded_bytes is not None:
        more_moved = int(after.offloaded_bytes[cell] - before.offloaded_bytes[cell])
    if more_ns > 0 or more_moved > 0:
        return False
    kept = after.activation_bytes[cell] == before.activation_bytes[cell]
    return more_ns < 0 or more_moved < 0 or (is_plain and bool(kept))


def fits(problem: Problem, counts: Integers) -> bool:
    """Return whether every rank holds these counts [num_cells, num_kinds] within its limit."""
    return bool((problem.rank_memory(problem.costs(counts)) <= problem.limits).all())


def may_hold(problem: Problem, content: Integers) -> bool:
    """Return whether a cell may hold these counts [num_kinds]."""
    return problem.may_hold(content) and not (problem.request.cell_rule.alike and np.count_nonzero(content) > 1)


def even_bounds(problem: Problem) -> Integers:
    """Return the first layer of each cell and the end of the last, for cells cut evenly in time from left to right."""
    sums, num_cells, least = problem.sums, problem.num_cells, problem.min_layers
    work = sums.forward_ns + sums.backward_ns[-1]
    network = problem.network
    head = network.head.forward_ns + network.head.backward_ns
    total = head + int(work[-1]) + network.tail.forward_ns + network.tail.backward_ns
    shares = np.cumsum(problem.cell_speeds) / np.sum(problem.cell_speeds)  # of the work, as fast as each rank is
    if problem.placement is not None:
        goals = total * shares[:-1] - head
        borders = problem.placement.nearest(goals, work, min_layers=least)
        assert borders is not None, "checked by `placement_of`"
        return borders
    bounds = [0]
    for cell in range(1, num_cells):
        goal = total * shares[cell - 1] - head
        cut = int(np.searchsorted(work, goal))
        low = bounds[-1] + least
        high = problem.num_layers - (num_cells - cell) * least
        bounds.append(min(max(cut, low), high))
    return np.array([*bounds, problem.num_layers], dtype=np.int64)


def _smallest_kind(problem: Problem, start: int, end: int, kinds: tuple[int, ...]) -> int:
    """Return the one of `kinds`, all by index, under which the layers [start, end) keep the fewest bytes.

    Segments, which need much working memory for it, are left out where there is another kind.
    """
    activation = problem.sums.activation_bytes
    kinds = tuple(kind for kind in kinds if kind not in problem.sums.segments) or kinds
    return min(kinds, key=lambda kind: int(activation[kind, end] - activation[kind, start]))
