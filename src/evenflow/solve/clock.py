"""The clock of one run, whose limit does not count the time of compiling."""

import time

from evenflow.simulate import compiled_s


class Clock:
    """A clock for one run; compiling, which only a first run needs, does not count against the limit."""

    def __init__(self, *, limit_s: float, began: float | None = None) -> None:
        """Start the clock now, or at `began` of ``time.monotonic()``."""
        self.limit_s = limit_s
        self._began = time.monotonic() if began is None else began
        self._compiled_s = compiled_s()

    @property
    def spent_s(self) -> float:
        """Seconds since the start, compiling included."""
        return time.monotonic() - self._began

    @property
    def compiling_s(self) -> float:
        """Seconds of compiling so far, since the clock was made."""
        return compiled_s() - self._compiled_s

    @property
    def left_s(self) -> float:
        """Seconds left of the limit."""
        return self.limit_s - (self.spent_s - self.compiling_s)
