"""The smallest contents of cells, under the kinds that keep the least, and the exact memory of ranks with them.

Without working memory a cell has one smallest content for its layers. Otherwise it has a few: the less working memory
it may need, the more activations it keeps, since a layer that drops more computes more of them again at a time. What it
moves to the host is on the device for a while too.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

from evenflow.model import FULL, NONE
from evenflow.simulate import Integers
from evenflow.simulate.costs import SegmentRuns
from evenflow.solve.problem import Problem

Amounts = Integers
"""Bytes of parameters, of activations, of those that wait for weight gradients, of work, and of what the host keeps.

The shape is [..., 5]. All add up but those of work, of which the largest of a rank counts.
"""
_WORKING = 3
"""Place of working bytes among the amounts."""
_CHOSEN = (1, _WORKING, 4)
"""Places of the amounts that recompute kinds change: activations, work, and what the host keeps."""
Segment = tuple[int, int, int, tuple[int, ...]]
"""Activation bytes, working bytes, bytes that the host keeps, and layers by kind."""
_HELD = {"activation_bytes": 1, "until_weight_bytes": 2, "offloaded_bytes": 4}
"""Place among the amounts of what live vectors count."""
_MOST_COMBINATIONS = 100_000
"""Most combinations of the contents of a rank's cells of which the smallest is looked for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CellContents:
    """The choices of layers and of working memory for one cell, one entry each; head and tail are not among them.

    Where all layers are equal only the number of layers counts, and every choice begins at layer 0.
    """

    starts: Integers
    ends: Integers
    amounts: Amounts

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def layers(self) -> Integers:
        """Number of layers of each choice."""
        return self.ends - self.starts

    def select(self, keep: NDArray[np.bool_]) -> "CellContents":
        """Return the choices where `keep` holds."""
        return CellContents(starts=self.starts[keep], ends=self.ends[keep], amounts=self.amounts[keep])


class OutOfTime(Exception):
    """Raised where the contents of all cells would take longer than there is time."""


