"""The time that is left for an answer: what comes after a ranking shares one limit with it."""

import time
from dataclasses import dataclass

from evenflow.interruption import was_interrupted
from evenflow.simulate import compiled_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLeft:
    """Until a moment, or until a signal comes; compiling, which only a first run needs, does not count."""

    ends_s: float
    """The moment, by a clock that stands while loops are compiled."""

    @staticmethod
    def of(seconds: float) -> "TimeLeft":
        """Return so many seconds from now."""
        return TimeLeft(ends_s=_now_s() + seconds)

    @property
    def seconds(self) -> float:
        """What is left, at least 0."""
        return 0.0 if was_interrupted() else max(0.0, self.ends_s - _now_s())

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.seconds <= 0.0

    def share(self, part: float) -> "TimeLeft":
        """Return this part of what is left."""
        return TimeLeft.of(part * self.seconds)

    def at_most(self, seconds: float) -> "TimeLeft":
        """Return what is left, and no more than so many seconds of it."""
        return TimeLeft.of(min(seconds, self.seconds))


def _now_s() -> float:
    return time.monotonic() - compiled_s()
