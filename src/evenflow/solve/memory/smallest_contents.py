"""The smallest contents of cells, under the kinds that keep the least, and the exact memory of ranks with them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import Integers
from evenflow.solve.problem import Problem

Amounts = Integers
"""Bytes of parameters, of activations, and of those that wait for weight gradients, shape [..., 3]."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CellContents:
    """The choices of layers for one cell, one entry each; head and tail are not among them.

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


class SmallestContents:
    """The smallest contents of the cells of `problem`, and the exact memory of ranks that hold them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.is_uniform = problem.network.is_uniform
        self._by_start: dict[int, list[tuple[int, tuple[int, ...]]]] = {}

    def counts(self, bounds: Integers) -> Integers:
        """Return the counts [num_cells, num_kinds] of cells with the borders `bounds` [num_cells + 1]."""
        starts = self._starts(bounds).tolist()
        layers = np.diff(bounds).tolist()
        by_kind = [self._smallest(start)[count][1] for start, count in zip(starts, layers, strict=True)]
        return np.array(by_kind, dtype=np.int64)

    def amounts(self, bounds: Integers) -> Amounts:
        """Return the amounts in cells with the borders `bounds`, shape [num_cells, 3]."""
        starts = self._starts(bounds)
        return self._contents(starts, starts + np.diff(bounds)).amounts

    def peaks(self, bounds: Integers) -> list[int]:
        """Return the peak bytes of each rank when cells have the borders `bounds`."""
        amounts = self.amounts(bounds)
        return [self.peak(rank, amounts[self.cells_of(rank)]) for rank in range(self.problem.num_ranks)]

    @cached_property
    def one_layer(self) -> Amounts:
        """Amounts of the first layer alone, shape [1, 3]; where all are equal, those of each."""
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
                cells.append(self._contents(np.zeros_like(ends), ends))
                continue
            starts, ends = np.triu_indices(spare + 1)
            keep = (starts == 0) | (cell > 0)
            if cell == num_cells - 1:
                keep &= ends == spare
            starts, ends = starts + cell * least, ends + (cell + 1) * least
            cells.append(self._contents(starts[keep], ends[keep]))
        return cells

    def every_run(self) -> CellContents:
        """Return all runs of layers that are long enough for a cell, for any cell."""
        starts, ends = np.triu_indices(self.problem.num_layers + 1, self.problem.min_layers)
        first = np.zeros_like(starts) if self.is_uniform else starts
        amounts = self._contents(first, first + ends - starts).amounts
        return CellContents(starts=starts, ends=ends, amounts=amounts)

    def _contents(self, starts: Integers, ends: Integers) -> CellContents:
        sums = self.problem.sums
        amounts = np.stack(
            (
                sums.parameter_bytes[ends] - sums.parameter_bytes[starts],
                self._activation_table[starts, ends - starts],
                sums.until_weight_bytes[ends] - sums.until_weight_bytes[starts],
            ),
            axis=-1,
        )
        return CellContents(starts=starts, ends=ends, amounts=amounts)

    @cached_property
    def _activation_table(self) -> Integers:
        """Least activation bytes by first layer and number of layers."""
        num_layers = self.problem.num_layers
        table = np.zeros((num_layers + 1, num_layers + 1), dtype=np.int64)
        for start in (0,) if self.is_uniform else range(num_layers + 1):
            table[start, : num_layers - start + 1] = [size for size, _ in self._smallest(start)]
        return table

    def _smallest(self, start: int) -> list[tuple[int, tuple[int, ...]]]:
        if start not in self._by_start:
            self._by_start[start] = smallest_segments(self.problem, start)
        return self._by_start[start]

    # -- memory of ranks -------------------------------------------------------------------------------------------

    def cells_of(self, rank: int) -> list[int]:
        """Return the cells of a rank, chunk by chunk."""
        cells: list[int] = self.problem.schedule.stage_table[:, rank].tolist()
        return cells

    @cached_property
    def _weights(self) -> list[Integers]:
        """Factors of the amounts of each chunk, for each rank, shape [num_vectors, num_chunks, 3]."""
        problem, weights = self.problem, []
        for live in problem.live:
            table = np.ones((len(live), problem.num_chunks, 3), dtype=np.int64)
            table[:, :, 1] = live[:, : problem.num_chunks]
            table[:, :, 2] = live[:, problem.num_chunks :] if problem.schedule.splits_backward else 0
            weights.append(table)
        return weights

    def sizes(self, rank: int, chunk: int, amounts: Amounts) -> Integers:
        """Return the bytes of a chunk's contents under each live vector of its rank, shape [num_vectors, ...]."""
        sizes: Integers = np.tensordot(self._weights[rank][:, chunk], amounts, axes=(1, amounts.ndim - 1))
        return sizes

    def base(self, rank: int) -> Integers:
        """Return the bytes beside the layers (constant, head, tail) under each live vector, shape [num_vectors]."""
        problem, network = self.problem, self.problem.network
        base = np.full(len(problem.live[rank]), network.constant_bytes, dtype=np.int64)
        for block, at in ((network.head, 0), (network.tail, problem.num_cells - 1)):
            amounts = np.array(
                [block.parameter_bytes, block.activation_bytes, block.until_weight_bytes], dtype=np.int64
            )
            for chunk, cell in enumerate(self.cells_of(rank)):
                if cell == at:
                    base += self.sizes(rank, chunk, amounts)
        return base

    def peak(self, rank: int, amounts: Amounts) -> int:
        """Return the peak bytes of a rank whose chunks hold `amounts`, shape [num_chunks, 3]."""
        held = sum(self.sizes(rank, chunk, amounts[chunk]) for chunk in range(self.problem.num_chunks))
        return int((self.base(rank) + held).max())

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
            for chunk, cell in enumerate(cells):
                others = (low - lows[chunk])[:, np.newaxis]
                sizes = self.sizes(rank, chunk, kept[cell].amounts)
                kept[cell] = kept[cell].select((others + sizes).max(axis=0) < peak_bytes)
        return kept

    @cached_property
    def step_bytes(self) -> int:
        """Bytes of which all differences between peaks are multiples; 0 where all peaks are equal."""
        sums, network = self.problem.sums, self.problem.network
        ends = [
            size
            for block in (network.head, network.tail)
            for size in (block.parameter_bytes, block.activation_bytes, block.until_weight_bytes)
        ]
        each = (sums.parameter_bytes, sums.until_weight_bytes, sums.activation_bytes)
        return int(np.gcd.reduce(np.concatenate([np.diff(sizes).reshape(-1) for sizes in each] + [np.array(ends)])))


def smallest_segments(problem: Problem, start: int) -> list[tuple[int, tuple[int, ...]]]:
    """Return for each number of layers from `start` on the least activation bytes and the layers by kind that reach it.

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
