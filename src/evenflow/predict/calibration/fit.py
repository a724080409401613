"""Fits what an accelerator reaches to measured runs: as many parameters as they determine, and no more."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from evenflow.cluster.calibration import CoveredRuns
from evenflow.cluster.reached import Reached
from evenflow.errors import InputError
from evenflow.interruption import answer_exists, on_interrupt
from evenflow.language import _
from evenflow.predict.calibration.contention import fitted_slowdown, hides_exchanges
from evenflow.predict.calibration.fitted import FittedReach, NotFitted, ParameterEstimate, QuantityFit, Residual
from evenflow.predict.calibration.least_squares import (
    USUAL_SCALE,
    Array,
    LeastSquaresSolution,
    Limits,
    Stopped,
    linear_point,
    minimise,
    slopes_at,
)
from evenflow.predict.calibration.measurement import Measurement, Quantity
from evenflow.predict.calibration.selection import correlations, open_reason, select, weakest
from evenflow.predict.calibration.tunable import PAIR_SLOWDOWN, TUNABLES, Tunable, tunables
from evenflow.predict.evidence import covered_runs

_FOLDS = 10
"""Parts that are left out in turn, to see how well the others predict them."""
_GAIN = 0.9
"""What is left of the mean error of runs outside of a fit must be at most this part, or the fit has one parameter less:
what the accelerator was known to reach is from many more runs."""
_SURE = 2.0
"""Standard errors of the mean gain that it must be: of few runs, some gain by chance."""
_DEPENDS = 0.02
"""A run depends on a parameter where this part of its step, or more, changes in proportion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitProgress:
    """Progress of a fit."""

    predictions: int
    """Predictions made so far."""
    error: float
    """Mean of the absolute errors of the best values so far."""


def fit(
    measurements: Sequence[Measurement],
    names: Iterable[str] = (),
    *,
    progress: Callable[[FitProgress], None] = lambda progress: None,
) -> FittedReach:
    """Fit parameters of `Reached` to runs, from what the accelerators of these are known to reach.

    `names` are those to fit, all where there are none. Those that the runs do not determine better than they were known
    keep their value. An interruption ends the fit with the best values so far.

    Raises:
        InputError: no runs, an unknown name, or a run that cannot be predicted.
    """
    if not measurements:
        raise InputError(rule=_("must be at least one"), place=_("measured runs"))
    chosen = tunables(names)
    stop: list[bool] = []
    with on_interrupt(lambda: stop.append(True)):
        time, memory = (
            _Fit(quantity, measurements, chosen, progress, stop).part() for quantity in (Quantity.TIME, Quantity.MEMORY)
        )
    names_of = dict.fromkeys(run.topology.accelerator.name for run in measurements)
    time = _with_slowdown(time, measurements) if PAIR_SLOWDOWN in chosen else time
    return FittedReach(time=time, memory=memory, covered={name: _covered(measurements, name) for name in names_of})


def _with_slowdown(time: QuantityFit, measurements: Sequence[Measurement]) -> QuantityFit:
    """Return the fit of step times with how much slower computation is beside exchanges, given all else that it has."""
    fitted = {estimate.name: estimate.logarithm for estimate in time.estimates}

    def reached_of(run: Measurement) -> Reached:
        return run.reached.changed({name: TUNABLES[name].moved(run.reached, by) for name, by in fitted.items()})

    if not (time.is_complete and time.residuals):
        reason = _("it was interrupted") if time.residuals else _("no run has a measured step")
        left = NotFitted(name=PAIR_SLOWDOWN.name, value=PAIR_SLOWDOWN.value(measurements[0].reached), reason=reason)
        return replace(time, not_fitted=(*time.not_fitted, left))
    slowdown = fitted_slowdown(measurements, reached_of)
    if isinstance(slowdown, NotFitted):
        return replace(time, not_fitted=(*time.not_fitted, slowdown))
    fitted[slowdown.name] = slowdown.logarithm
    timed = [run for run in measurements if run.step_ns is not None]
    residuals = tuple(
        replace(row, after=run.predicted(Quantity.TIME, reached_of(run))) if hides_exchanges(run.training) else row
        for run, row in zip(timed, time.residuals, strict=True)
    )
    return replace(time, estimates=(*time.estimates, slowdown), residuals=residuals)


def _covered(measurements: Sequence[Measurement], accelerator: str) -> tuple[CoveredRuns, ...]:
    return covered_runs(
        (run.training, run.topology.domain_devices)
        for run in measurements
        if run.topology.accelerator.name == accelerator
    )


