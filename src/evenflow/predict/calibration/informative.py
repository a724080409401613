"""Which runs tell most about an accelerator: greedy D-optimal design over the parameters that a calibration fits.

What a step says of a parameter is how much its logarithm changes with the parameter's. A run is worth by how much it
shrinks the volume in which all parameters still may be, given how well they are known before and what earlier runs say:
the determinant of their information. [Fedorov, Theory of Optimal Experiments, 1972; Atkinson, Donev and Tobias, Optimum
Experimental Designs, 2007, chapter 11]
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.predict.calibration.least_squares import USUAL_SCALE, Array, Limits, slopes_at
from evenflow.predict.calibration.measurement import Measurement, Quantity
from evenflow.predict.calibration.selection import most_fitted, select
from evenflow.predict.calibration.tunable import Tunable

_ALIKE = 0.95
"""Of the most that a run tells: the first of those that tell as much is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InformativeRow:
    """A run that was chosen, by its place among the candidates."""

    row: int
    before: Array
    """Standard error of the logarithm of every parameter without this run, and with all chosen before it."""
    after: Array
    """The same with this run."""


def step_slopes(
    runs: Sequence[Measurement], tunables: Sequence[Tunable], *, predicted: Callable[[], None] = lambda: None
) -> Array:
    """Return how much the logarithm of each run's step changes with that of each parameter, ``[run][parameter]``.

    `predicted` is called after every prediction.
    """
    rows: Array = np.zeros((len(runs), len(tunables)))
    for place, run in enumerate(runs):
        rows[place] = _slopes(run, tunables, predicted)
    return rows


def _slopes(run: Measurement, tunables: Sequence[Tunable], predicted: Callable[[], None]) -> Array:
    reached = run.reached

    def at(point: Array) -> Array:
        values = {tunable.name: tunable.moved(reached, by) for tunable, by in zip(tunables, point, strict=True)}
        step_ns = run.predicted(Quantity.TIME, reached.changed(values))
        predicted()
        logarithm: Array = np.log(np.array([step_ns]))
        return logarithm

    rooms = [tunable.room(reached) for tunable in tunables]
    limits = Limits(
        widths=np.array([tunable.width for tunable in tunables]),
        lower=np.array([down for down, _up in rooms]),
        upper=np.array([up for _down, up in rooms]),
    )
    start = np.zeros(len(tunables))
    slopes: Array = slopes_at(at, start, at(start), limits)[0]
    return slopes


def aimed_at(slopes: Array, tunables: Sequence[Tunable], count: int) -> list[int]:
    """Return the places of the parameters that `count` runs are chosen for: as many as a fit to so many takes.

    They are the first ones that all candidates together determine. More would leave each to a single run, and a fit
    without that run could not foretell it.
    """
    chosen, _reasons = select(slopes, tunables, USUAL_SCALE)
    return chosen[: most_fitted(count)]


def most_informative(slopes: Array, tunables: Sequence[Tunable], count: int) -> list[InformativeRow]:
    """Return `count` rows of `slopes`, the one that tells most first; fewer where there are fewer.

    Of rows that tell about the same the first is taken, so the cheapest should come first.
    """
    aims = aimed_at(slopes, tunables, count) or list(range(len(tunables)))
    known = np.diag([tunable.width**-2.0 for tunable in tunables])
    chosen: list[InformativeRow] = []
    left = list(range(len(slopes)))
    for _choice in range(min(count, len(slopes))):
        own = slopes[np.ix_(left, aims)]
        covariance = np.linalg.inv(known[np.ix_(aims, aims)])
        told = np.log1p(np.einsum("ij,jk,ik->i", own, covariance, own) / USUAL_SCALE**2)
        row = left.pop(int(np.argmax(told >= _ALIKE * told.max())))
        before = np.sqrt(np.diag(np.linalg.inv(known)))
        known = known + np.outer(slopes[row], slopes[row]) / USUAL_SCALE**2
        chosen.append(InformativeRow(row=row, before=before, after=np.sqrt(np.diag(np.linalg.inv(known)))))
    return chosen