class SmallestContents:
    """The smallest contents of the cells of `problem`, and the exact memory of ranks that hold them."""

    def __init__(self, problem: Problem, *, keep_going: Callable[[], bool] = lambda: True) -> None:
        """Begin without any; finding all that there are raises OutOfTime once `keep_going` says no."""
        self.problem = problem
        self._keep_going = keep_going
        self.is_uniform = problem.network.is_uniform
        self.is_counted = self.is_uniform and not self._has_choices and not problem.counts_full
        """Whether the size of a cell is its number of layers times that of one."""
        self._by_start: dict[int, tuple[list[list[Segment]], Iterator[list[Segment]]]] = {}
        """Those that are known by first layer, each with what yields the next, of one layer more."""

    def counts(self, bounds: Integers) -> Integers:
        """Return the counts [num_cells, num_kinds] of the smallest cells with the borders `bounds` [num_cells + 1]."""
        return np.array([by_kind for *_, by_kind in self._segments(bounds)], dtype=np.int64)

    def amounts(self, bounds: Integers) -> Amounts:
        """Return the amounts in the smallest cells with the borders `bounds`, shape [num_cells, 5]."""
        starts = self._starts(bounds)
        amounts = self._fixed_amounts(starts, starts + np.diff(bounds))
        amounts[:, _CHOSEN] = [segment[:3] for segment in self._segments(bounds)]
        return amounts

    def _segments(self, bounds: Integers) -> list[Segment]:
        """Return the segments of cells with the borders `bounds` with which each rank's peak is the least."""
        starts = self._starts(bounds).tolist()
        layers = np.diff(bounds).tolist()
        every = [self._smallest(start, count) for start, count in zip(starts, layers, strict=True)]
        chosen = [segments[0] for segments in every]
        if not self._has_choices:
            return chosen
        fixed = self._fixed_amounts(np.array(starts), np.array(starts) + np.diff(bounds))
        for rank in range(self.problem.num_ranks):
            cells = self.cells_of(rank)
            best = -1
            for picked in self._combinations([every[cell] for cell in cells]):
                amounts = fixed[cells]
                amounts[:, _CHOSEN] = [segment[:3] for segment in picked]
                if 0 <= best <= self.peak(rank, amounts):
                    continue
                best = self.peak(rank, amounts)
                for cell, segment in zip(cells, picked, strict=True):
                    chosen[cell] = segment
        return chosen

    def _combinations(self, every: list[list[Segment]]) -> Iterator[tuple[Segment, ...]]:
        """Yield the segments of the cells of a rank that may be smallest together."""
        if self.problem.host_link is not None:
            yield from islice(product(*every), _MOST_COMBINATIONS)
            return
        for limit in sorted({segment[1] for segments in every for segment in segments}):
            # What keeps the least of all that need at most so much working memory; the most frugal comes last.
            picked = [next((segment for segment in segments if segment[1] <= limit), None) for segments in every]
            if None not in picked:
                yield tuple(segment for segment in picked if segment is not None)

    def is_exact(self, bounds: Integers) -> bool:
        """Return whether no contents of cells with the borders `bounds` are smaller than those that are found."""
        if self.problem.host_link is None:
            return True
        pairs = zip(self._starts(bounds).tolist(), np.diff(bounds).tolist(), strict=True)
        numbers = np.array([len(self._smallest(start, count)) for start, count in pairs], dtype=np.float64)
        combinations = numbers[self.problem.schedule.stage_table].prod(axis=0)
        return bool(combinations.max() <= _MOST_COMBINATIONS)

    @cached_property
    def _has_choices(self) -> bool:
        """Whether the layers of a cell may have several smallest contents."""
        return self.problem.sums.has_working or self.problem.host_link is not None or bool(self.problem.sums.segments)

    def peaks(self, bounds: Integers) -> list[int]:
        """Return the peak bytes of each rank when cells have the borders `bounds`."""
        amounts = self.amounts(bounds)
        return [self.peak(rank, amounts[self.cells_of(rank)]) for rank in range(self.problem.num_ranks)]

    @cached_property
    def one_layer(self) -> Amounts:
        """Amounts of each layer where sizes are counted, shape [1, 5]."""
        assert self.is_counted
        return self._contents(np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)).amounts

    def _starts(self, bounds: Integers) -> Integers:
        """Return the first layers of the cells; 0 where layers are equal, since only their number counts."""
        return np.zeros(len(bounds) - 1, dtype=np.int64) if self.is_uniform else bounds[:-1]

    def all_choices(self) -> list[CellContents]:
        """Return for each cell all choices that leave enough layers for the others."""
        problem, num_cells, least = self.problem, self.problem.num_cells, self.problem.min_layers
        spare = problem.num_layers - num_cells * least
        cells = []
        for cell in range(num_cells):
            if self.is_uniform:
                ends = np.arange(least, least + spare + 1)
                if problem.placement is not None:
                    ends = ends[problem.placement.allows(cell, np.zeros_like(ends), ends)]
                cells.append(self._contents(np.zeros_like(ends), ends))
                continue
            starts, ends = np.triu_indices(spare + 1)
            keep = (starts == 0) | (cell > 0)
            if cell == num_cells - 1:
                keep &= ends == spare
            starts, ends = starts + cell * least, ends + (cell + 1) * least
            if problem.placement is not None:
                keep &= problem.placement.allows(cell, starts, ends)
            cells.append(self._contents(starts[keep], ends[keep]))
        return cells

    def every_run(self) -> CellContents:
        """Return all runs of layers that are long enough for a cell, for any cell."""
        starts, ends = np.triu_indices(self.problem.num_layers + 1, self.problem.min_layers)
        if not self.is_uniform:
            return self._contents(starts, ends)
        # Runs of as many layers are alike, whose contents begin at layer 0.
        contents = self._contents(np.zeros_like(starts), ends - starts)
        repeats = self._num_choices[0, ends - starts]
        first = np.repeat(starts, repeats)
        return CellContents(starts=first, ends=first + contents.layers, amounts=contents.amounts)

    def _contents(self, starts: Integers, ends: Integers) -> CellContents:
        """Return all choices for the runs [start, end), those of a run behind one another."""
        repeats = self._num_choices[starts, ends - starts]
        first = np.repeat(np.cumsum(repeats) - repeats, repeats)
        starts, ends = np.repeat(starts, repeats), np.repeat(ends, repeats)
        which = self._first_choice[starts, ends - starts] + np.arange(len(starts)) - first
        amounts = self._fixed_amounts(starts, ends)
        amounts[:, _CHOSEN] = self._every_choice[which]
        return CellContents(starts=starts, ends=ends, amounts=amounts)

    def _fixed_amounts(self, starts: Integers, ends: Integers) -> Amounts:
        """Return the amounts of runs [start, end) that no recompute kind changes; zero for the others."""
        sums = self.problem.sums
        parameters = sums.parameter_bytes[ends] - sums.parameter_bytes[starts]
        waiting = sums.until_weight_bytes[ends] - sums.until_weight_bytes[starts]
        none = np.zeros_like(parameters)
        return np.stack((parameters, none, waiting, none, none), axis=-1)

    @cached_property
    def _num_choices(self) -> Integers:
        """Number of smallest segments by first layer and number of layers."""
        num_layers = self.problem.num_layers
        table = np.zeros((num_layers + 1, num_layers + 1), dtype=np.int64)
        for start in (0,) if self.is_uniform else range(num_layers + 1):
            table[start, : num_layers - start + 1] = [len(segments) for segments in self._all_smallest(start)]
        return table

    @cached_property
    def _first_choice(self) -> Integers:
        """Place of the first of them in `_every_choice`."""
        return (np.cumsum(self._num_choices) - self._num_choices.reshape(-1)).reshape(self._num_choices.shape)

    @cached_property
    def _every_choice(self) -> Integers:
        """Activation and working bytes of all smallest segments, and what the host keeps, shape [num_segments, 3]."""
        starts = (0,) if self.is_uniform else range(self.problem.num_layers + 1)
        return np.array(
            [segment[:3] for start in starts for segments in self._all_smallest(start) for segment in segments],
            dtype=np.int64,
        )

    def _smallest(self, start: int, layers: int) -> list[Segment]:
        """Return the smallest segments of so many layers from `start` on."""
        known, more = self._by_start.setdefault(start, ([], smallest_segments(self.problem, start)))
        while len(known) <= layers:
            known.append(next(more))
        return known[layers]

    def _all_smallest(self, start: int) -> list[list[Segment]]:
        """Return them for every number of layers; raises OutOfTime."""
        most = self.problem.num_layers - start
        for layers in range(most + 1):
            if not self._keep_going():
                raise OutOfTime
            self._smallest(start, layers)
        return self._by_start[start][0]

    # -- memory of ranks -------------------------------------------------------------------------------------------

    def cells_of(self, rank: int) -> list[int]:
        """Return the cells of a rank, chunk by chunk."""
        cells: list[int] = self.problem.schedule.stage_table[:, rank].tolist()
        return cells

    @cached_property
    def _weights(self) -> list[Integers]:
        """Factors of the amounts of each chunk, for each rank, shape [num_vectors, num_chunks, 5].

        Those of working memory, of which only the largest counts, are zero.
        """
        problem, weights = self.problem, []
        for live in problem.live:
            table = np.zeros((len(live), problem.num_chunks, 5), dtype=np.int64)
            table[:, :, 0] = 1
            for part, name in enumerate(problem.held):
                own = slice(part * problem.num_chunks, (part + 1) * problem.num_chunks)
                table[:, :, _HELD[name]] = live[:, own]
            weights.append(table)
        return weights

    def sizes(self, rank: int, chunk: int, amounts: Amounts) -> Integers:
        """Return the bytes of a chunk's contents under each live vector of its rank, shape [num_vectors, ...].

        Working memory is not among them.
        """
        sizes: Integers = np.tensordot(self._weights[rank][:, chunk], amounts, axes=(1, amounts.ndim - 1))
        return sizes

    def base(self, rank: int) -> Integers:
        """Return the bytes beside the layers (constant, head, tail) under each live vector, shape [num_vectors]."""
        problem, network = self.problem, self.problem.network
        base = np.full(len(problem.live[rank]), problem.constants[rank], dtype=np.int64)
        for block, at in ((network.head, 0), (network.tail, problem.num_cells - 1)):
            amounts = np.array(
                [block.parameter_bytes, block.activation_bytes, block.until_weight_bytes, 0, 0], dtype=np.int64
            )
            for chunk, cell in enumerate(self.cells_of(rank)):
                if cell == at:
                    base += self.sizes(rank, chunk, amounts)
        return base

    def working(self, rank: int, amounts: Amounts) -> Integers:
        """Return the working bytes of `amounts` [..., 5], at least those of head and tail where the rank has them."""
        network, cells = self.problem.network, self.cells_of(rank)
        ends = (network.head, 0), (network.tail, self.problem.num_cells - 1)
        least = max((block.working_bytes for block, at in ends if at in cells), default=0)
        return np.maximum(amounts[..., _WORKING], least)

    def peak(self, rank: int, amounts: Amounts) -> int:
        """Return the peak bytes of a rank whose chunks hold `amounts`, shape [num_chunks, 5]."""
        held = sum(self.sizes(rank, chunk, amounts[chunk]) for chunk in range(self.problem.num_chunks))
        return int((self.base(rank) + held).max() + self.working(rank, amounts).max())

    def below(self, choices: list[CellContents], peak_bytes: int) -> list[CellContents]:
        """Return the choices with which a rank stays below `peak_bytes` if its other cells hold as little as they can.

        With one chunk a rank has no other cell, so all choices left are below. Where a cell has none, there is no plan.
        """
        kept = list(choices)
        if any(len(cell) == 0 for cell in kept):
            return kept
        least = [cell.amounts.min(axis=0) for cell in kept]
        for rank in range(self.problem.num_ranks):
            cells = self.cells_of(rank)
            lows = [self.sizes(rank, chunk, least[cell]) for chunk, cell in enumerate(cells)]
            low = self.base(rank) + sum(lows)
            low_working = np.array([self.working(rank, least[cell]) for cell in cells])
            for chunk, cell in enumerate(cells):
                others = (low - lows[chunk])[:, np.newaxis]
                sizes = self.sizes(rank, chunk, kept[cell].amounts)
                working = np.maximum(low_working.max(), self.working(rank, kept[cell].amounts))
                kept[cell] = kept[cell].select((others + sizes).max(axis=0) + working < peak_bytes)
        return kept

    @cached_property
    def step_bytes(self) -> int:
        """Bytes of which all differences between peaks are multiples; 0 where all peaks are equal."""
        sums, network = self.problem.sums, self.problem.network
        ends = [
            size
            for block in (network.head, network.tail)
            for size in (block.parameter_bytes, block.activation_bytes, block.until_weight_bytes, block.working_bytes)
        ]
        summed = [sums.parameter_bytes, sums.until_weight_bytes, sums.activation_bytes]
        summed += [] if sums.offloaded_bytes is None else [sums.offloaded_bytes]
        ends += np.diff(self.problem.constants).tolist()
        amounts = [*(np.diff(sizes).reshape(-1) for sizes in summed), sums.working_bytes.reshape(-1), np.array(ends)]
        return int(np.gcd.reduce(np.concatenate(amounts)))


