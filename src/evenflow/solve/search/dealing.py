"""A good plan at once: layers dealt by time and memory, then a few moves of the search; equal problems, equal plans."""

from evenflow.simulate import Integers
from evenflow.solve.problem import Problem
from evenflow.solve.search.annealing import Annealing, kernel_arguments
from evenflow.solve.start import even_start, fits

_MOST_STEPS = 1000
"""Moves of the search."""
_ACTIONS = 2_000_000
"""Actions that these evaluate at most, in a hundredth of a second."""


def dealt(problem: Problem) -> Integers | None:
    """Return counts [num_cells, num_kinds] that fit, with the slowest rank as fast as could be; None without any.

    They are found by moves from an even cut: that none is found does not prove that there is none.
    """
    from evenflow.solve.search.dealing_kernel import deal

    rules, prices, memory, _graph = kernel_arguments(problem)
    counts = even_start(problem)
    moves = 0 if problem.request.layers is not None else 2 * problem.num_layers
    if not deal(counts, moves, rules, prices, memory):
        return None
    return None if problem.pooled and not fits(problem, counts) else counts  # it knows nothing of what ranks keep


def first_plan(problem: Problem) -> Integers | None:
    """Return the counts of a good plan that fits, in some milliseconds; None where none is found."""
    counts = dealt(problem)
    if counts is None:
        return None
    search = Annealing(problem=problem, counts=counts)
    search.improve(steps=min(_MOST_STEPS, _ACTIONS // problem.schedule.num_actions))
    return search.best_counts
