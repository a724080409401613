"""The integer program in floating point behind the least memory, which takes one choice for each cell.

Where all layers are equal and no action needs working memory, a cell has one integer column, its number of layers;
otherwise a binary column for each of its choices, which join to the whole network. Each rank has a row for each of its
live vectors, and where working memory counts, one with that of each of its cells, as the largest counts. Sizes are
divided by about the size of the answer, so that the library's tolerances are fractions of it.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from evenflow.simulate import Integers
from evenflow.solve.backends.highs import Program, Values
from evenflow.solve.memory.smallest_contents import Amounts, CellContents, SmallestContents


@dataclass(frozen=True, eq=False, kw_only=True)
class TooLarge:
    """Contents that are too large for a rank: at least `amounts` in each of its chunks, shape [num_chunks, 5]."""

    rank: int
    amounts: Amounts


class MemoryProgram:
    """The program over the choices of all cells, without contents that are known to be too large."""

    def __init__(
        self,
        contents: SmallestContents,
        choices: list[CellContents],
        *,
        unit_bytes: int,
        limit_bytes: float | None = None,
        too_large: list[TooLarge],
    ) -> None:
        """Build a program that minimises the peak of the fullest rank, or with `limit_bytes` finds any plan up to it.

        Contents `too_large` are excluded even where rounding would let them pass.
        """
        self.program = Program()
        self._contents = contents
        self._choices = choices
        peak = [self.program.column(cost=1.0)] if limit_bytes is None else []
        if contents.is_counted:
            self._columns = [self._count(cell) for cell in choices]
        else:
            self._columns = [self.program.columns(len(cell), upper=1.0, integer=True) for cell in choices]
        if contents.is_uniform:
            self._add_up()
        else:
            self._join()
        for rank in range(contents.problem.num_ranks):
            self._add_rank(rank, peak, unit_bytes=unit_bytes, limit_bytes=limit_bytes)
        for excluded in too_large:
            self._exclude(excluded)

    def chosen(self, values: Values) -> tuple[Integers, Amounts]:
        """Return the borders of the cells in a solution, and the amounts that it has in them [num_cells, 5]."""
        if self._contents.is_counted:
            layers = [round(float(values[columns[0]])) for columns in self._columns]
            bounds = np.concatenate(([0], np.cumsum(layers)))
            return bounds, self._contents.amounts(bounds)
        chosen = [int(np.argmax(values[columns.start : columns.stop])) for columns in self._columns]
        picked = list(zip(self._choices, chosen, strict=True))
        bounds = np.concatenate(([0], np.cumsum([int(cell.layers[at]) for cell, at in picked])))
        return bounds, np.stack([cell.amounts[at] for cell, at in picked])

    def _count(self, cell: CellContents) -> range:
        column = self.program.column(lower=float(cell.layers[0]), upper=float(cell.layers[-1]), integer=True)
        return range(column, column + 1)

    def _add_up(self) -> None:
        """Add the row by which the layers of all cells add up to those of the network."""
        total = self._contents.problem.num_layers
        counted = self._contents.is_counted
        layers = [np.ones(1) if counted else cell.layers.astype(np.float64) for cell in self._choices]
        columns = np.concatenate([np.array(own) for own in self._columns])
        self.program.row(columns, np.concatenate(layers), lower=total, upper=total)
        for own in [] if counted else self._columns:
            self.program.row(np.array(own), np.ones(len(own)), lower=1.0, upper=1.0)

    def _join(self) -> None:
        """Add the rows by which each cell begins where the one before it ends."""
        first = np.array(self._columns[0])
        self.program.row(first, np.ones(len(first)), lower=1.0, upper=1.0)
        joined = zip(pairwise(self._choices), pairwise(self._columns), strict=True)
        for (before, after), (columns_before, columns_after) in joined:
            for border in np.union1d(before.ends, after.starts):
                ending = np.flatnonzero(before.ends == border) + columns_before.start
                beginning = np.flatnonzero(after.starts == border) + columns_after.start
                signs = np.concatenate((np.ones(len(ending)), -np.ones(len(beginning))))
                self.program.row(np.concatenate((ending, beginning)), signs, lower=0.0, upper=0.0)

    def _add_rank(self, rank: int, peak: list[int], *, unit_bytes: int, limit_bytes: float | None) -> None:
        """Add the rows by which a rank holds no more than the limit, or than the peak to be minimised."""
        cells = self._contents.cells_of(rank)
        columns = np.concatenate([np.array(peak, dtype=np.int64), *(np.array(self._columns[cell]) for cell in cells)])
        amounts = [
            self._contents.one_layer if self._contents.is_counted else self._choices[cell].amounts for cell in cells
        ]
        sizes = np.concatenate(
            [self._contents.sizes(rank, chunk, of_cell) for chunk, of_cell in enumerate(amounts)], axis=1
        )
        bases, rows = self._with_working(rank, self._contents.base(rank), sizes, amounts)
        for base, row in zip(bases.tolist(), rows, strict=True):
            entries = np.concatenate((-np.ones(len(peak)), row / unit_bytes))
            upper = -base / unit_bytes if limit_bytes is None else (limit_bytes - base) / unit_bytes
            self.program.row(columns, entries, upper=upper)

    def _with_working(
        self, rank: int, bases: Integers, sizes: Integers, amounts: list[Amounts]
    ) -> tuple[Integers, Integers]:
        """Return the rows of a rank with working memory: one with that of each of its cells, as the largest counts."""
        working = [self._contents.working(rank, of_cell) for of_cell in amounts]
        if self._contents.is_counted:  # only head and tail may need any
            return bases + max(int(of_cell.max()) for of_cell in working), sizes
        rows = [
            sizes + np.concatenate([of_cell * (place == chunk) for place, of_cell in enumerate(working)])
            for chunk in range(self._contents.problem.num_working_rows)
        ]
        return np.tile(bases, len(rows)), np.concatenate(rows)

    def _exclude(self, excluded: TooLarge) -> None:
        """Add a row by which not all chunks of the rank hold as much as `excluded` does."""
        indices: list[int] = []
        most = -1
        for cell, amounts in zip(self._contents.cells_of(excluded.rank), excluded.amounts, strict=True):
            holds = np.flatnonzero((self._choices[cell].amounts >= amounts).all(axis=1))
            if len(holds) == 0:
                return  # no choice of this cell holds so much
            most += 1
            if not self._contents.is_counted:
                indices += (holds + self._columns[cell].start).tolist()
            elif holds[0] == 0:
                most -= 1  # every choice does
            else:
                indices.append(self._has_layers(cell, int(self._choices[cell].layers[holds[0]])))
        self.program.row(indices, np.ones(len(indices)), upper=float(most))

    def _has_layers(self, cell: int, count: int) -> int:
        """Add a binary column that is 1 where a cell of equal layers holds at least `count` of them; returns it."""
        column = self.program.column(upper=1.0, integer=True)
        more = int(self._choices[cell].layers[-1]) - count + 1
        self.program.row([self._columns[cell][0], column], [1.0, -float(more)], upper=float(count - 1))
        return column
