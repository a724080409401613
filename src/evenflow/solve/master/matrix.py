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
    """The columns of one group.

    Entries in rows of durations and memory are stored; those in rows of runs are intervals, which prefix sums price.
    """

    def __init__(self, problem: Problem, group: ColumnGroup, rows: RowLayout, factor: float) -> None:
        self._layout = rows
        self._cells = group.cells
        picked = [(options, group.chosen[:, at]) for at, options in enumerate(group.options)]
        shared, shared_rows = [], []
        for slot, op in enumerate(rows.ops):
            shared += [durations_of(options, op)[own] * factor for options, own in picked]
            shared_rows += [len(rows.ops) * cell + slot for cell in group.cells]
        if rows.has_copies:
            shared += [options.copy_ns[own] * factor for options, own in picked]
            shared_rows += [rows.copies + cell for cell in group.cells]
        if rows.num_pairs:
            for (forward, chunk), durations in _pair_durations(problem, group):
                shared.append(durations * factor)
                shared_rows.append(rows.pairs + forward * problem.num_chunks + chunk)
        if rows.memory_starts is not None:
            (cell,) = group.cells
            rank, chunk = problem.schedule.stage_ranks[cell], int(problem.schedule.stage_chunks[cell])
            options, own = picked[0]
            # Of the working memory of a rank's cells the largest counts, so there is a row with that of each.
            rows_of_rank = product(problem.live[rank], range(problem.num_working_rows))
            for index, (vector, working_chunk) in enumerate(rows_of_rank):
                needed = options.parameter_bytes[own]
                for part, name in enumerate(problem.held):
                    live = int(vector[part * problem.num_chunks + chunk])
                    needed = needed + live * getattr(options, name)[own]
                if working_chunk == chunk:
                    needed = needed + options.working_bytes[own]
                shared.append(needed / GIGABYTE)
                shared_rows.append(rows.memory_starts[rank] + index)
        self.beside = dict(_beside_pools(problem, group, rows))
        """By row of a keeper, what each column holds itself there, or what is set aside for it, in bytes."""
        for row, needed in self.beside.items():
            shared.append(needed / GIGABYTE)
            shared_rows.append(row)
        self._shared = np.stack(shared, axis=1)
        self._rows = np.array(shared_rows, dtype=np.int64)
        self._places = np.stack(
            [
                np.stack([getattr(options, name)[own] for name in ("first_run", "last_run", "in_first", "in_last")])
                for options, own in picked
            ]
        ).astype(np.int32)
        """Shape [num_cells_of_group, 4, num_columns]."""

    def select(self, keep: Mask) -> None:
        """Remove the columns where `keep` is false."""
        self._shared = self._shared[keep]
        self.beside = {row: needed[keep] for row, needed in self.beside.items()}
        self._places = np.ascontiguousarray(self._places[:, :, keep])

    def columns(self, indices: NDArray[np.int64]) -> Packed:
        """Return the entries of some columns, packed column by column, without the row of their group."""
        layout, count = self._layout, len(indices)
        width = len(layout.run_sizes) - 1
        every = np.arange(count)
        parts = [(np.repeat(every, len(self._rows)), np.tile(self._rows, count), self._shared[indices].ravel())]
        sizes = np.array(layout.run_sizes, dtype=np.float64)
        for cell, (first, last, in_first, in_last) in zip(self._cells, self._places[:, :, indices], strict=True):
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
        shared, places = self._shared, self._places
        if indices is not None:
            shared, places = shared[indices], places[:, :, indices]
        total: Floats = shared @ duals[self._rows]
        num_runs = len(layout.run_sizes)
        run_duals = duals[layout.conserve : layout.conserve + num_runs]
        whole = np.concatenate(([0.0], np.cumsum(run_duals * layout.run_sizes)))
        order = duals[layout.order : layout.memory].reshape(layout.num_cells - 1, num_runs - 1)
        reaching = np.concatenate((np.zeros((layout.num_cells - 1, 1)), np.cumsum(order, axis=1)), axis=1)
        for cell, (first, last, in_first, in_last) in zip(self._cells, places, strict=True):
            total += run_duals[first] * in_first + run_duals[last] * in_last
            if num_runs > 1:
                total += np.where(last > first, whole[last] - whole[np.minimum(first + 1, last)], 0.0)
                if cell < layout.num_cells - 1:
                    total += reaching[cell][last]
                if cell:
                    total -= reaching[cell - 1][first]
        return total


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


def _pair_durations(problem: Problem, group: ColumnGroup) -> Iterator[tuple[tuple[int, int], Integers]]:
    """Yield what each column adds to the time of a forward's cell beside a backward of a chunk of its rank.

    Columns of a rank say all of it. Of a column of a cell, a forward saves nothing, and a backward as much as beside
    the forward beside which it saves most.
    """
    chunks = problem.schedule.stage_chunks
    of_group = [(cell, int(chunks[cell]), options, group.chosen[:, at]) for at, (cell, options) in enumerate(
        zip(group.cells, group.options, strict=True)
    )]  # fmt: skip
    table = problem.halves(problem.cell_speeds[group.cells[0]])
    for forward, _chunk, options, own in of_group:
        for _backward, chunk, beside, others in of_group:
            saved = saved_by_column(
                options.starts[own], options.layers[own], beside.starts[others], beside.layers[others], table
            )
            yield (forward, chunk), options.forward_ns[own] + beside.backward_ns[others] - saved
    if len(of_group) < problem.num_chunks:
        ((cell, own_chunk, options, own),) = of_group
        rank = problem.schedule.stage_ranks[cell]
        for chunk, other in enumerate(problem.schedule.stage_table[:, rank].tolist()):
            if chunk != own_chunk:
                yield (cell, chunk), options.forward_ns[own]
                yield (other, own_chunk), (options.backward_ns - options.saved_ns)[own]


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
