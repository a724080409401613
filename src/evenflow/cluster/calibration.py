"""What an accelerator's reached rates were fitted to."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredRuns:
    """Measured runs of one kind: their number, and the smallest and the largest of their sizes."""

    runs: int
    precision: str
    experts: bool
    """Whether their models have experts."""
    software: tuple[str, ...]
    """What the framework does, in words that set its rates apart from those of another."""
    hidden: tuple[int, int]
    sequence: tuple[int, int]
    devices: tuple[int, int]
    devices_per_node: tuple[int, int]
    tensor: tuple[int, int]
    pipeline: tuple[int, int]
    context: tuple[int, int]
    expert: tuple[int, int]


SIZES = ("hidden", "sequence", "devices", "devices_per_node", "tensor", "pipeline", "context", "expert")
"""Names of the sizes of `CoveredRuns`."""


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
    before: Mapping[str, float] = field(default_factory=dict, hash=False)
    """What the fitted parameters were before: it counts where the runs say nothing of a training."""
    covered: tuple[CoveredRuns, ...] = ()
    """The runs by kind; empty where that is not known, and the fitted values count everywhere."""
    counts: float = 1.0
    """How much of what was fitted counts for the training at hand, 0 to 1."""
