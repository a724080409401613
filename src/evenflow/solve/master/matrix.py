"""The rows of the master program, and the columns of a group in them.

durations   one for each cell and operation: the sum over the chosen columns is the cell's duration; where anything is
            moved to the host, also that of its copies; where forwards run beside backwards, also one for each pair of
            cells of a rank, exact for columns of ranks, and at least as long as for columns of cells
conserve    one for each run of equal layers: all its layers are held
order       one for each pair of neighbouring cells and run but the first: cells follow the order of the runs
memory      one for each live vector of each rank, where cells are chosen one by one
pools       one for each rank that keeps something for others, where ranks are chosen whole: its memory with their pools
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import NUM_OPS, Op
from evenflow.simulate import Integers, no_time_class
from evenflow.solve.backends.packed import Packed
from evenflow.solve.columns.cell_options import CellOptions, merged_runs
from evenflow.solve.columns.pair_columns import saved_by_column
from evenflow.solve.columns.rank_columns import ColumnGroup
from evenflow.solve.master.critical_paths import Chains
from evenflow.solve.problem import Problem
from evenflow.units import GIGABYTE

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """The layout of the rows: the first row of each kind, with durations first."""

    num_cells: int
    ops: tuple[Op, ...]
    """Operations that the schedule uses."""
    has_copies: bool
    """Whether cells move anything to the host."""
    num_pairs: int
    """Pairs of a forward and a backward of one rank, each with a class; 0 where none run beside each other."""
    run_sizes: tuple[int, ...]
    memory_starts: tuple[int, ...] | None
    """First memory row of each rank and the end of all; None where memory has no rows."""
    keepers: tuple[int, ...]
    """Ranks that keep something for others, each with a row; none where memory has rows."""

    @property
    def conserve(self) -> int:
        """First of the rows that hold all layers of each run."""
        return self.pairs + self.num_pairs

    @property
    def copies(self) -> int:
        """First of the rows for the durations of copies, one for each cell."""
        return len(self.ops) * self.num_cells

    @property
    def no_time(self) -> int:
        """Row for what takes no time, behind those of copies; there is none without copies and pairs."""
        return self.copies + (self.num_cells if self.has_copies else 0)

    @property
    def pairs(self) -> int:
        """First of the rows for the durations of pairs."""
        return self.no_time + (1 if self.has_copies or self.num_pairs else 0)

    @property
    def duration_classes(self) -> Integers:
        """Class (see `Graph`) of each duration row."""
        classes = [NUM_OPS * cell + op for cell in range(self.num_cells) for op in self.ops]
        last = no_time_class(self.num_cells)
        classes += range(last - (self.no_time - self.copies), last - self.no_time + self.pairs + self.num_pairs)
        return np.array(classes, dtype=np.int64)

    @property
    def order(self) -> int:
        """First of the order rows: for each cell but the last and each run j but the first.

        If the cell ends in run j or later, the next cell begins there or later.
        """
        return self.conserve + len(self.run_sizes)

    @property
    def memory(self) -> int:
        """First of the rows for the live vectors of ranks."""
        return self.order + (self.num_cells - 1) * (len(self.run_sizes) - 1)

    @classmethod
    def of(cls, problem: Problem, *, by_cell: bool) -> "RowLayout":
        """Return the layout for groups of ranks, or of cells (`by_cell`), which need the memory rows."""
        layout = cls(
            num_cells=problem.num_cells,
            ops=problem.schedule.used_ops,
            has_copies=problem.graph.copied is not None,
            num_pairs=problem.num_cells * problem.num_chunks if problem.schedule.has_pairs else 0,
            run_sizes=tuple(run.count for run in merged_runs(problem)),
            memory_starts=None,
            keepers=() if by_cell else problem.keepers,
        )
        if not by_cell:
            return layout
        sizes = [len(vectors) * problem.num_working_rows for vectors in problem.live]
        starts = layout.memory + np.concatenate(([0], np.cumsum(sizes)))
        return replace(layout, memory_starts=tuple(starts.tolist()))

    def bounds(self, problem: Problem) -> tuple[Floats, Floats]:
        """Return the lower and the upper bound of each row."""
        num_order = self.memory - self.order
        # In gigabytes, which keeps the numbers of these rows near one.
        rooms = (problem.limits - problem.constants) / GIGABYTE
        room = np.repeat(rooms, np.diff(self.memory_starts)) if self.memory_starts else rooms[list(self.keepers)]
        durations, sizes = np.zeros(self.conserve), np.array(self.run_sizes, dtype=np.float64)
        lower = np.concatenate((durations, sizes, np.full(num_order + len(room), -np.inf)))
        upper = np.concatenate((durations, sizes, np.zeros(num_order), room))
        return lower, upper


class Matrix:
    """The columns of one group, each of which has an option for every cell of the group.

    Entries are those of its options, of what its pairs save, which the layers of its options say, and of pools.
    """

    def __init__(self, problem: Problem, group: ColumnGroup, rows: RowLayout, factor: float) -> None:
        self._layout = rows
        self._cells = group.cells
        self._chosen = np.ascontiguousarray(group.chosen.T)
        """Shape [num_cells_of_group, num_columns]."""
        self._of_options = [_OptionEntries.of(problem, group, at, rows, factor) for at in range(len(group.cells))]
        self._saved = _SavedEntries.of(problem, group, rows, factor) if rows.num_pairs else None
        self.beside = dict(_beside_pools(problem, group, rows))
        """By row of a keeper, what each column holds itself there, or what is set aside for it, in bytes."""

    def select(self, keep: Mask) -> None:
        """Remove the columns where `keep` is false."""
        self._chosen = np.ascontiguousarray(self._chosen[:, keep])
        if self._saved is not None:
            self._saved = replace(self._saved, contents=self._saved.contents[keep])
        self.beside = {row: needed[keep] for row, needed in self.beside.items()}

    def columns(self, indices: NDArray[np.int64]) -> Packed:
        """Return the entries of some columns, packed column by column, without the row of their group."""
        layout, count = self._layout, len(indices)
        width = len(layout.run_sizes) - 1
        every = np.arange(count)
        parts = [
            (np.repeat(every, len(own.rows)), np.tile(own.rows, count), own.entries[chosen[indices]].ravel())
            for own, chosen in zip(self._of_options, self._chosen, strict=True)
        ]
        if self._saved is not None:
            entries = self._saved.entries[self._saved.contents[indices]]
            parts.append((np.repeat(every, len(self._saved.rows)), np.tile(self._saved.rows, count), entries.ravel()))
        parts += [(every, np.full(count, row), needed[indices] / GIGABYTE) for row, needed in self.beside.items()]
        sizes = np.array(layout.run_sizes, dtype=np.float64)
        for cell, own, chosen in zip(self._cells, self._of_options, self._chosen, strict=True):
            first, last, in_first, in_last = own.places[:, chosen[indices]]
            parts += [(every, layout.conserve + first, in_first), (every, layout.conserve + last, in_last)]
            owner, runs = _intervals(first + 1, last)
            parts.append((owner, layout.conserve + runs, sizes[runs]))
            if cell < layout.num_cells - 1:
                owner, runs = _intervals(np.zeros_like(last), last)
                parts.append((owner, layout.order + cell * width + runs, np.ones(len(runs))))
            if cell:
                owner, runs = _intervals(np.zeros_like(first), first)
                parts.append((owner, layout.order + (cell - 1) * width + runs, np.full(len(runs), -1.0)))
        owners, rows, entries = (np.concatenate(part) for part in zip(*parts, strict=True))
        # Two cells may hold layers of one run: equal rows of a column add up.
        num_rows = int(rows.max(initial=0)) + 1
        keys, place = np.unique(owners * num_rows + rows, return_inverse=True)
        totals = np.bincount(place, weights=entries, minlength=len(keys))
        keys, totals = keys[totals != 0], totals[totals != 0]
        starts = np.searchsorted(keys, np.arange(count + 1) * num_rows)
        return Packed(starts=starts, indices=keys % num_rows, entries=totals)

    def price(self, duals: Floats, indices: NDArray[np.int64] | None = None) -> Floats:
        """Return ``duals @ column`` for each column, or for some."""
        layout = self._layout
        num_runs = len(layout.run_sizes)
        run_duals = duals[layout.conserve : layout.conserve + num_runs]
        whole = np.concatenate(([0.0], np.cumsum(run_duals * layout.run_sizes)))
        order = duals[layout.order : layout.memory].reshape(layout.num_cells - 1, num_runs - 1)
        reaching = np.concatenate((np.zeros((layout.num_cells - 1, 1)), np.cumsum(order, axis=1)), axis=1)
        total: Floats = np.zeros(self._chosen.shape[1] if indices is None else len(indices))
        for cell, own, chosen in zip(self._cells, self._of_options, self._chosen, strict=True):
            first, last, in_first, in_last = own.places
            of_options: Floats = own.entries @ duals[own.rows]
            of_options += run_duals[first] * in_first + run_duals[last] * in_last
            if num_runs > 1:
                of_options += np.where(last > first, whole[last] - whole[np.minimum(first + 1, last)], 0.0)
                if cell < layout.num_cells - 1:
                    of_options += reaching[cell][last]
                if cell:
                    of_options -= reaching[cell - 1][first]
            total += of_options[chosen if indices is None else chosen[indices]]
        if self._saved is not None:
            of_contents: Floats = self._saved.entries @ duals[self._saved.rows]
            contents = self._saved.contents
            total += of_contents[contents if indices is None else contents[indices]]
        for row, needed in self.beside.items():
            total += duals[row] / GIGABYTE * (needed if indices is None else needed[indices])
        return total


@dataclass(frozen=True, eq=False, kw_only=True)
class _OptionEntries:
    """What each option of a cell adds to the columns that choose it."""

    rows: Integers
    entries: Floats
    """Shape [num_options, num_rows]."""
    places: NDArray[np.int32]
    """First and last run, and the layers in them, shape [4, num_options]; these rows are intervals."""

    @classmethod
    def of(cls, problem: Problem, group: ColumnGroup, at: int, rows: RowLayout, factor: float) -> "_OptionEntries":
        options, cell = group.options[at], group.cells[at]
        added: list[tuple[int, NDArray[Any]]] = [
            (len(rows.ops) * cell + slot, durations_of(options, op) * factor) for slot, op in enumerate(rows.ops)
        ]
        if rows.has_copies:
            added.append((rows.copies + cell, options.copy_ns * factor))
        if rows.num_pairs:
            added += [(row, durations * factor) for row, durations in _in_pairs(problem, group, at, rows)]
        if rows.memory_starts is not None:
            rank, chunk = problem.schedule.stage_ranks[cell], int(problem.schedule.stage_chunks[cell])
            # Of the working memory of a rank's cells the largest counts, so there is a row with that of each.
            rows_of_rank = product(problem.live[rank], range(problem.num_working_rows))
            for index, (vector, working_chunk) in enumerate(rows_of_rank):
                needed = options.parameter_bytes
                for part, name in enumerate(problem.held):
                    live = int(vector[part * problem.num_chunks + chunk])
                    needed = needed + live * getattr(options, name)
                if working_chunk == chunk:
                    needed = needed + options.working_bytes
                added.append((rows.memory_starts[rank] + index, needed / GIGABYTE))
        places = [getattr(options, name) for name in ("first_run", "last_run", "in_first", "in_last")]
        return cls(
            rows=np.array([row for row, _entries in added], dtype=np.int64),
            entries=np.stack([entries for _row, entries in added], axis=1).astype(np.float64),
            places=np.stack(places).astype(np.int32),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _SavedEntries:
    """What forwards of the cells of a group save beside backwards of them, less than zero."""

    rows: Integers
    entries: Floats
    """Of each different set of layers, shape [num_contents, num_rows]."""
    contents: NDArray[np.int32]
    """That of each column."""

    @classmethod
    def of(cls, problem: Problem, group: ColumnGroup, rows: RowLayout, factor: float) -> "_SavedEntries":
        spans = [np.stack((own.starts, own.layers), axis=1) for own in group.options]
        key = np.zeros(len(group), dtype=np.int64)
        for at, own in enumerate(spans):
            distinct, of_options = np.unique(own, axis=0, return_inverse=True)
            key = key * len(distinct) + of_options.reshape(-1)[group.chosen[:, at]]
        _keys, columns, contents = np.unique(key, return_index=True, return_inverse=True)
        held = [(own.starts[group.chosen[columns, at]], own.layers[group.chosen[columns, at]])
                for at, own in enumerate(group.options)]  # fmt: skip
        table = problem.halves(problem.cell_speeds[group.cells[0]])
        chunks = problem.schedule.stage_chunks
        saved, saved_rows = [], []
        for forward, first in zip(group.cells, held, strict=True):
            for backward, second in zip(group.cells, held, strict=True):
                saved.append(-factor * saved_by_column(first[0], first[1], second[0], second[1], table))
                saved_rows.append(rows.pairs + forward * problem.num_chunks + int(chunks[backward]))
        return cls(
            rows=np.array(saved_rows, dtype=np.int64),
            entries=np.stack(saved, axis=1),
            contents=contents.reshape(-1).astype(np.int32),
        )


def _beside_pools(problem: Problem, group: ColumnGroup, rows: RowLayout) -> Iterator[tuple[int, Integers]]:
    """Yield the rows of keepers with what each column of a rank holds itself there, or what is set aside for it."""
    if not rows.keepers:
        return
    rank = problem.schedule.stage_ranks[group.cells[0]]

    def of_chunks(name: str) -> Integers:
        """Return these bytes of each column, shape [num_chunks, num_columns]."""
        return np.stack([getattr(options, name)[group.chosen[:, at]] for at, options in enumerate(group.options)])

    if rank in rows.keepers:
        amounts = np.concatenate([of_chunks(name) for name in problem.held])
        held = (problem.live[rank] @ amounts).max(axis=0)
        held += of_chunks("parameter_bytes").sum(axis=0) + of_chunks("working_bytes").max(axis=0)
        yield rows.memory + rows.keepers.index(rank), held
    keeper = problem.keeper_of(rank) if rank in problem.pooled else None
    if keeper is not None:
        pools = (problem.pooled[rank] @ of_chunks("offloaded_bytes")).max(axis=0)
        yield rows.memory + rows.keepers.index(keeper), pools


def durations_of(options: CellOptions, op: Op) -> Integers:
    """Return the duration of one operation under each option."""
    if op == Op.F:
        return options.forward_ns
    if op == Op.B:
        return options.backward_ns
    return options.weight_ns if op == Op.W else options.backward_ns - options.weight_ns


def _in_pairs(problem: Problem, group: ColumnGroup, at: int, rows: RowLayout) -> Iterator[tuple[int, Integers]]:
    """Yield the rows of pairs with what each option of a cell of a group takes in them, with nothing saved.

    Of a column of a cell alone, a backward saves as much beside forwards of other cells as it can: the most.
    """
    cell, options = group.cells[at], group.options[at]
    rank, own = problem.schedule.stage_ranks[cell], int(problem.schedule.stage_chunks[cell])
    for chunk, other in enumerate(problem.schedule.stage_table[:, rank].tolist()):
        yield rows.pairs + cell * problem.num_chunks + chunk, options.forward_ns
        most_saved = options.saved_ns if other not in group.cells else 0
        yield rows.pairs + other * problem.num_chunks + own, options.backward_ns - most_saved


def _intervals(begins: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """Return all integers of the intervals ``begins[i] <= j < ends[i]``, as arrays of i and of j."""
    lengths = np.maximum(ends - begins, 0)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    firsts = np.cumsum(lengths) - lengths
    return owners, np.arange(len(owners)) - np.repeat(firsts, lengths) + np.repeat(begins, lengths)


def chain_rows(chains: Chains, targets: Integers, *, duration_classes: Integers, first_end: int) -> Packed:
    """Return the rows ``end[target] - end[source] - durations`` of all chains.

    The end of ``targets[i]`` (sorted) is column ``first_end + i``, that of ``duration_classes[i]`` (sorted) ``1 + i``.
    """
    sizes = np.diff(chains.starts)
    inner = chains.ends[:, 0] > 0
    starts = np.concatenate(([0], np.cumsum(sizes + 1 + inner)))
    indices = np.empty(starts[-1], dtype=np.int64)
    entries = np.empty(starts[-1])
    places = np.arange(len(chains.classes)) + np.repeat(starts[:-1] - chains.starts[:-1], sizes)
    indices[places], entries[places] = 1 + np.searchsorted(duration_classes, chains.classes), -chains.counts
    at_target = starts[:-1] + sizes
    indices[at_target], entries[at_target] = first_end + np.searchsorted(targets, chains.ends[:, 1]), 1.0
    at_source = at_target[inner] + 1
    indices[at_source], entries[at_source] = first_end + np.searchsorted(targets, chains.ends[inner, 0]), -1.0
    return Packed(starts=starts, indices=indices, entries=entries)


def sink_rows(chains: Chains, targets: Integers, *, first_end: int) -> Packed:
    """Return the rows ``makespan - end[sink]`` of all sinks; makespan is column 0, ends are as in `chain_rows`."""
    count = len(chains.sinks)
    columns = np.zeros((count, 2), dtype=np.int64)
    columns[:, 1] = first_end + np.searchsorted(targets, chains.sinks)
    starts = np.arange(0, 2 * count + 1, 2)
    return Packed(starts=starts, indices=columns.ravel(), entries=np.tile([1.0, -1.0], count))
