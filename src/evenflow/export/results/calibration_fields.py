"""JSON of a calibration: parameters, what was not fitted, errors, and every run."""

from evenflow.cluster.accelerators import Accelerator
from evenflow.predict.calibration.fitted import FittedReach, QuantityFit
from evenflow.predict.calibration.measurement import Quantity
from evenflow.profiles.measured.to_calibrate import RunsToCalibrate
from evenflow.units import megabytes, milliseconds


def calibration_fields(fitted: FittedReach, runs: RunsToCalibrate, accelerator: Accelerator) -> dict[str, object]:
    """Return the calibration of `accelerator`, as it is after it."""
    return {
        "accelerator": accelerator.name,
        "calibrated_from": runs.accelerator.name,
        "runs": len(runs.measurements),
        "is_complete": fitted.is_complete,
        "fitted": [
            {
                "name": estimate.name,
                "before": estimate.before,
                "after": estimate.after,
                "standard_error": estimate.standard_error,
                "runs": estimate.runs,
                "is_at_limit": estimate.is_at_limit,
            }
            for estimate in fitted.estimates
        ],
        "not_fitted": [
            {"name": kept.name, "value": kept.value, "reason": kept.reason}
            for part in fitted.parts for kept in part.not_fitted
        ],
        "correlations": [
            {"names": list(names), "correlation": value}
            for part in fitted.parts for names, value in part.correlations.items()
        ],
        "time": _part_fields(fitted.time),
        "memory": _part_fields(fitted.memory),
        "assumed": [
            {"field": usual.field, "value": usual.value, "reason": usual.reason, "runs": count}
            for usual, count in runs.assumed
        ],
        "left_out": [{"name": run.name, "reason": run.reason} for run in runs.left_out],
    }  # fmt: skip


def _part_fields(part: QuantityFit) -> dict[str, object]:
    is_time = part.quantity is Quantity.TIME
    unit = "ms" if is_time else "mb"

    def amount(value: float | None) -> float | None:
        if value is None:
            return None
        return milliseconds(round(value)) if is_time else megabytes(round(value))

    return {
        "error_before": part.error_before,
        "error_after": part.error_after,
        "error_expected": part.error_expected,
        "runs": [
            {
                "name": residual.name,
                f"measured_{unit}": amount(residual.measured),
                f"before_{unit}": amount(residual.before),
                f"after_{unit}": amount(residual.after),
                f"left_out_{unit}": amount(residual.expected),
            }
            for residual in part.residuals
        ],
    }
