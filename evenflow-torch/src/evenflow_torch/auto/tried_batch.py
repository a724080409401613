"""A size of a microbatch that was considered for a given global batch, and what came of it."""

from dataclasses import dataclass
from enum import StrEnum


class BatchOutcome(StrEnum):
    """The result of trying a microbatch size; the value is the word in result files."""

    PLANNED = "planned"
    DOES_NOT_FIT = "does not fit"
    BOUNDED = "bound"
    """No plan with it takes less than its bound, which is no less than the best plan's step."""
    NO_TIME = "no time"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedBatch:
    """A microbatch size, the number of microbatches it makes, and the step or bound found for it."""

    microbatch: int
    num_microbatches: int
    outcome: BatchOutcome
    step_ns: int | None = None
    """Nanoseconds of the simulated step; None where there is no plan."""
    lower_bound_ns: int | None = None
    """Nanoseconds that no plan with this size undercuts; None where it was not looked at."""