def smallest_segments(problem: Problem, start: int) -> Iterator[list[Segment]]:
    """Yield the smallest segments of 0, 1, 2, … layers from `start` on, the fewest activation bytes first.

    None keeps less and needs no more working memory than another. The layers of a cell stand in the order of the kinds;
    two kinds may exclude each other.
    """
    if problem.counts_full:
        for layers in range(problem.num_layers - start + 1):
            yield _smallest_of(_counted_segments(problem, start, layers))
        return
    saved_bytes = np.diff(problem.sums.activation_bytes, axis=1)
    needed = problem.sums.working_bytes
    moved_bytes = np.zeros_like(saved_bytes)
    if problem.sums.offloaded_bytes is not None:
        moved_bytes = np.diff(problem.sums.offloaded_bytes, axis=1)
    nothing = [(0, 0, 0, (0,) * len(problem.kinds))]
    # For each family, the best whose last layer is at most of each of its kinds.
    rows = [[nothing] * len(kinds) for kinds in problem.families]
    yield nothing
    for at in range(start, problem.num_layers):
        best: list[Segment] = []
        for kinds, row in zip(problem.families, rows, strict=True):
            for position, kind in enumerate(kinds):
                runs = problem.sums.segments.get(kind)
                if runs is not None:
                    longer = [_longer(segment, kind, at + 1, runs) for segment in row[position]]
                    row[position] = _smallest_by_count(longer + (row[position - 1] if position else []), kind)
                    continue
                more = [
                    (
                        size + int(saved_bytes[kind, at]),
                        max(working, int(needed[kind, at])),
                        moved + int(moved_bytes[kind, at]),
                        (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :]),
                    )
                    for size, working, moved, counts in row[position]
                ]
                row[position] = _smallest_of(more + row[position - 1]) if position else _smallest_of(more)
            best = _smallest_of(best + row[-1])
        yield best


