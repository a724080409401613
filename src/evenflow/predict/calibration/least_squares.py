"""Robust nonlinear least squares with weak prior knowledge: Levenberg-Marquardt with numeric derivatives.

Residuals are logarithms of predicted over measured. They count by the pseudo-Huber function, so that a wrong row pulls
no harder than one that is a little off. [Huber, Robust Statistics; Nocedal and Wright, Numerical Optimization, §10.3]
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Residuals = Callable[[Array], Array]

USUAL_SCALE = 0.08
"""Scatter of predictions around measurements where too few runs show it: about that of published runs."""
_WORTH = 2.0
"""Runs that `USUAL_SCALE` counts as."""
_TURN = 1.345
"""Scatters from which on a residual counts linearly: 95 % as efficient as squares if all is normal. [Huber]"""
_STEP = 0.02
"""Of a numeric derivative: wide enough to see past the corners of a roofline."""
_LONGEST = 0.5
"""Longest move of a parameter in one iteration."""
_MOST_ITERATIONS = 25
_MOST_DAMPINGS = 6
_SETTLED = 1e-3
"""Relative decrease of the cost below which iterations end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Prior knowledge of the parameters: each is near zero, within its width, and between two limits."""

    widths: Array
    lower: Array
    upper: Array

    def within(self, point: Array) -> Array:
        """Return the nearest point between the ends."""
        nearest: Array = np.clip(point, self.lower, self.upper)
        return nearest


class Stopped(Exception):
    """Raised to stop a fit: no more residuals are wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastSquaresSolution:
    """The minimum of the cost, and the slopes of the residuals there."""

    point: Array
    residuals: Array
    slopes: Array
    """``[row][parameter]``."""
    scale: float
    """Scatter of the residuals."""
    is_complete: bool = True
    """False where it was stopped on the way."""

    @property
    def weights(self) -> Array:
        """How much a row counts, 0 to 1."""
        return _weights(self.residuals, self.scale)

    def covariance(self, columns: list[int]) -> Array:
        """Return the covariance of some parameters, the others being known, from the rows alone; singular is inf."""
        return covariance(self.slopes[:, columns] * np.sqrt(self.weights)[:, None], self.scale)


def covariance(slopes: Array, scale: float) -> Array:
    """Return the covariance of the parameters of a linear model whose rows scatter by `scale`; singular is inf."""
    size = slopes.shape[1]
    lengths = np.linalg.norm(slopes, axis=0)
    if size == 0 or slopes.shape[0] < size or lengths.min() == 0:
        return np.full((size, size), np.inf)
    _left, singular, right = np.linalg.svd(slopes / lengths, full_matrices=False)
    if singular[-1] < 1e-6 * singular[0]:
        return np.full((size, size), np.inf)
    inverse = right.T / singular
    matrix: Array = scale**2 * (inverse @ inverse.T) / np.outer(lengths, lengths)
    return matrix


def slopes_at(residuals_at: Residuals, point: Array, residuals: Array, limits: Limits) -> Array:
    """Return derivatives by differences, within the limits."""
    columns = []
    for index in range(len(point)):
        step = _STEP if point[index] + _STEP <= limits.upper[index] else -_STEP
        moved = point.copy()
        moved[index] += step
        columns.append((residuals_at(moved) - residuals) / step)
    return np.stack(columns, axis=1) if columns else np.zeros((len(residuals), 0))


def minimise(
    residuals_at: Residuals,
    start: LeastSquaresSolution,
    *,
    limits: Limits,
    noted: Callable[[Array], None] = lambda residuals: None,
) -> LeastSquaresSolution:
    """Return where rows and prior knowledge agree best, from `start`.

    `noted` hears the residuals after every iteration. `Stopped`, raised by `residuals_at`, ends it early.
    """
    best = start
    try:
        for _iteration in range(_MOST_ITERATIONS):
            best = replace(best, scale=scatter(best.residuals, len(start.point)))
            better = _better(residuals_at, best, limits)
            if better is None:
                break
            before, after = _cost(best, limits), _cost(better, limits)
            best = better
            noted(best.residuals)
            best = replace(best, slopes=slopes_at(residuals_at, best.point, best.residuals, limits))
            if before - after < _SETTLED * before:
                break
    except Stopped:
        return replace(best, is_complete=False)
    return replace(best, scale=scatter(best.residuals, len(start.point)))


def _better(residuals_at: Residuals, at: LeastSquaresSolution, limits: Limits) -> LeastSquaresSolution | None:
    """Return a point with a lower cost at the end of a damped Gauss-Newton step; None where there is none."""
    weighted = at.slopes * (at.weights / at.scale**2)[:, None]
    information = at.slopes.T @ weighted + np.diag(limits.widths**-2)
    downhill = -(weighted.T @ at.residuals + at.point / limits.widths**2)
    held = ((at.point >= limits.upper) & (downhill > 0)) | ((at.point <= limits.lower) & (downhill < 0))
    cost = _cost(at, limits)
    damping = 1e-3
    for _try in range(_MOST_DAMPINGS):
        matrix = information + damping * np.diag(np.diag(information))
        matrix[held], matrix[:, held] = 0.0, 0.0
        matrix[held, held] = 1.0
        step = np.linalg.solve(matrix, np.where(held, 0.0, downhill))
        point = limits.within(at.point + np.clip(step, -_LONGEST, _LONGEST))
        trial = replace(at, point=point, residuals=residuals_at(point))
        if _cost(trial, limits) < cost:
            return trial
        damping *= 10
    return None


def linear_point(at: LeastSquaresSolution, rows: npt.NDArray[np.intp], limits: Limits) -> Array:
    """Return where the cost of some of the rows is least if all changes are linear, from the solution of all."""
    slopes, weights = at.slopes[rows], at.weights[rows]
    weighted = slopes * (weights / at.scale**2)[:, None]
    information = slopes.T @ weighted + np.diag(limits.widths**-2)
    downhill = -(weighted.T @ at.residuals[rows] + at.point / limits.widths**2)
    step = np.linalg.solve(information, downhill)
    return limits.within(at.point + np.clip(step, -_LONGEST, _LONGEST))


def scatter(residuals: Array, num_fitted: int) -> float:
    """Return the scatter of residuals around zero, which a wrong row does not change much; never zero."""
    free = max(0, len(residuals) - num_fitted)
    if not free:
        return USUAL_SCALE
    seen = 1.4826 * float(np.median(np.abs(residuals))) * np.sqrt(len(residuals) / free)
    return float(np.sqrt((_WORTH * USUAL_SCALE**2 + free * seen**2) / (_WORTH + free)))


def _weights(residuals: Array, scale: float) -> Array:
    weights: Array = 1 / np.sqrt(1 + (residuals / (_TURN * scale)) ** 2)
    return weights


def _cost(at: LeastSquaresSolution, limits: Limits) -> float:
    rows = 2 * _TURN**2 * (np.sqrt(1 + (at.residuals / (_TURN * at.scale)) ** 2) - 1)
    return float(rows.sum() + ((at.point / limits.widths) ** 2).sum())
