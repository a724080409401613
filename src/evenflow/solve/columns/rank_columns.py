"""The columns of the proof: complete contents of a rank, or of a cell where ranks have too many.

A program chooses one column of each group. Columns are kept only if a plan with a makespan of at most a target could
contain them: a rank computes nothing before its first forward can reach it nor after its last backward has left it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import Integers
from evenflow.solve.bounds import rank_ramps_ns
from evenflow.solve.columns.cell_options import CellOptions, Segments
from evenflow.solve.columns.pair_columns import pair_memory, saved_by_column
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
    """Return the group of all columns of each rank; None when there are more than `most`, or it takes too long.

    No column has so few layers that the other ranks could not hold all others; where a rank can hold none in the time,
    groups are empty.
    """
    ranks = [
        _RankOptions.of(problem, options, rank, most_work_ns=target_ns - ramp)
        for rank, ramp in enumerate(rank_ramps_ns(problem))
    ]
    most_layers = []
    for own in ranks:
        if not keep_going():
            return None
        held = own.most_layers(most_steps=min(MAX_STEPS, _STEPS * most))
        if held is None:
            return None
        most_layers.append(held)
    spare = sum(most_layers) - problem.num_layers
    if spare < 0 or min(most_layers) < 0:
        return [own.nothing() for own in ranks]
    groups: list[ColumnGroup] = []
    for own, held in zip(ranks, most_layers, strict=True):
        if not keep_going():
            return None
        capacity = min(most, MAX_COLUMNS) - sum(map(len, groups))
        group = own.columns(max(0, held - spare), capacity=capacity, most_steps=min(MAX_STEPS, _STEPS * most))
        if group is None:
            return None
        groups.append(group)
    while all(len(group) for group in groups):
        low = [int(group.keys[0].min()) for group in groups]
        high = [int(group.keys[0].max()) for group in groups]
        maximum = [min(high[r], problem.num_layers - sum(low) + low[r]) for r in range(problem.num_ranks)]
        if maximum == high:
            break
        groups = [group.select(group.keys[0] <= maximum[rank]) for rank, group in enumerate(groups)]
    return groups


@dataclass(frozen=True, eq=False, kw_only=True)
class _RankOptions:
    """The options of the cells of one rank, one cell after the other, and what they need at least."""

    problem: Problem
    rank: int
    cells: tuple[int, ...]
    options: tuple[CellOptions, ...]
    starts: Integers
    """First option of each cell and the end of all."""
    most_work_ns: int
    pairs: Integers
    """How often a forward of each chunk runs beside a backward of each, shape [num_chunks, num_chunks]."""

    @classmethod
    def of(cls, problem: Problem, options: list[CellOptions], rank: int, *, most_work_ns: int) -> "_RankOptions":
        cells = tuple(problem.schedule.stage_table[:, rank].tolist())
        own = tuple(options[cell] for cell in cells)
        return cls(
            problem=problem,
            rank=rank,
            cells=cells,
            options=own,
            starts=np.concatenate(([0], np.cumsum([len(cell_options) for cell_options in own]))),
            most_work_ns=most_work_ns,
            pairs=problem.pair_numbers[list(cells)],
        )

    def most_layers(self, *, most_steps: int) -> int | None:
        """Return the most layers that the rank can hold, -1 where it can hold nothing; None where that takes too long.

        It needs no more than one column: each number that is too large takes a short search.
        """
        least_work, least_memory = self._least
        fits = (least_work[0] <= self.most_work_ns) & (least_memory[0].max(axis=0) <= self._room)
        for layers in np.flatnonzero(fits)[::-1].tolist():
            number = self._combine(layers, capacity=0, most_steps=most_steps, columns=self._no_columns)
            if number is None:
                return None
            if number:
                return int(layers)
        return -1

    def nothing(self) -> ColumnGroup:
        """Return the group without any column."""
        return ColumnGroup(cells=self.cells, options=self.options, chosen=self._no_columns)

    def columns(self, fewest: int, *, capacity: int, most_steps: int) -> ColumnGroup | None:
        """Return the columns of at least the `fewest` layers; None where there are more than `capacity`.

        None too where they take more than `most_steps`.
        """
        size = min(_FIRST_CAPACITY, prod(map(len, self.options)))
        while True:
            columns = np.zeros((min(size, capacity), len(self.cells)), dtype=np.int32)
            num_columns = self._combine(fewest, capacity=capacity, most_steps=most_steps, columns=columns)
            if num_columns is None or num_columns > capacity:
                return None
            if num_columns <= len(columns):
                chosen = columns[:num_columns] - self.starts[:-1].astype(np.int32)
                return ColumnGroup(cells=self.cells, options=self.options, chosen=chosen)
            size = num_columns

    def _combine(self, fewest: int, *, capacity: int, most_steps: int, columns: NDArray[np.int32]) -> int | None:
        """Return the number of columns, of which some are filled (see `combine`); None where that takes too long."""
        # Importing the kernel loads the compiler, which only a proof needs.
        from evenflow.solve.columns.column_kernel import combine

        halves = self.problem.halves(self.problem.cell_speeds[self.cells[0]])
        number = combine(
            self._work_ns,
            self._held,
            self._of_all("working_bytes"),
            self._of_all("parameter_bytes"),
            self._of_all("starts"),
            self._of_all("layers"),
            self._of_all("first_run"),
            self._of_all("last_run"),
            self._faster,
            self.starts,
            self._span_ends,
            self.pairs,
            halves.types,
            halves.saved_ns,
            self._of_all("saved_ns"),
            self.problem.live[self.rank],
            np.concatenate([own.counts for own in self.options]).astype(np.int64),
            pair_memory(self.problem, self.rank),
            self._room,
            self.most_work_ns,
            fewest,
            *self._least,
            capacity,
            most_steps,
            columns,
        )
        return None if number < 0 else int(number)

    @cached_property
    def _least(self) -> tuple[Integers, Integers]:
        """The least work and memory of its last chunks, by layers (see `fill_least`)."""
        from evenflow.solve.columns.column_kernel import fill_least

        live, num_layers = self.problem.live[self.rank], self.problem.num_layers
        least_work = np.zeros((len(self.cells) + 1, num_layers + 1), dtype=np.int64)
        least_memory = np.zeros((len(self.cells) + 1, len(live), num_layers + 1), dtype=np.int64)
        of_chunks = np.repeat(self.pairs.sum(axis=0), np.diff(self.starts))
        fill_least(
            self._work_ns - of_chunks * self._of_all("saved_ns"),
            self._held,
            self._of_all("parameter_bytes"),
            self._of_all("layers"),
            self.starts,
            live,
            least_work,
            least_memory,
        )
        return least_work, least_memory

    @property
    def _room(self) -> int:
        return int(self.problem.limits[self.rank] - self.problem.constants[self.rank])

    @property
    def _no_columns(self) -> NDArray[np.int32]:
        return np.zeros((0, len(self.cells)), dtype=np.int32)

    @cached_property
    def _faster(self) -> Integers:
        """The next faster option of each, or -1."""
        if self.rank in self.problem.keepers:  # one that holds less may leave room for others, even if it is slower
            return np.full(int(self.starts[-1]), -1)
        own = zip(self.options, self.starts, strict=False)
        return np.concatenate([np.where(cell.faster >= 0, cell.faster + start, -1) for cell, start in own])

    @cached_property
    def _span_ends(self) -> Integers:
        """End of the options of the same cell and layers."""
        starts, layers = self._of_all("starts"), self._of_all("layers")
        is_last = np.append((np.diff(starts) != 0) | (np.diff(layers) != 0), True)
        is_last[self.starts[1:] - 1] = True
        ends = np.flatnonzero(is_last) + 1
        return np.repeat(ends, np.diff(ends, prepend=0))

    @cached_property
    def _work_ns(self) -> Integers:
        return self.problem.schedule.num_units * (self._of_all("forward_ns") + self._of_all("backward_ns"))

    @cached_property
    def _held(self) -> Integers:
        return np.stack([self._of_all(name) for name in self.problem.held])

    def _of_all(self, name: str) -> Integers:
        return np.concatenate([getattr(own, name) for own in self.options])


def work_ns(problem: Problem, group: ColumnGroup) -> Integers:
    """Return the time of all actions of each column of a rank, [num_columns], with what forwards save in backwards."""
    cells = list(group.cells)
    numbers = problem.pair_numbers[cells]
    total = np.zeros(len(group), dtype=np.int64)
    starts, sizes = [], []
    for at, own in enumerate(group.options):
        chosen = group.chosen[:, at]
        total += problem.schedule.num_units * (own.forward_ns + own.backward_ns)[chosen]
        starts.append(own.starts[chosen])
        sizes.append(own.layers[chosen])
    halves = problem.halves(problem.cell_speeds[cells[0]])
    for forward, backward in zip(*np.nonzero(numbers), strict=True):
        saved = saved_by_column(starts[forward], sizes[forward], starts[backward], sizes[backward], halves)
        total -= numbers[forward, backward] * saved
    return total


def cell_groups(options: list[CellOptions]) -> list[ColumnGroup]:
    """Return a group for each cell: far fewer columns, but memory couples the groups of a rank."""
    return [
        ColumnGroup(
            cells=(cell,), options=(cell_options,), chosen=np.arange(len(cell_options), dtype=np.int32).reshape(-1, 1)
        )
        for cell, cell_options in enumerate(options)
    ]
