"""The memory of every part, fitted to measured peaks."""

from evenflow.profiles.init.init_file import InitFile
from evenflow.profiles.memory.fit import MemoryFit
from evenflow.units import megabytes


def fit_fields(init: InitFile, fit: MemoryFit) -> dict[str, object]:
    """Return every unknown with its error, and every peak beside its equation."""
    runs = fit.dry_runs
    return {
        "stages": runs.num_ranks,
        "num_layers": init.num_layers,
        "rounds": len(runs.rounds),
        "constant_fitted": fit.constant_fitted,
        "degrees_of_freedom": fit.degrees_of_freedom,
        "peak_standard_error_mb": megabytes(fit.peak_error_bytes),
        "condition_number": fit.condition_number,
        "unknowns": [
            {
                "name": estimate.name,
                "value_mb": megabytes(estimate.value_bytes),
                "value_without_bound_mb": None if estimate.free_bytes is None else megabytes(estimate.free_bytes),
                "standard_error_mb": (
                    None if estimate.standard_error_bytes is None else megabytes(estimate.standard_error_bytes)
                ),
                "weights": estimate.weights,
            }
            for estimate in fit.estimates
        ],
        "peaks": [
            {
                "round": peak.round_index + 1,
                "stage": peak.rank,
                "measured_mb": megabytes(peak.peak_bytes),
                "computed_mb": megabytes(peak.peak_bytes - residual),
                "residual_mb": megabytes(residual),
            }
            for peak, residual in zip(runs.peaks, fit.residuals_bytes, strict=True)
        ],
        "notes": fit.notes,
    }
