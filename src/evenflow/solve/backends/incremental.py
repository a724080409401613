"""A linear program that grows between solves, each of which starts from the last basis."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.solve.backends.highs import INFINITY, Values, silent_solver
from evenflow.solve.backends.packed import Packed
from evenflow.solve.clock import counts_work, spend

_SLICE_SECONDS = 5.0
"""Time of one slice of a solve, after which it may be given up."""
_SLICE_ITERATIONS = 5_000
"""Its iterations, where work is counted and not time."""
_SOLVE_SECONDS, _ENTRY_SECONDS = 2e-4, 5e-9
"""Work of a solve, and of an iteration for each entry of the rows."""
_DUAL_SIMPLEX, _PRIMAL_SIMPLEX = 1, 4
"""Numbers of the simplex methods in the library's options."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearSolution:
    """An optimal point of a linear program."""

    objective: float
    values: Values
    """Values of the columns."""
    duals: Values
    """Dual values of the rows."""


class Infeasible(Exception):
    """Raised where no point satisfies the rows."""


class LinearProgram:
    """A linear program to minimise, whose columns are at least zero; highspy is imported when the first one is made."""

    def __init__(self, keep_going: Callable[[], bool] = lambda: True) -> None:
        """Make an empty program, whose solves are given up soon after `keep_going` says no."""
        import highspy

        self._library = highspy
        self._highs: Any = silent_solver()
        self._highs.setOptionValue("threads", 1)
        self._keep_going = keep_going

    @property
    def num_columns(self) -> int:
        """Number of columns so far."""
        return int(self._highs.getNumCol())

    def add_rows(self, lower: Values, upper: Values, rows: Packed) -> None:
        """Add ``lower <= row <= upper``; `rows` hold column indices and entries."""
        self._highs.addRows(len(rows), lower, upper, len(rows.indices), *_arrays(rows))

    @property
    def num_rows(self) -> int:
        """Number of rows so far."""
        return int(self._highs.getNumRow())

    def delete_rows(self, rows: NDArray[np.int32]) -> None:
        """Delete rows; those behind them move up."""
        self._highs.deleteRows(len(rows), rows)

    def add_columns(self, costs: Values, columns: Packed) -> None:
        """Add columns from zero to infinity; `columns` hold row indices and entries."""
        count = len(columns)
        if count:
            no_limit = np.full(count, INFINITY)
            self._highs.addCols(count, costs, np.zeros(count), no_limit, len(columns.indices), *_arrays(columns))

    def set_upper(self, columns: NDArray[np.int32], upper: float) -> None:
        """Set the upper bound of columns."""
        self._highs.changeColsBounds(len(columns), columns, np.zeros(len(columns)), np.full(len(columns), upper))

    def solve(self, *, primal: bool = False) -> LinearSolution | None:
        """Return an optimal point, or None after numerical trouble or without time left; raises Infeasible.

        `primal` takes the primal simplex method, which suits programs that only gained columns since the last solve.
        """
        self._highs.setOptionValue("simplex_strategy", _PRIMAL_SIMPLEX if primal else _DUAL_SIMPLEX)
        while True:  # in slices: the library cannot be interrupted, and going on from the last basis costs time
            if counts_work():
                self._highs.setOptionValue("simplex_iteration_limit", _SLICE_ITERATIONS)
            else:
                self._highs.setOptionValue("time_limit", self._highs.getRunTime() + _SLICE_SECONDS)
            self._highs.run()
            status = self._highs.getModelStatus()
            iterations = self._highs.getInfo().simplex_iteration_count
            spend(_SOLVE_SECONDS + max(0, iterations) * _ENTRY_SECONDS * self._highs.getNumNz())
            ends = (self._library.HighsModelStatus.kTimeLimit, self._library.HighsModelStatus.kIterationLimit)
            if status not in ends or not self._keep_going():
                break
        nothing = (self._library.HighsModelStatus.kInfeasible, self._library.HighsModelStatus.kUnboundedOrInfeasible)
        if status in nothing:  # every program here is bounded below
            raise Infeasible
        if status != self._library.HighsModelStatus.kOptimal:
            return None
        solution = self._highs.getSolution()
        return LinearSolution(
            objective=self._highs.getInfo().objective_function_value,
            values=np.array(solution.col_value),
            duals=np.array(solution.row_dual),
        )


def _arrays(packed: Packed) -> tuple[NDArray[np.int32], NDArray[np.int32], Values]:
    """Return starts, indices and entries as the library takes them."""
    return packed.starts[:-1].astype(np.int32), packed.indices.astype(np.int32), packed.entries
