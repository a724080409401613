"""The integer program behind `pairwise`: a variable for each choice of a node and for each pair along an edge.

    sum_a x[i, a] = 1            sum_b e[ij, a, b] = x[i, a]            sum_a e[ij, a, b] = x[j, b]

with x integer. The rows of the pairs are those of Alpa's program in their tight form, so that its linear relaxation is
exact wherever the edges form a tree.
"""

import numpy as np

from evenflow.solve.backends.highs import Program
from evenflow_torch.auto.sharding.pairwise.program import Cheapest, Costs, Pairwise

_MEGABYTE = 2**20
"""Rows count memory in megabytes: solvers like numbers near one."""


def search(program: Pairwise, *, memory_limit: float | None, time_limit_s: float) -> Cheapest:
    """Find the cheapest choices within the memory limit, if any, by integer programming; nodes have finite costs."""
    scale = _scale(program)
    milp = Program()
    columns = [
        [milp.column(cost=float(cost) / scale, upper=1.0, integer=True) for cost in costs] for costs in program.costs
    ]
    for chosen in columns:
        milp.row(chosen, [1.0] * len(chosen), lower=1.0, upper=1.0)
    for (i, j), costs in program.edges.items():
        _add_edge(milp, columns[i], columns[j], costs / scale)
    if memory_limit is not None:
        entries = np.concatenate(program.memory) / _MEGABYTE
        milp.row(range(len(entries)), entries, upper=memory_limit / _MEGABYTE)
    solution = milp.solve(time_limit_s=time_limit_s)
    bound = solution.bound * scale
    if solution.values is None:
        return Cheapest(lower_bound=np.inf if solution.status == "infeasible" else bound)
    values = solution.values
    choices = tuple(int(np.argmax(values[chosen])) for chosen in columns)
    is_optimal = solution.status == "optimal"
    return Cheapest(choices=choices, lower_bound=program.cost_of(choices) if is_optimal else bound)


def _add_edge(milp: Program, first: list[int], second: list[int], costs: Costs) -> None:
    """Add the variables of pairs along an edge; choices with equal costs share them."""
    table, rows = np.unique(costs, axis=0, return_inverse=True)
    table, columns = np.unique(table, axis=1, return_inverse=True)
    pairs = np.full(table.shape, -1)
    for a, b in zip(*np.nonzero(np.isfinite(table)), strict=True):
        pairs[a, b] = milp.column(cost=float(table[a, b]), upper=1.0)
    for ends, classes, by_class in ((first, rows, pairs), (second, columns, pairs.T)):
        for index, line in enumerate(by_class):
            used = line[line >= 0].tolist()
            members = [ends[member] for member in np.flatnonzero(classes == index)]
            milp.row([*used, *members], [1.0] * len(used) + [-1.0] * len(members), lower=0.0, upper=0.0)


def _scale(program: Pairwise) -> float:
    """Return a divisor of costs that brings the largest one to 10^4."""
    tables = [*program.costs, *program.edges.values()]
    largest = max((float(table[np.isfinite(table)].max(initial=0.0)) for table in tables), default=0.0)
    return max(largest / 1e4, 1e-9)
