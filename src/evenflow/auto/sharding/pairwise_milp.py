"""The integer program behind `pairwise`: a variable for each choice of a node and for each pair along an edge.

    sum_a x[i, a] = 1            sum_b e[ij, a, b] = x[i, a]            sum_a e[ij, a, b] = x[j, b]

with x integer. The rows of the pairs are those of Alpa's program in their tight form, so that its linear relaxation is
exact wherever the edges form a tree.
"""

import time
from dataclasses import dataclass

import numpy as np

from evenflow.auto.sharding.pairwise import Costs, Pairwise, Reduction
from evenflow.solve import Status
from evenflow.solve.backends.highs import Program

_MEGABYTE = 2**20
"""Rows count memory in megabytes: solvers like numbers near one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseSolution:
    """The status of a solve, and the cheapest choices that it found."""

    status: Status
    """Feasible: the time ran out, and `lower_bound` says how far the choices may be from the cheapest."""
    choices: tuple[int, ...]
    cost: int
    lower_bound: int


_INFEASIBLE = PairwiseSolution(status=Status.INFEASIBLE, choices=(), cost=0, lower_bound=0)


def solve(program: Pairwise, *, memory_limit: int | None = None, time_limit_s: float = 60.0) -> PairwiseSolution:
    """Find the cheapest choices whose memory is within the limit."""
    started = time.monotonic()
    free = _solve(program, None, time_limit_s)
    if memory_limit is None or free.status is Status.INFEASIBLE:
        return free
    if free.status is Status.OPTIMAL and program.memory_of(free.choices) <= memory_limit:
        return free
    bounded = _solve(program, memory_limit, max(1.0, time_limit_s - (time.monotonic() - started)))
    if bounded.status is Status.TIMEOUT and free.choices and program.memory_of(free.choices) <= memory_limit:
        return free
    return bounded


def least_memory(program: Pairwise, *, time_limit_s: float = 60.0) -> int | None:
    """Bound the memory of all allowed choices from below, exactly where time suffices; None if nothing is allowed."""
    allowed = Pairwise(
        costs=[
            np.where(np.isfinite(costs), memory, np.inf)
            for costs, memory in zip(program.costs, program.memory, strict=True)
        ],
        memory=program.memory,
        edges={pair: np.where(np.isfinite(costs), 0.0, np.inf) for pair, costs in program.edges.items()},
    )
    solution = _solve(allowed, None, time_limit_s)
    return None if solution.status is Status.INFEASIBLE else solution.lower_bound


def _solve(program: Pairwise, memory_limit: int | None, time_limit_s: float) -> PairwiseSolution:
    reduction = Reduction(program, keep_memory=memory_limit is not None)
    if not np.isfinite(reduction.constant):
        return _INFEASIBLE
    if not reduction.costs:
        choices = program.settled(reduction.expand({}))
        cost = program.cost_of(choices)
        return PairwiseSolution(status=Status.OPTIMAL, choices=choices, cost=cost, lower_bound=cost)
    return _search(program, reduction, memory_limit, time_limit_s)


def _search(program: Pairwise, reduction: Reduction, memory_limit: int | None, time_limit_s: float) -> PairwiseSolution:
    scale = _scale(reduction)
    milp = Program()
    columns = {
        i: [milp.column(cost=float(cost) / scale, upper=1.0, integer=True) for cost in costs]
        for i, costs in reduction.costs.items()
    }
    for chosen in columns.values():
        milp.row(chosen, [1.0] * len(chosen), lower=1.0, upper=1.0)
    for i, edges in reduction.neighbours.items():
        for j, costs in edges.items():
            if i < j:
                _add_edge(milp, columns[i], columns[j], costs / scale)
    if memory_limit is not None:
        indices = [column for chosen in columns.values() for column in chosen]
        entries = np.concatenate([reduction.memory[i] for i in columns]) / _MEGABYTE
        milp.row(indices, entries, upper=memory_limit / _MEGABYTE)
    solution = milp.solve(time_limit_s=time_limit_s)
    if solution.status == "infeasible":
        return _INFEASIBLE
    bound = solution.bound * scale + reduction.constant
    lower_bound = int(np.ceil(bound - 0.5)) if np.isfinite(bound) else 0
    if solution.values is None:
        return PairwiseSolution(status=Status.TIMEOUT, choices=(), cost=0, lower_bound=max(0, lower_bound))
    values = solution.values
    choices = program.settled(reduction.expand({i: int(np.argmax(values[chosen])) for i, chosen in columns.items()}))
    cost = program.cost_of(choices)
    optimal = solution.status == "optimal"
    return PairwiseSolution(
        status=Status.OPTIMAL if optimal else Status.FEASIBLE,
        choices=choices,
        cost=cost,
        lower_bound=cost if optimal else max(0, min(lower_bound, cost)),
    )


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
            members = [ends[one] for one in np.flatnonzero(classes == index)]
            milp.row([*used, *members], [1.0] * len(used) + [-1.0] * len(members), lower=0.0, upper=0.0)


def _scale(reduction: Reduction) -> float:
    """Return a divisor that brings the largest cost to 10^4."""
    tables = [
        *reduction.costs.values(),
        *(costs for edges in reduction.neighbours.values() for costs in edges.values()),
    ]
    largest = max((float(table[np.isfinite(table)].max(initial=0.0)) for table in tables), default=0.0)
    return max(largest / 1e4, 1e-9)
