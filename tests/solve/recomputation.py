"""What a plan recomputes without need."""

from itertools import product

from evenflow.model import Plan
from evenflow.solve.problem import Problem
from evenflow.solve.start import fits, may_hold


def layers_that_could_recompute_less(problem: Problem, plan: Plan) -> list[tuple[int, int, int]]:
    """Cells in which one layer may be under a quicker kind, with both kinds, all within memory."""
    counts = problem.counts(plan)
    backward_ns = problem.costs(counts).backward_ns
    could = []
    for cell, source, target in product(range(problem.num_cells), *[range(len(problem.kinds))] * 2):
        if counts[cell, source] and source != target:
            other = counts.copy()
            other[cell, source] -= 1
            other[cell, target] += 1
            is_quicker = problem.costs(other).backward_ns[cell] < backward_ns[cell]
            if is_quicker and may_hold(problem, other[cell]) and fits(problem, other):
                could.append((cell, source, target))
    return could
