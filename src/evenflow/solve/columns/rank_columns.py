"""The columns of the proof: complete contents of a rank, or of a cell where ranks have too many.

A program chooses one column of each group. Columns are kept only if a plan with a makespan of at most a target could
contain them: a rank computes nothing before its first forward can reach it nor after its last backward has left it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import Integers
from evenflow.simulate.compiled import compiled
from evenflow.solve.bounds import rank_ramps_ns
from evenflow.solve.columns.cell_options import CellOptions, Segments
from evenflow.solve.columns.column_kernel import combine
from evenflow.solve.columns.pair_columns import fits_in_pairs, whole_pairs
from evenflow.solve.problem import Problem

MAX_COLUMNS = 1_500_000
"""Most columns of all ranks together; with more, cells are chosen one by one instead of ranks."""
MAX_STEPS = 300_000_000
"""Most steps, about a second, for the combinations of one rank; with more, cells are chosen one by one too."""
_STEPS = 200
"""As many for each column that there may be."""
_FIRST_CAPACITY = 200_000
"""Most columns of a rank that room is made for at first; where there are more, they are counted and found again."""


class Borders(NamedTuple):
    """Between how many layers before each cell, and behind the last, plans are looked for; shape [num_cells + 1]."""

    low: Integers
    high: Integers


@dataclass(eq=False, kw_only=True)
class ColumnGroup:
    """The columns of a rank or of a cell, of which a plan takes one; arrays share their first axis."""

    cells: tuple[int, ...]
    options: tuple[CellOptions, ...]
    """Options of each of the cells."""
    chosen: NDArray[np.int32]
    """Option index by cell, shape [num_columns, len(cells)]."""
    keys: list[Integers] = field(init=False)
    """Properties to probe, an integer per column each: all layers, then by cell its layers, first run and last run."""

    def __post_init__(self) -> None:
        def of_cells(name: str) -> list[Integers]:
            return [getattr(options, name)[self.chosen[:, at]] for at, options in enumerate(self.options)]

        layers = of_cells("layers")
        self.keys = [
            np.sum(layers, axis=0),
            *(layers if len(layers) > 1 else []),
            *of_cells("first_run"),
            *of_cells("last_run"),
        ]

    def __len__(self) -> int:
        return len(self.chosen)

    def select(self, keep: NDArray[np.bool_]) -> "ColumnGroup":
        """Return the group with the columns where `keep` holds."""
        return ColumnGroup(cells=self.cells, options=self.options, chosen=self.chosen[keep])

    @property
    def loads_ns(self) -> Integers:
        """Forward and backward of each column for one microbatch (part), but for the most that these save together."""
        loads = np.zeros(len(self), dtype=np.int64)
        for at, own in enumerate(self.options):
            loads += (own.forward_ns + own.backward_ns - own.saved_ns)[self.chosen[:, at]]
        return loads

    def layers_until(self, cell: int) -> Integers:
        """Return the layers of each column in its cells up to `cell`, shape [num_columns]."""
        found = np.zeros(len(self), dtype=np.int64)
        for at, (own, options) in enumerate(zip(self.cells, self.options, strict=True)):
            if own <= cell:
                found += options.layers[self.chosen[:, at]]
        return found

    def counts(self, column: int) -> NDArray[np.int32]:
        """Return the layers by kind of each cell of `column`, shape [len(cells), num_kinds]."""
        return np.stack([options.counts[self.chosen[column, at]] for at, options in enumerate(self.options)])


def all_options(problem: Problem, target_ns: int, *, borders: Borders | None = None) -> list[CellOptions] | None:
    """Return the options of each cell in plans of at most `target_ns`; None when there is no such plan.

    With `borders`, those of plans within them, and perhaps others.
    """
    loads = np.array(max_loads(problem, target_ns), dtype=np.int64)
    if loads.min() < 0:
        return None
    num_cells, least = problem.num_cells, problem.min_layers
    segments = Segments(problem, int(loads.max()))
    work = problem.sums.forward_ns + problem.sums.backward_ns[-1] - problem.most_saved_ns(1.0)
    ranks = problem.schedule.stage_ranks
    result = []
    for cell in range(num_cells):
        # The layers before a cell are carried by the ranks of the cells before it, and likewise behind it.
        earlier = int(loads[list(set(ranks[:cell]))].sum())
        later = int(loads[list(set(ranks[cell + 1 :]))].sum())
        start_low = cell * least
        start_high = min(
            problem.num_layers - (num_cells - cell) * least, int(np.searchsorted(work, earlier, side="right")) - 1
        )
        end_low = max((cell + 1) * least, int(np.searchsorted(work, int(work[-1]) - later, side="left")))
        if borders is not None:
            start_low, start_high = max(start_low, int(borders.low[cell])), min(start_high, int(borders.high[cell]))
            end_low = max(end_low, int(borders.low[cell + 1]))
        last = len(segments.run_ends) - 1
        first_runs = range(
            min(last, int(np.searchsorted(segments.run_ends, start_low, side="right"))),
            min(last, int(np.searchsorted(segments.run_ends, start_high, side="right"))) + 1,
        )
        last_run_from = last if cell == num_cells - 1 else int(np.searchsorted(segments.run_ends, end_low))
        cell_options = segments.options(
            cell,
            first_runs=first_runs if cell else range(1),
            last_run_from=last_run_from,
            max_load_ns=int(loads[ranks[cell]]),
        )
        if not len(cell_options):
            return None
        result.append(cell_options)
    return result


def max_loads(problem: Problem, target_ns: int) -> list[int]:
    """Return the largest forward plus backward time of each rank in ns, for one microbatch (part)."""
    return [(target_ns - ramp) // problem.schedule.num_units for ramp in rank_ramps_ns(problem)]


def rank_groups(
    problem: Problem,
    options: list[CellOptions],
    target_ns: int,
    *,
    most: int = MAX_COLUMNS,
    keep_going: Callable[[], bool] = lambda: True,
) -> list[ColumnGroup] | None:
    """Return the group of all columns of each rank; None when there are more than `most`, or it takes too long."""
    loads = max_loads(problem, target_ns)
    groups: list[ColumnGroup] = []
    for rank, load in enumerate(loads):
        if not keep_going():
            return None
        capacity = min(most, MAX_COLUMNS) - sum(map(len, groups))
        group = _combine(problem, options, rank, load, capacity, most_steps=min(MAX_STEPS, _STEPS * most))
        if group is None:
            return None
        groups.append(group)
    while all(len(group) for group in groups):
        low = [int(group.keys[0].min()) for group in groups]
        high = [int(group.keys[0].max()) for group in groups]
        minimum = [max(low[r], problem.num_layers - sum(high) + high[r]) for r in range(problem.num_ranks)]
        maximum = [min(high[r], problem.num_layers - sum(low) + low[r]) for r in range(problem.num_ranks)]
        if minimum == low and maximum == high:
            break
        groups = [
            group.select((group.keys[0] >= minimum[rank]) & (group.keys[0] <= maximum[rank]))
            for rank, group in enumerate(groups)
        ]
    return groups


def _combine(
    problem: Problem,
    options: list[CellOptions],
    rank: int,
    max_load: int,
    capacity: int,
    *,
    most_steps: int,
) -> ColumnGroup | None:
    """Return the columns of one rank; None when there are more than `capacity` or they take too many steps."""
    cells = tuple(problem.schedule.stage_table[:, rank].tolist())
    own = tuple(options[cell] for cell in cells)
    offsets = np.concatenate(([0], np.cumsum([len(cell_options) for cell_options in own])))
    faster = np.concatenate(
        [
            np.where(cell_options.faster >= 0, cell_options.faster + offset, -1)
            for cell_options, offset in zip(own, offsets, strict=False)
        ]
    )
    # One that holds less may leave room for others, even if it is slower; and what is computed again before pairs may
    # be more than all that both keep.
    if rank in problem.keepers or (problem.beside and problem.sums.recomputes_first):
        faster[:] = -1
    room = int(problem.limits[rank] - problem.constants[rank])
    rows = np.concatenate((problem.live[rank], whole_pairs(problem, rank)))
    size = min(_FIRST_CAPACITY, prod(map(len, own)))
    while True:
        columns = np.zeros((min(size, capacity), len(cells)), dtype=np.int32)
        num_columns = compiled(combine)(
            np.concatenate([each.forward_ns + each.backward_ns - each.saved_ns for each in own]),
            np.stack([np.concatenate([getattr(each, name) for each in own]) for name in problem.held]),
            np.concatenate([cell_options.working_bytes for cell_options in own]),
            np.concatenate([cell_options.parameter_bytes for cell_options in own]),
            np.concatenate([cell_options.first_run for cell_options in own]),
            np.concatenate([cell_options.last_run for cell_options in own]),
            faster,
            offsets,
            rows,
            len(problem.live[rank]),
            room,
            max_load,
            capacity,
            most_steps,
            columns,
        )
        if num_columns < 0:
            return None
        if num_columns <= len(columns):
            chosen = columns[:num_columns] - offsets[:-1].astype(np.int32)
            group = ColumnGroup(cells=cells, options=own, chosen=chosen)
            return group.select(fits_in_pairs(problem, rank, own, group.chosen))
        size = num_columns


def cell_groups(options: list[CellOptions]) -> list[ColumnGroup]:
    """Return a group for each cell: far fewer columns, but memory couples the groups of a rank."""
    return [
        ColumnGroup(
            cells=(cell,), options=(cell_options,), chosen=np.arange(len(cell_options), dtype=np.int32).reshape(-1, 1)
        )
        for cell, cell_options in enumerate(options)
    ]