def _longer(segment: Segment, kind: int, end: int, runs: SegmentRuns) -> Segment:
    """Return what a segment is with the layer before `end` under a kind that computes layers again in segments."""
    size, working, moved, counts = segment
    first = end - 1 - counts[kind]
    return (
        size + int(runs.activation_bytes[first, end] - runs.activation_bytes[first, end - 1]),
        max(working, int(runs.working_bytes[first, end])),
        moved,
        (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :]),
    )


def _smallest_by_count(segments: Iterable[Segment], kind: int) -> list[Segment]:
    """Return the same as `_smallest_of` among those with as many layers under `kind`: what more cost depends on it."""
    by_count: dict[int, list[Segment]] = {}
    for segment in segments:
        by_count.setdefault(segment[-1][kind], []).append(segment)
    return [segment for same in by_count.values() for segment in _smallest_of(same)]


def _counted_segments(problem: Problem, start: int, layers: int) -> Iterator[Segment]:
    """Yield the segments of so many layers where their number bounds those under `full`, which come first."""
    full, none, end = problem.kinds.index(FULL), problem.kinds.index(NONE), start + layers
    activation, working = problem.sums.activation_bytes, problem.sums.working_bytes
    least, most = problem.full_range(layers)
    for count in range(least, most + 1):
        middle = start + count
        by_kind = [0] * len(problem.kinds)
        by_kind[full], by_kind[none] = count, layers - count
        size = activation[full, middle] - activation[full, start] + activation[none, end] - activation[none, middle]
        needed = max(working[full, start:middle].max(initial=0), working[none, middle:end].max(initial=0))
        yield int(size), int(needed), 0, tuple(by_kind)


def _smallest_of(segments: Iterable[Segment]) -> list[Segment]:
    """Return the segments that no other beats in all kinds of memory, the fewest activation bytes first."""
    kept: list[Segment] = []
    for segment in sorted(segments):
        if not any(other[1] <= segment[1] and other[2] <= segment[2] for other in kept):
            kept.append(segment)
    return kept
