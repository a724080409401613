"""A linear program that grows: rows and columns are added between solves, which start from the last basis."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.solve.backends.highs import INFINITY, Values

Column = tuple[NDArray[np.int32], Values]
"""Row indices and entries."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearSolution:
    """An optimal point."""

    objective: float
    values: Values
    """Of the columns."""
    duals: Values
    """Of the rows."""


class Infeasible(Exception):
    """No point satisfies the rows."""


class LinearProgram:
    """To minimise; all columns are at least zero. highspy is imported when the first one is made."""

    def __init__(self, *, primal: bool) -> None:
        """`primal` starts solves with the primal simplex method, which suits programs that mostly gain columns."""
        import highspy

        self._library = highspy
        self._highs: Any = highspy.Highs()
        self._highs.setOptionValue("output_flag", False)
        self._highs.setOptionValue("threads", 1)
        if primal:
            self._highs.setOptionValue("simplex_strategy", 4)

    @property
    def num_columns(self) -> int:
        """Columns so far."""
        return int(self._highs.getNumCol())

    def add_rows(self, lower: Values, upper: Values, rows: list[Column] | None = None) -> None:
        """Add ``lower <= row <= upper``; `rows` hold column indices and entries (none: empty rows)."""
        if not len(lower):
            return
        starts, indices, entries = _packed(rows or [(np.zeros(0, dtype=np.int32), np.zeros(0))] * len(lower))
        self._highs.addRows(len(lower), lower, upper, len(indices), starts, indices, entries)

    def add_packed_rows(
        self, lower: Values, starts: NDArray[np.int32], indices: NDArray[np.int32], entries: Values
    ) -> None:
        """Add rows that are at least `lower`: row i has the entries from ``starts[i]`` to ``starts[i + 1]``."""
        upper = np.full(len(lower), INFINITY)
        self._highs.addRows(len(lower), lower, upper, len(indices), starts[:-1], indices, entries)

    def add_columns(self, costs: Values, columns: list[Column]) -> None:
        """Add columns from zero to infinity."""
        if columns:
            starts, indices, entries = _packed(columns)
            no_limit = np.full(len(columns), INFINITY)
            self._highs.addCols(
                len(columns), costs, np.zeros(len(columns)), no_limit, len(indices), starts, indices, entries
            )

    def set_upper(self, columns: NDArray[np.int32], upper: float) -> None:
        """Bound columns from above."""
        self._highs.changeColsBounds(len(columns), columns, np.zeros(len(columns)), np.full(len(columns), upper))

    def solve(self) -> LinearSolution | None:
        """An optimal point, or None where numerical trouble prevented one; raises Infeasible."""
        self._highs.run()
        status = self._highs.getModelStatus()
        if status == self._library.HighsModelStatus.kInfeasible:
            raise Infeasible
        if status != self._library.HighsModelStatus.kOptimal:
            return None
        solution = self._highs.getSolution()
        return LinearSolution(
            objective=self._highs.getInfo().objective_function_value,
            values=np.array(solution.col_value),
            duals=np.array(solution.row_dual),
        )


def _packed(vectors: list[Column]) -> tuple[NDArray[np.int32], NDArray[np.int32], Values]:
    """Sparse vectors one behind the other: where each begins, indices, entries."""
    lengths = [len(indices) for indices, _ in vectors]
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int32)
    return starts, np.concatenate([i for i, _ in vectors]), np.concatenate([e for _, e in vectors])
