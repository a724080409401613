"""What an accelerator's reached rates were fitted to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRecord:
    """Measured runs behind the `Reached` of an accelerator, and how well these are predicted with it.

    Errors are means of absolute values, of predicted over measured less one; None where nothing was measured.
    """

    runs: int
    files: tuple[str, ...] = ()
    """Names of the files that the runs are from."""
    step_error: float | None = None
    """Of step times of the fitted runs."""
    expected_step_error: float | None = None
    """Of step times of runs that were left out of a fit to the others."""
    memory_error: float | None = None
    expected_memory_error: float | None = None


ERRORS = ("step_error", "expected_step_error", "memory_error", "expected_memory_error")
"""Names of the errors."""
