"""First plans: an even cut that recomputes as much as it can, and the plan that needs the least memory."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from evenflow.simulate.costs import Integers
from evenflow.solve.backends.highs import Program, Values
from evenflow.solve.problem import Problem

_GIGABYTE = 2**30


def even_start(problem: Problem) -> Integers:
    """Counts [num_cells, num_kinds]: cells as equal in time as a left-to-right cut makes them (unless they are fixed),
    all layers under the kind that keeps the least. May exceed the memory limit.
    """
    bounds = _even_bounds(problem) if problem.fixed_bounds is None else problem.fixed_bounds
    counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
    for cell in range(problem.num_cells):
        kind = _smallest_kind(problem, bounds[cell], bounds[cell + 1])
        counts[cell, kind] = bounds[cell + 1] - bounds[cell]
    return counts


def _even_bounds(problem: Problem) -> list[int]:
    """First layer of every cell and the end of the last."""
    sums, num_cells, least = problem.sums, problem.num_cells, problem.min_layers
    work = sums.forward_ns + sums.backward_ns[-1]
    network = problem.network
    head = network.head.forward_ns + network.head.backward_ns
    total = head + int(work[-1]) + network.tail.forward_ns + network.tail.backward_ns
    bounds = [0]
    for cell in range(1, num_cells):
        goal = total * cell / num_cells - head
        cut = int(np.searchsorted(work, goal))
        low = bounds[-1] + least
        high = problem.num_layers - (num_cells - cell) * least
        bounds.append(min(max(cut, low), high))
    return [*bounds, problem.num_layers]


def _smallest_kind(problem: Problem, start: int, end: int) -> int:
    """The one kind under which the layers [start, end) keep the least."""
    activation = problem.sums.activation_bytes
    return int(np.argmin(activation[:, end] - activation[:, start]))


@dataclass(frozen=True, eq=False, kw_only=True)
class LeastMemory:
    """The plan whose fullest rank holds the least."""

    counts: Integers | None
    """None when the time ran out first."""
    bound_bytes: float
    """No plan needs less on its fullest rank."""
    proven: bool
    """Whether `counts` is known to be that plan, up to a millionth: the program behind it is one of floats."""


def least_memory(
    problem: Problem, *, seconds: float, started: Callable[[Program], object] = lambda program: None
) -> LeastMemory:
    """Minimise the peak of the fullest rank over cuts whose cells recompute all they can.

    `started` gets the program, so that another thread can cancel it.
    """
    if problem.fixed_bounds is not None:
        return _least_of_fixed(problem, problem.fixed_bounds)
    program = Program()
    peak = program.column(cost=1.0)
    cells = _uniform_cells(problem, program) if problem.network.is_uniform else _cut_cells(problem, program)
    constant = problem.network.constant_bytes
    for rank in range(problem.num_ranks):
        own = problem.schedule.stage_table[:, rank].tolist()
        for vector in problem.live[rank]:
            indices, entries, fixed = [peak], [1.0], float(constant)
            for chunk, cell in enumerate(own):
                held, live = cells[cell], int(vector[chunk])
                waiting = int(vector[problem.num_chunks + chunk]) if problem.schedule.splits_backward else 0
                indices += held.columns
                entries += [
                    -(parameter + live * activation + waiting * weight) / _GIGABYTE
                    for parameter, activation, weight in zip(
                        held.parameters, held.activations, held.weights, strict=True
                    )
                ]
                fixed += held.fixed[0] + live * held.fixed[1] + waiting * held.fixed[2]
            program.row(indices, entries, lower=fixed / _GIGABYTE)
    started(program)
    solution = program.solve(time_limit_s=seconds)
    if solution.values is None:
        return LeastMemory(counts=None, bound_bytes=solution.bound * _GIGABYTE, proven=False)
    counts = _decode(problem, cells, solution.values)
    return LeastMemory(counts=counts, bound_bytes=solution.bound * _GIGABYTE, proven=solution.status == "optimal")


def _least_of_fixed(problem: Problem, bounds: Integers) -> LeastMemory:
    """Where the cells' layers are given, each cell keeps as little as it can."""
    segments = [_smallest_segments(problem, start)[end - start] for start, end in pairwise(bounds.tolist())]
    counts = np.array([by_kind for _, by_kind in segments], dtype=np.int64)
    peak = int(problem.rank_memory(problem.costs(counts)).max())
    return LeastMemory(counts=counts, bound_bytes=float(peak), proven=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """What a cell can hold, as program columns with their bytes."""

    columns: list[int]
    parameters: list[float]
    activations: list[float]
    weights: list[float]
    """What waits for a weight gradient."""
    counts: list[tuple[int, ...]]
    """Layers by kind of each column; empty where one column counts layers."""
    fixed: tuple[int, int, int]
    """The same of head and tail: parameters, activation, what waits."""


def _ends(problem: Problem, cell: int) -> tuple[int, int, int]:
    network = problem.network
    blocks = [block for block, at in ((network.head, 0), (network.tail, problem.num_cells - 1)) if at == cell]
    return (
        sum(block.parameter_bytes for block in blocks),
        sum(block.activation_bytes for block in blocks),
        sum(block.weight_bytes for block in blocks),
    )


def _uniform_cells(problem: Problem, program: Program) -> list[_Cell]:
    """All layers equal: the number of layers of every cell is one integer."""
    parameter = float(problem.sums.parameter_bytes[1])
    activation = float(problem.sums.activation_bytes[:, 1].min())
    weight = float(problem.sums.weight_bytes[1])
    cells: list[_Cell] = []
    for cell in range(problem.num_cells):
        column = program.column(lower=problem.min_layers, upper=problem.num_layers, integer=True)
        cells.append(
            _Cell(
                columns=[column],
                parameters=[parameter],
                activations=[activation],
                weights=[weight],
                counts=[],
                fixed=_ends(problem, cell),
            )
        )
    program.row(
        [cell.columns[0] for cell in cells], [1.0] * len(cells), lower=problem.num_layers, upper=problem.num_layers
    )
    return cells


def _cut_cells(problem: Problem, program: Program) -> list[_Cell]:
    """Layers differ: every cell chooses its run of layers, and runs join."""
    smallest = [_smallest_segments(problem, start) for start in range(problem.num_layers + 1)]
    sums, num_layers, num_cells = problem.sums, problem.num_layers, problem.num_cells
    cells: list[_Cell] = []
    flow: dict[tuple[int, int], tuple[list[int], list[float]]] = {}
    for cell in range(num_cells):
        columns, parameters, activations, weights, all_counts = [], [], [], [], []
        low = cell * problem.min_layers
        high = num_layers - (num_cells - cell) * problem.min_layers
        for start in range(low, high + 1) if cell else (0,):
            last = num_layers - (num_cells - 1 - cell) * problem.min_layers
            ends = range(start + problem.min_layers, last + 1) if cell < num_cells - 1 else (num_layers,)
            for end in ends:
                column = program.column(upper=1.0, integer=True)
                columns.append(column)
                parameters.append(float(sums.parameter_bytes[end] - sums.parameter_bytes[start]))
                weights.append(float(sums.weight_bytes[end] - sums.weight_bytes[start]))
                activation, by_kind = smallest[start][end - start]
                activations.append(float(activation))
                all_counts.append(by_kind)
                for border, sign in (((cell, start), 1.0), ((cell + 1, end), -1.0)):
                    indices, entries = flow.setdefault(border, ([], []))
                    indices.append(column)
                    entries.append(sign)
        cells.append(
            _Cell(
                columns=columns,
                parameters=parameters,
                activations=activations,
                weights=weights,
                counts=all_counts,
                fixed=_ends(problem, cell),
            )
        )
    for (cell, _), (indices, entries) in flow.items():
        value = {0: 1.0, num_cells: -1.0}.get(cell, 0.0)
        program.row(indices, entries, lower=value, upper=value)
    return cells


def _decode(problem: Problem, cells: list[_Cell], values: Values) -> Integers:
    """The counts of a solution."""
    counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
    for cell, held in enumerate(cells):
        if held.counts:
            counts[cell] = held.counts[int(np.argmax(values[held.columns]))]
        else:
            layers = round(float(values[held.columns[0]]))
            counts[cell, _smallest_kind(problem, 0, problem.num_layers)] = layers
    return counts


def _smallest_segments(problem: Problem, start: int) -> list[tuple[int, tuple[int, ...]]]:
    """For every number of layers from `start` on, the least activation bytes and the layers by kind that reach it.

    The layers of a cell stand in the order of the kinds; two kinds may exclude each other.
    """
    each = np.diff(problem.sums.activation_bytes, axis=1)
    num_kinds = len(problem.kinds)
    nothing = (0, (0,) * num_kinds)
    best = [nothing] * (problem.num_layers - start + 1)
    for banned in problem.exclusive_kinds if problem.exclusive_kinds[0] >= 0 else (-1,):
        kinds = [kind for kind in range(num_kinds) if kind != banned]
        row = [nothing] * len(kinds)  # the best whose last layer is at most of that kind
        for layers in range(1, len(best)):
            for position, kind in enumerate(kinds):
                size, counts = row[position]
                more = (
                    size + int(each[kind, start + layers - 1]),
                    (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :]),
                )
                row[position] = min(more, row[position - 1]) if position else more
            if banned in (-1, problem.exclusive_kinds[0]) or row[-1] < best[layers]:
                best[layers] = row[-1]
    return best
