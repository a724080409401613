"""The clock of one run."""

import time


class Clock:
    """A clock for one run; all that the run does counts against its limit, compiling too."""

    def __init__(self, *, limit_s: float, began: float | None = None) -> None:
        """Start the clock now, or at `began` of ``time.monotonic()``."""
        self.limit_s = limit_s
        self._began = time.monotonic() if began is None else began

    @property
    def spent_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def left_s(self) -> float:
        """Seconds left of the limit."""
        return self.limit_s - self.spent_s
