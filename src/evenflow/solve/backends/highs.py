"""Linear and mixed-integer programs with HiGHS. highspy is imported at the first solve."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.solve.clock import counts_work, now_s, spend

Values = NDArray[np.float64]
INFINITY = float("inf")
_LEAST_SECONDS = 0.01
"""Least time limit of a solve: the library takes none below zero."""
_EVENT_SECONDS, _ENTRY_SECONDS = 1e-3, 2e-7
"""Work between two moments at which a solve of integers asks whether to go on, and for each entry of its rows."""
_TOLERANCE = 1e-7
"""Largest violation of rows and integers in a point, a tenth of that which callers allow for."""


@cache
def _silent_solver() -> Any:
    import highspy

    class Silent(highspy.Highs):  # type: ignore[misc]
        def enableCallbacks(self) -> None:  # noqa: N802 (the library's name, which its constructor calls)
            # Version 1.16 writes its name and licence to standard output here, before any caller could set an option.
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    return Silent


def silent_solver() -> Any:
    """Return a new solver of highspy that writes nothing to standard output."""
    solver = _silent_solver()()
    solver.setOptionValue("output_flag", False)  # where a version's constructor does not call `enableCallbacks`
    return solver


@dataclass(frozen=True, kw_only=True)
class ProgramSolution:
    """The result of solving a program."""

    status: str
    """``optimal``, ``infeasible``, or ``stopped`` (time limit, objective bound, interrupt)."""
    values: Values | None
    """Values of the columns; None without a feasible point."""
    objective: float
    bound: float
    """Lower bound on the objective; -inf if nothing is known."""


@dataclass(kw_only=True)
class Program:
    """A linear or mixed-integer program to minimise, built column by column and row by row."""

    _costs: list[float] = field(default_factory=list)
    _lower: list[float] = field(default_factory=list)
    _upper: list[float] = field(default_factory=list)
    _integer: list[bool] = field(default_factory=list)
    _row_lower: list[float] = field(default_factory=list)
    _row_upper: list[float] = field(default_factory=list)
    _row_starts: list[int] = field(default_factory=lambda: [0])
    _indices: list[NDArray[np.int32]] = field(default_factory=list)
    _entries: list[Values] = field(default_factory=list)
    _running: Any = None
    _is_cancelled: bool = False

    @property
    def num_columns(self) -> int:
        """Number of columns so far."""
        return len(self._costs)

    def column(self, *, cost: float = 0.0, lower: float = 0.0, upper: float = INFINITY, integer: bool = False) -> int:
        """Add one column; returns its index."""
        self._costs.append(cost)
        self._lower.append(lower)
        self._upper.append(upper)
        self._integer.append(integer)
        return len(self._costs) - 1

    def columns(self, count: int, *, lower: float = 0.0, upper: float = INFINITY, integer: bool = False) -> range:
        """Add `count` equal columns without cost; returns their indices."""
        first = len(self._costs)
        self._costs += [0.0] * count
        self._lower += [lower] * count
        self._upper += [upper] * count
        self._integer += [integer] * count
        return range(first, first + count)

    def row(
        self,
        indices: Iterable[int] | NDArray[Any],
        entries: Iterable[float] | NDArray[Any],
        *,
        lower: float = -INFINITY,
        upper: float = INFINITY,
    ) -> None:
        """Add ``lower <= sum(entries * columns[indices]) <= upper``."""
        index_array = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices), dtype=np.int32)
        entry_array = np.asarray(entries if isinstance(entries, np.ndarray) else list(entries), dtype=np.float64)
        self._indices.append(index_array)
        self._entries.append(entry_array)
        self._row_starts.append(self._row_starts[-1] + len(index_array))
        self._row_lower.append(lower)
        self._row_upper.append(upper)

    def solve(self, *, time_limit_s: float) -> ProgramSolution:
        """Minimise the objective within a time limit."""
        import highspy

        highs = silent_solver()
        for name, value in (
            ("time_limit", INFINITY if counts_work() else max(_LEAST_SECONDS, time_limit_s)),
            ("threads", 1),
            ("mip_rel_gap", 0.0),
            ("mip_abs_gap", 0.0),
            ("mip_feasibility_tolerance", _TOLERANCE),
        ):
            highs.setOptionValue(name, value)
        highs.passModel(self._model(highspy))
        highs.HandleUserInterrupt = True
        if counts_work():
            self._count_work(highs, now_s() + time_limit_s)
        self._running = highs
        if self._is_cancelled:
            return ProgramSolution(status="stopped", values=None, objective=INFINITY, bound=-INFINITY)
        highs.run()
        return self._solution(highspy, highs)

    def _count_work(self, highs: Any, end_s: float) -> None:
        """Let a solve report its work, and end where that is too much: the library counts only branches and time."""
        num_entries = sum(map(len, self._entries))

        def on_event(event: Any) -> None:
            spend(_EVENT_SECONDS + _ENTRY_SECONDS * num_entries)
            if now_s() >= end_s:
                event.interrupt()

        highs.cbMipInterrupt += on_event

    def cancel(self) -> None:
        """Make a `solve` that runs in another thread, or begins later, return soon with its best point so far."""
        self._is_cancelled = True
        if self._running is not None:
            self._running.cancelSolve()

    def _model(self, highspy: Any) -> Any:
        model = highspy.HighsLp()
        model.num_col_ = len(self._costs)
        model.num_row_ = len(self._row_lower)
        model.col_cost_ = np.array(self._costs)
        model.col_lower_ = np.array(self._lower)
        model.col_upper_ = np.array(self._upper)
        model.row_lower_ = np.array(self._row_lower)
        model.row_upper_ = np.array(self._row_upper)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(self._row_starts, dtype=np.int32)
        model.a_matrix_.index_ = np.concatenate(self._indices) if self._indices else np.zeros(0, dtype=np.int32)
        model.a_matrix_.value_ = np.concatenate(self._entries) if self._entries else np.zeros(0)
        if any(self._integer):
            kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
            model.integrality_ = [kinds[integer] for integer in self._integer]
        return model

    def _solution(self, highspy: Any, highs: Any) -> ProgramSolution:
        status = highs.getModelStatus()
        info = highs.getInfo()
        is_linear = not any(self._integer)
        nothing = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)
        if status in nothing:  # every program here is bounded below
            return ProgramSolution(status="infeasible", values=None, objective=INFINITY, bound=INFINITY)
        optimal = status == highspy.HighsModelStatus.kOptimal
        has_point = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        solution = highs.getSolution() if has_point else None
        objective = info.objective_function_value if has_point else INFINITY
        if is_linear:
            bound = objective if optimal else -INFINITY
        else:
            bound = info.mip_dual_bound
        return ProgramSolution(
            status="optimal" if optimal else "stopped",
            values=np.array(solution.col_value) if solution else None,
            objective=objective,
            bound=bound,
        )
