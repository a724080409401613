"""The time of a steady step from all that a log says of steps."""

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median, quantiles

from evenflow.profiles.measured.logs.log_format import LoggedStep

WARM_UP_STEPS, WARM_UP_SHARE = 2, 10
"""Lines that are left out at the beginning: so many, and one in so many of all."""
MOST_STEPS = 100_000
"""Lines of one run that are kept; of longer ones the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyStep:
    """Medians over the steady part of a run."""

    time_s: float | None
    tokens_s: float | None
    samples_s: float | None
    tflops: float | None
    batch: int | None
    used: int
    """Lines of progress that the medians are of."""
    logged: int
    """Lines of progress since the run was started."""
    restarts: int
    """Starts before it."""
    spread: float
    """Width of the middle half of the lines, as a share of the median; 0 for one line."""


@dataclass(slots=True)
class StepTimes:
    """Steps of a run as they come. Lines of several ranks for the same step count once.

    Where the numbers go back by more than one line, the run was started again from a checkpoint; the steps of the last
    start that has steady ones count.
    """

    _restarts: int = 0
    _kept: deque[LoggedStep] = field(default_factory=lambda: deque(maxlen=MOST_STEPS))
    _logged: int = 0
    _last: int | None = None
    _before_last: int | None = None
    _complete: SteadyStep | None = None

    def add(self, step: LoggedStep) -> None:
        """Take a line of progress."""
        if step.number is not None and self._last is not None:
            if self._before_last is not None and step.number < self._before_last:
                self._begin()
            elif step.number <= self._last:
                return
        self._before_last, self._last = self._last, step.number
        self._logged += 1
        self._kept.append(step)

    def _begin(self) -> None:
        self._complete = self._steady() or self._complete
        self._kept.clear()
        self._logged, self._last, self._before_last = 0, None, None
        self._restarts += 1

    def steady(self) -> SteadyStep | None:
        """Medians of the last start that has steady steps; None for none."""
        return self._steady() or self._complete

    def _steady(self) -> SteadyStep | None:
        warm_up = max(WARM_UP_STEPS, math.ceil(self._logged / WARM_UP_SHARE))
        kept = list(self._kept)[max(0, warm_up - (self._logged - len(self._kept))) :]
        steps = [step for step in kept if step.batch == kept[-1].batch and _rate(step) is not None]
        if not steps:
            return None
        rates = [rate for rate in map(_rate, steps) if rate is not None]
        low, middle, high = quantiles(rates, n=4, method="inclusive") if len(rates) > 1 else rates * 3
        return SteadyStep(
            time_s=_median(steps, lambda step: step.time_s),
            tokens_s=_median(steps, lambda step: step.tokens_s),
            samples_s=_median(steps, lambda step: step.samples_s),
            tflops=_median(steps, lambda step: step.tflops),
            batch=steps[-1].batch,
            used=len(steps),
            logged=self._logged,
            restarts=self._restarts,
            spread=(high - low) / middle,
        )


def _rate(step: LoggedStep) -> float | None:
    """What a line says of speed; None for what is no speed, such as NaN."""
    for value in (step.time_s, step.tokens_s, step.samples_s):
        if value is not None:
            return value if 0 < value < math.inf else None
    return None


def _median(steps: Iterable[LoggedStep], value: Callable[[LoggedStep], float | None]) -> float | None:
    values = [number for number in map(value, steps) if number is not None and 0 < number < math.inf]
    return median(values) if values else None
