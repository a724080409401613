"""Linear least squares, with the weights behind each unknown, the residuals and the condition number.

Columns are scaled to length one first. A count of layers and a count of layers times microbatches differ by orders of
magnitude, and neither rank nor condition should depend on that.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_SMALLEST = 1e-10
"""A singular value below this part of the largest counts as zero: the matrices hold small integers."""
_OUTLIER_RATIO = 10.0
"""A row is out of line when the squared residuals fall to less than this part without it."""


_MOST_EXCHANGES = 10
"""Exchanges for each unknown after which rounding alone can be left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastSquares:
    """Unknowns x that make ``matrix @ x`` closest to the measured values."""

    values: Array
    """Values of the unknowns."""
    weights: Array
    """How much a value moves when the measured value of a row moves by one, ``[unknown][row]``."""
    residuals: Array
    """Measured less computed value, by row."""
    leverages: Array
    """How much a computed value moves with its measured one, 0 to 1, by row."""
    condition_number: float
    """Largest over smallest singular value of the scaled matrix."""

    @property
    def degrees_of_freedom(self) -> int:
        """Rows beyond the unknowns."""
        return len(self.residuals) - len(self.values)

    @property
    def squared_residuals(self) -> float:
        """Sum of the squared residuals."""
        return float(self.residuals @ self.residuals)


def solve(matrix: Array, measured: Array) -> LeastSquares:
    """Return the least squares solution of a matrix of full column rank."""
    lengths = _lengths(matrix)
    left, singular, right = np.linalg.svd(matrix / lengths, full_matrices=False)
    weights = (right.T / singular) @ left.T / lengths[:, None]
    weights[np.abs(weights) < _SMALLEST * np.abs(weights).max(axis=1, keepdims=True)] = 0
    values = weights @ measured
    # One step of refinement takes out what rounding left; the peaks are large beside their differences.
    values = values + weights @ (measured - matrix @ values)
    return LeastSquares(
        values=values,
        weights=weights,
        residuals=measured - matrix @ values,
        leverages=np.minimum((left**2).sum(axis=1), 1.0),
        condition_number=float(singular[0] / singular[-1]),
    )


def not_negative(matrix: Array, measured: Array) -> list[int]:
    """Return the unknowns above zero in the solution closest to `measured` in which none is negative, in order.

    The matrix has full column rank, so there is one such solution; the other unknowns are held at zero in it.
    [Lawson and Hanson, Solving Least Squares Problems, chapter 23]
    """
    scaled = matrix / _lengths(matrix)
    tolerance = _SMALLEST * float(np.linalg.norm(measured))
    values, above = np.zeros(scaled.shape[1]), np.zeros(scaled.shape[1], dtype=bool)
    for _ in range(_MOST_EXCHANGES * len(values)):
        gain = np.where(above, -np.inf, scaled.T @ (measured - scaled @ values))
        if gain.max() <= tolerance:
            break
        above[gain.argmax()] = True
        while True:
            trial = np.zeros_like(values)
            trial[above] = np.linalg.lstsq(scaled[:, above], measured, rcond=None)[0]
            below = above & (trial <= 0)
            if not below.any():
                values = trial
                break
            # Only as far as the first value reaches zero, which is then held there.
            step = float((values[below] / np.maximum(values[below] - trial[below], tolerance)).min())
            values = values + step * (trial - values)
            above &= values > tolerance
    return [int(column) for column in np.flatnonzero(above)]


def undetermined(matrix: Array) -> list[int]:
    """Return the unknowns that the rows leave open: those that some null vector of the matrix touches."""
    _, singular, right = np.linalg.svd(matrix / _lengths(matrix))
    rank = int((singular > _SMALLEST * singular[0]).sum())
    open_part = np.abs(right[rank:]).max(axis=0, initial=0.0)
    return [int(column) for column in np.flatnonzero(open_part > np.sqrt(_SMALLEST))]


def outliers(solution: LeastSquares) -> list[int]:
    """Return the rows that explain nearly all of the residuals, each by itself; several if about equally well.

    There are none where nothing would be left to disagree: with less than two rows beyond the unknowns.
    """
    free = 1 - solution.leverages
    if solution.degrees_of_freedom < 2:
        return []
    total = solution.squared_residuals
    # What remains when a row is left out. [Cook & Weisberg, Residuals and Influence in Regression, §2.2]
    without = np.maximum(total - solution.residuals**2 / np.maximum(free, _SMALLEST), 0.0)
    without[free < np.sqrt(_SMALLEST)] = total
    least = min(total, float(without.min()) * _OUTLIER_RATIO)
    return [int(row) for row in np.flatnonzero((without * _OUTLIER_RATIO < total) & (without <= least))]


def _lengths(matrix: Array) -> Array:
    """Return the length of every column, and 1 for a column of zeros."""
    lengths = np.linalg.norm(matrix, axis=0)
    return np.where(lengths > 0, lengths, 1.0)
