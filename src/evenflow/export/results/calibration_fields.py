"""JSON of a calibration: parameters, what was not fitted, errors, and every run."""

from evenflow.cluster.accelerators import Accelerator
from evenflow.predict.calibration.fitted import Fitted, Part
from evenflow.predict.calibration.measurement import Quantity
from evenflow.profiles.measured.to_calibrate import RunsToCalibrate
from evenflow.units import megabytes, milliseconds


def calibration_fields(fitted: Fitted, runs: RunsToCalibrate, accelerator: Accelerator) -> dict[str, object]:
    """Return the calibration of `accelerator`, as it is after it."""
    return {
        "accelerator": accelerator.name,
        "calibrated_from": runs.accelerator.name,
        "runs": len(runs.measurements),
        "is_complete": fitted.is_complete,
        "fitted": [
            {
                "name": one.name,
                "before": one.before,
                "after": one.after,
                "standard_error": one.standard_error,
                "runs": one.runs,
                "is_at_limit": one.is_at_limit,
            }
            for one in fitted.estimates
        ],
        "not_fitted": [
            {"name": one.name, "value": one.value, "reason": one.reason}
            for part in fitted.parts for one in part.not_fitted
        ],
        "correlations": [
            {"names": list(names), "correlation": value}
            for part in fitted.parts for names, value in part.correlations.items()
        ],
        "time": _part_fields(fitted.time),
        "memory": _part_fields(fitted.memory),
        "assumed": [
            {"field": one.field, "value": one.value, "reason": one.reason, "runs": count} for one, count in runs.assumed
        ],
        "left_out": [{"name": one.name, "reason": one.reason} for one in runs.left_out],
    }  # fmt: skip


def _part_fields(part: Part) -> dict[str, object]:
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
                "name": one.name,
                f"measured_{unit}": amount(one.measured),
                f"before_{unit}": amount(one.before),
                f"after_{unit}": amount(one.after),
                f"left_out_{unit}": amount(one.expected),
            }
            for one in part.residuals
        ],
    }
