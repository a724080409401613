"""Which parameters the runs determine, and why the others are left as they are."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from evenflow.language import _
from evenflow.predict.calibration.least_squares import Array, LeastSquaresSolution, covariance
from evenflow.predict.calibration.tunable import Tunable

_FELT = 0.002
"""A parameter whose doubling changes no run by about this share says nothing."""
_ALIKE = 0.05
"""Part of a parameter's effect that others leave unexplained, below which they cannot be told apart."""


def select(slopes: Array, tunables: Sequence[Tunable], scale: float) -> tuple[list[int], dict[int, str]]:
    """Return the indices of parameters that the runs determine better than was known, and why the others are left.

    They are taken one after the other, the most important first, as long as the data alone determine each of them twice
    as well as it was known.
    """
    chosen: list[int] = []
    reasons: dict[int, str] = {}
    for index, tunable in enumerate(tunables):
        if np.abs(slopes[:, index]).max(initial=0.0) < _FELT:
            reasons[index] = tunable.absent()
        elif is_determined(slopes, tunables, [*chosen, index], scale):
            chosen.append(index)
        else:
            reasons[index] = _reason(slopes, tunables, chosen, index, scale)
    return chosen, reasons


def is_determined(slopes: Array, tunables: Sequence[Tunable], chosen: Sequence[int], scale: float) -> bool:
    """Whether the runs alone determine all of `chosen` together better than they were known."""
    if len(chosen) > most_fitted(len(slopes)):
        return False
    errors = np.sqrt(np.diag(covariance(slopes[:, list(chosen)], scale)))
    return bool((errors <= [_worth(tunables[index]) for index in chosen]).all())


def _worth(tunable: Tunable) -> float:
    """Return the largest standard error at which a parameter is still worth fitting."""
    return tunable.width / 2


def most_fitted(num_runs: int) -> int:
    """Return how many parameters so many runs can determine: one from the first, then one from every two more."""
    return (num_runs + 1) // 2


def weakest(
    solution: LeastSquaresSolution, tunables: Sequence[Tunable], chosen: Sequence[int], scale: float
) -> int | None:
    """Return the least important parameter that turned out not to be determined, None where all are."""
    slopes = solution.slopes * np.sqrt(solution.weights)[:, None]
    own = [tunables[index] for index in chosen]
    errors = np.sqrt(np.diag(covariance(slopes, scale)))
    failing = [place for place, tunable in enumerate(own) if not errors[place] <= _worth(tunable)]
    return failing[-1] if failing else None


def _reason(slopes: Array, tunables: Sequence[Tunable], chosen: Sequence[int], index: int, scale: float) -> str:
    if chosen and len(chosen) >= most_fitted(len(slopes)):
        names = _names(tunables, chosen)
        return _("so few runs can determine {names} at most: each further parameter takes two more runs", names=names)
    if chosen and np.ptp(slopes, axis=0).max() < _FELT:
        return _("all runs have the same shape, which determines only {names}", names=_names(tunables, chosen))
    column, others = slopes[:, index], slopes[:, list(chosen)]
    if chosen:
        explained = others @ np.linalg.lstsq(others, column, rcond=None)[0]
        if np.linalg.norm(column - explained) < _ALIKE * np.linalg.norm(column):
            return _(
                "it changes all runs in the same way as {names}, so the runs cannot tell them apart",
                names=_names(tunables, chosen),
            )
    error = float(np.sqrt(covariance(slopes[:, [*chosen, index]], scale)[-1, -1]))
    if error <= _worth(tunables[index]):
        return _("with it, the runs would no longer determine {names}", names=_names(tunables, chosen))
    return open_reason(tunables[index], error)


def open_reason(tunable: Tunable, error: float) -> str:
    """Return the reason of a parameter whose logarithm the runs leave open by `error`."""
    if not error < math.log(100):
        return _("the runs do not determine it: its effect is smaller than their scatter")
    return _(
        "the runs determine it only within a factor of {factor:.2f}; a fit is useful below {most:.2f}",
        factor=math.exp(error),
        most=math.exp(_worth(tunable)),
    )


def _names(tunables: Sequence[Tunable], chosen: Sequence[int]) -> str:
    return ", ".join(tunables[index].name for index in chosen)


def correlations(names: Sequence[str], matrix: Array) -> Mapping[tuple[str, str], float]:
    """Return the correlation of every pair of fitted parameters."""
    errors = np.sqrt(np.diag(matrix))
    return {
        (name, other): float(matrix[row, column] / (errors[row] * errors[column]))
        for row, name in enumerate(names)
        for column, other in enumerate(names)
        if row < column
    }