class _Fit:
    """The fit of one quantity."""

    def __init__(
        self,
        quantity: Quantity,
        measurements: Sequence[Measurement],
        chosen: Sequence[Tunable],
        progress: Callable[[FitProgress], None],
        stop: list[bool],
    ) -> None:
        self._quantity, self._first = quantity, measurements[0]
        self._runs = [run for run in measurements if run.measured(quantity) is not None]
        self._measured = np.array([run.measured(quantity) for run in self._runs], dtype=np.float64)
        first: dict[object, int] = {}
        self._alike = [first.setdefault(run.configuration, row) for row, run in enumerate(self._runs)]
        """For each run the first one that has the same prediction."""
        asked = [tunable for tunable in chosen if tunable.quantity is quantity]
        self._asked = [tunable for tunable in asked if tunable is not PAIR_SLOWDOWN]
        self._is_followed = len(asked) > len(self._asked)
        """Whether another fit needs the residuals of this one."""
        self._progress, self._stop = progress, stop
        self._predictions = 0

    def part(self) -> QuantityFit:
        """Fit the parameters that the runs determine, with standard errors, correlations and residuals."""
        if not self._runs or not self._asked:
            reason = (
                _("no run has a measured step") if self._quantity is Quantity.TIME else _("no run has measured memory")
            )
            nothing = self._left(tuple(self._not_fitted(tunable, reason) for tunable in self._asked))
            if not (self._runs and self._is_followed):
                return nothing
            before = self._residuals((), np.zeros(0), can_stop=False)
            return replace(nothing, residuals=self._rows(before, before, None))
        before = self._residuals(self._asked, np.zeros(len(self._asked)), can_stop=False)
        answer_exists()
        try:
            slopes = slopes_at(self._at(self._asked), np.zeros(len(self._asked)), before, self._limits(self._asked))
        except Stopped:
            left = tuple(self._not_fitted(tunable, _("it was interrupted")) for tunable in self._asked)
            return replace(self._left(left), residuals=self._rows(before, before, None), is_complete=False)
        kept, reasons = select(slopes, self._asked, USUAL_SCALE)
        solution = self._solved(kept, LeastSquaresSolution(
            point=np.zeros(len(kept)), residuals=before, slopes=slopes[:, kept], scale=USUAL_SCALE
        ), reasons)  # fmt: skip
        solution, expected = self._gaining(kept, solution, before, reasons)
        fitted = [self._asked[index] for index in kept]
        matrix = solution.covariance(list(range(len(kept))))
        return QuantityFit(
            quantity=self._quantity,
            estimates=tuple(
                self._estimate(tunable, place, solution, matrix) for place, tunable in enumerate(fitted)
            ),
            not_fitted=tuple(
                self._not_fitted(tunable, reasons[index])
                for index, tunable in enumerate(self._asked) if index not in kept
            ),
            correlations=correlations([tunable.name for tunable in fitted], matrix),
            residuals=self._rows(before, solution.residuals, expected),
            is_complete=solution.is_complete,
        )  # fmt: skip

    def _solved(self, kept: list[int], at: LeastSquaresSolution, reasons: dict[int, str]) -> LeastSquaresSolution:
        """Fit the parameters `kept`, dropping those that turn out not to be determined."""
        while True:
            own = [self._asked[index] for index in kept]
            solution = minimise(self._at(own), at, limits=self._limits(own), noted=self._note)
            place = weakest(solution, self._asked, kept, solution.scale) if solution.is_complete else None
            if place is None:
                return solution
            error = math.sqrt(solution.covariance(list(range(len(kept))))[place, place])
            reasons[kept[place]] = open_reason(own[place], error)
            del kept[place]
            point = np.delete(solution.point, place)
            left = [self._asked[index] for index in kept]
            try:
                residuals = self._at(left)(point)
                slopes = slopes_at(self._at(left), point, residuals, self._limits(left))
            except Stopped:
                kept.insert(place, self._asked.index(own[place]))
                del reasons[kept[place]]
                return replace(solution, is_complete=False)
            at = replace(solution, point=point, residuals=residuals, slopes=slopes)

    def _gaining(
        self, kept: list[int], solution: LeastSquaresSolution, before: Array, reasons: dict[int, str]
    ) -> tuple[LeastSquaresSolution, Array | None]:
        """Drop parameters, the least important first, until runs that are left out are predicted better than before.

        Return the fit of the others, and the residual of every run in a fit to other runs; None where there is none.
        """
        while solution.is_complete:
            expected = self._expected([self._asked[index] for index in kept], solution)
            if expected is None or not kept or _gains(before, expected):
                return solution, expected
            left = kept.pop()
            reasons[left] = _("with it, runs that are left out of a fit are predicted no better than before")
            of = [self._asked[index] for index in kept]
            point = solution.point[:-1]
            try:
                residuals = self._at(of)(point)
                slopes = slopes_at(self._at(of), point, residuals, self._limits(of))
            except Stopped:
                kept.append(left)
                del reasons[left]
                return replace(solution, is_complete=False), None
            start = replace(solution, point=point, residuals=residuals, slopes=slopes)
            solution = self._solved(kept, start, reasons)
        return solution, None

    def _at(self, of: Sequence[Tunable]) -> Callable[[Array], Array]:
        return lambda point: self._residuals(of, point, can_stop=True)

    def _residuals(self, of: Sequence[Tunable], point: Array, *, can_stop: bool) -> Array:
        """Return the logarithm of predicted over measured of every run."""
        alike = {row: self._predicted(row, of, point, can_stop=can_stop) for row in dict.fromkeys(self._alike)}
        return np.log(np.array([alike[row] for row in self._alike]) / self._measured)

    def _predicted(self, row: int, of: Sequence[Tunable], point: Array, *, can_stop: bool) -> float:
        if can_stop and self._stop:
            raise Stopped
        run = self._runs[row]
        values = {tunable.name: tunable.moved(run.reached, by) for tunable, by in zip(of, point, strict=True)}
        try:
            predicted = run.predicted(self._quantity, run.reached.changed(values))
        except InputError as error:
            raise InputError(
                value=error.value, rule=error.rule, place=f"{run.name}: {error.place}", remedy=error.remedy
            ) from None
        self._predictions += 1
        return predicted

    def _limits(self, of: Sequence[Tunable]) -> Limits:
        rooms = [[tunable.room(run.reached) for run in self._runs] for tunable in of]
        return Limits(
            widths=np.array([tunable.width for tunable in of]),
            lower=np.array([min(down for down, _up in room) for room in rooms]),
            upper=np.array([max(up for _down, up in room) for room in rooms]),
        )

    def _note(self, residuals: Array) -> None:
        self._progress(FitProgress(predictions=self._predictions, error=_error(residuals)))

    def _expected(self, fitted: Sequence[Tunable], solution: LeastSquaresSolution) -> Array | None:
        """Return the residual of every run in a fit to other runs, from the solution of all of them."""
        count = len(self._runs)
        folds = self._folds(solution)
        if len(folds) < 2:
            return None
        expected = np.zeros(count)
        for left_out in folds:
            others = np.setdiff1d(np.arange(count), left_out)
            point = linear_point(solution, others, self._limits(fitted)) if fitted else solution.point
            try:
                for row in left_out:
                    predicted = self._predicted(int(row), fitted, point, can_stop=True)
                    expected[row] = math.log(predicted / self._measured[row])
            except Stopped:
                return None
        return expected

    def _folds(self, solution: LeastSquaresSolution) -> list[npt.NDArray[np.intp]]:
        """Return the rows of parts that are left out in turn: whole sources, where there are several, else every tenth.

        Runs of one source have more in common than what can be fitted: only other sources tell whether it helps these.
        """
        sources = list(dict.fromkeys(run.source for run in self._runs))
        if len(sources) > 1:
            place = np.array([sources.index(run.source) for run in self._runs])
            return [np.flatnonzero(place == index) for index in range(len(sources))]
        ordered = np.lexsort((solution.residuals, self._measured))
        folds = min(_FOLDS, len(self._runs))
        return [ordered[fold::folds] for fold in range(folds)]

    def _estimate(
        self, tunable: Tunable, place: int, solution: LeastSquaresSolution, matrix: Array
    ) -> ParameterEstimate:
        reached = self._first.reached
        after = tunable.moved(reached, solution.point[place])
        variance = float(matrix[place, place])
        return ParameterEstimate(
            name=tunable.name,
            before=tunable.value(reached),
            after=after,
            logarithm=float(solution.point[place]),
            standard_error=math.sqrt(variance) * tunable.unit(after) if math.isfinite(variance) else None,
            runs=int((np.abs(solution.slopes[:, place]) >= _DEPENDS).sum()),
            is_at_limit=after in (0.0, tunable.most),
        )

    def _not_fitted(self, tunable: Tunable, reason: str) -> NotFitted:
        return NotFitted(name=tunable.name, value=tunable.value(self._first.reached), reason=reason)

    def _left(self, left: tuple[NotFitted, ...]) -> QuantityFit:
        return QuantityFit(
            quantity=self._quantity, estimates=(), not_fitted=left, correlations={}, residuals=(), is_complete=True
        )

    def _rows(self, before: Array, after: Array, expected: Array | None) -> tuple[Residual, ...]:
        def predicted(row: int, residual: float) -> float:
            return float(self._measured[row] * math.exp(residual))

        return tuple(
            Residual(
                name=run.name,
                measured=float(self._measured[row]),
                before=predicted(row, before[row]),
                after=predicted(row, after[row]),
                expected=None if expected is None else predicted(row, expected[row]),
            )
            for row, run in enumerate(self._runs)
        )


def _gains(before: Array, expected: Array) -> bool:
    """Whether left-out runs are predicted better by enough, and by more than the scatter of their gains explains."""
    gains = np.abs(np.expm1(before)) - np.abs(np.expm1(expected))
    uncertain = float(gains.std(ddof=1)) / math.sqrt(len(gains))
    return _error(expected) <= _GAIN * _error(before) and float(gains.mean()) >= _SURE * uncertain


def _error(residuals: Array) -> float:
    """Return the mean of the absolute errors that logarithms of predicted over measured are."""
    return float(np.abs(np.expm1(residuals)).mean())
