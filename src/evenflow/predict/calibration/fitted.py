"""The result of a calibration: fitted parameters, their errors, and every run beside its predictions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.calibration import CalibrationRecord, CoveredRuns
from evenflow.cluster.reached import Reached
from evenflow.predict.calibration.measurement import Quantity
from evenflow.predict.calibration.tunable import TUNABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterEstimate:
    """A fitted parameter."""

    name: str
    before: float
    after: float
    logarithm: float
    """Of what `after` is of `before`, where it is not at its limit."""
    standard_error: float | None
    """In its own unit, from the runs alone; None where the fit was stopped too early to know."""
    runs: int
    """Runs that depend on it."""
    is_at_limit: bool
    """Whether the runs would have it beyond what it can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFitted:
    """A parameter that keeps its value."""

    name: str
    value: float
    reason: str
    """Why the runs do not determine it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """A run beside its predictions, in nanoseconds or bytes."""

    name: str
    measured: float
    before: float
    after: float
    expected: float | None
    """Predicted by a fit to other runs; None where there was none."""

    @property
    def error_before(self) -> float:
        """Relative error of the prediction: predicted over measured, minus one."""
        return self.before / self.measured - 1

    @property
    def error_after(self) -> float:
        """Relative error of the prediction: predicted over measured, minus one."""
        return self.after / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantityFit:
    """The fit of step times, or of memory."""

    quantity: Quantity
    estimates: tuple[ParameterEstimate, ...]
    not_fitted: tuple[NotFitted, ...]
    correlations: Mapping[tuple[str, str], float]
    residuals: tuple[Residual, ...]
    is_complete: bool

    @property
    def error_before(self) -> float | None:
        """Mean of the absolute errors with the values before; None without runs."""
        return _mean([residual.error_before for residual in self.residuals])

    @property
    def error_after(self) -> float | None:
        """Mean of the absolute errors of the runs that were fitted."""
        return _mean([residual.error_after for residual in self.residuals])

    @property
    def error_expected(self) -> float | None:
        """Mean of the absolute errors of runs that were left out of the fit: what to expect of runs like these."""
        errors = [
            residual.expected / residual.measured - 1 for residual in self.residuals if residual.expected is not None
        ]
        return _mean(errors) if len(errors) == len(self.residuals) else None

    @property
    def worst(self) -> Residual | None:
        """The run whose prediction is farthest off."""
        return max(self.residuals, key=lambda residual: abs(math.log(residual.after / residual.measured)), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedReach:
    """What runs determine of the parameters of an accelerator."""

    time: QuantityFit
    memory: QuantityFit
    covered: Mapping[str, tuple[CoveredRuns, ...]] = field(default_factory=dict)
    """The runs by kind, by the name of their accelerator."""

    @property
    def parts(self) -> tuple[QuantityFit, QuantityFit]:
        """The fits of step times and of memory."""
        return (self.time, self.memory)

    @property
    def estimates(self) -> tuple[ParameterEstimate, ...]:
        """All fitted parameters."""
        return self.time.estimates + self.memory.estimates

    @property
    def is_complete(self) -> bool:
        """False where it was interrupted: these are the best values so far."""
        return all(part.is_complete for part in self.parts)

    def applied(self, reached: Reached) -> Reached:
        """Return `reached`, that of one of the runs' accelerators, with what was fitted and its standard errors."""
        values = {
            estimate.name: TUNABLES[estimate.name].moved(reached, estimate.logarithm) for estimate in self.estimates
        }
        errors = {
            estimate.name: estimate.standard_error
            * TUNABLES[estimate.name].unit(values[estimate.name])
            / TUNABLES[estimate.name].unit(estimate.after)
            for estimate in self.estimates
            if estimate.standard_error is not None
        }
        return replace(reached.changed(values), standard_errors=dict(reached.standard_errors) | errors)

    def calibrated(self, before: Accelerator, *, files: tuple[str, ...] = ()) -> Accelerator:
        """Return one of the runs' accelerators with what was fitted, and what it was fitted to; others as they are.

        Of one that was calibrated before, the values from before all calibrations are kept.
        """
        if before.name not in self.covered:
            return before
        reached, covered = self.applied(before.reached), self.covered[before.name]
        own = {estimate.name: getattr(before.reached, estimate.name) for estimate in self.estimates}
        known = {} if before.calibration is None else before.calibration.before
        return replace(
            before,
            reached=reached,
            calibration=CalibrationRecord(
                runs=sum(of.runs for of in covered),
                files=files,
                step_error=self.time.error_after,
                expected_step_error=self.time.error_expected,
                memory_error=self.memory.error_after,
                expected_memory_error=self.memory.error_expected,
                before=own | dict(known),
                covered=covered,
            ),
        )


def _mean(errors: Sequence[float]) -> float | None:
    return fmean(map(abs, errors)) if errors else None
