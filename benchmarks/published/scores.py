"""How far predictions are off, in few numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """How far the prediction of a run is off."""

    id: str
    predicted: float
    measured: float

    @property
    def relative(self) -> float:
        """The share by which the prediction is too high; negative where it is too low."""
        return self.predicted / self.measured - 1

    @property
    def absolute(self) -> float:
        """The difference, in the unit of the two."""
        return self.predicted - self.measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Errors of several runs as shares of what was measured, but those of `absolute`."""

    count: int
    mape: float
    """Mean absolute error."""
    median: float
    """Median absolute error."""
    bias: float
    """Mean error with its sign."""
    worst: float
    """The largest error, with its sign."""
    worst_id: str
    too_low: int
    """Number of predictions below what was measured: of memory, a run that would not have fitted."""
    lowest: float
    """The largest error of those, 0 where there are none."""
    lowest_id: str
    """Its run, empty where there are none."""


def score(errors: Sequence[Error], *, absolute: bool = False) -> Score | None:
    """Return the score of `errors`, None of no errors; with `absolute` in their unit instead of shares."""
    if not errors:
        return None
    values = [(each.absolute if absolute else each.relative, each.id) for each in errors]
    sizes = [abs(value) for value, _ in values]
    worst, worst_id = max(values, key=lambda value: (abs(value[0]), value[1]))
    low = [each for each in values if each[0] < 0]
    lowest, lowest_id = min(low, default=(0.0, ""))
    return Score(
        count=len(values),
        mape=fmean(sizes),
        median=median(sizes),
        bias=fmean(value for value, _ in values),
        worst=worst,
        worst_id=worst_id,
        too_low=len(low),
        lowest=lowest,
        lowest_id=lowest_id,
    )
