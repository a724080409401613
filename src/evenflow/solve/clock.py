"""The clock of searches: the system's, or one that counts work, with which a search ends at the same point every time.

By the system's clock, the moment at which the time is up decides what a search has seen, and two threads that work side
by side meet at other moments in every run. A clock of work stands still but for what its one thread reports, in seconds
of a usual machine. So nothing that a search decides depends on how fast the machine is, or on what else runs on it.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

_READING_SECONDS = 2e-4
"""Work between two looks at a clock of work: every loop that ends by the clock looks at it, so every one ends."""


class _Work:
    """The seconds of work so far."""

    def __init__(self) -> None:
        self.seconds = 0.0


_works: list[_Work] = []
"""Clocks of work, one within the other; the last is read, and without any the system's."""


@contextmanager
def reproducible() -> Iterator[None]:
    """Let searches count their work in the block: equal calls give equal answers, also where the time limit ends them.

    A time limit then means so many seconds of a usual machine. Searches use one thread, so proofs take longer. Equal
    are the answers of one version of evenflow, with the same libraries on the same kind of processor.

    >>> import evenflow
    >>> with evenflow.reproducible():
    ...     first, second = (now_s() for _ in range(2))
    >>> first < second < 1
    True
    """
    _works.append(_Work())
    try:
        yield
    finally:
        _works.pop()


def counts_work() -> bool:
    """Return whether searches count their work now."""
    return bool(_works)


def now_s() -> float:
    """Return the time by which searches keep their limits, in seconds from some moment; looking at it is work."""
    spend(_READING_SECONDS)
    return shown_s()


def shown_s() -> float:
    """Return the time of `now_s` for a report, of which the search must not depend: looking at it is no work."""
    return _works[-1].seconds if _works else time.monotonic()


def spend(seconds: float) -> None:
    """Report work that no look at the clock stands for, such as a long loop of compiled code."""
    if _works:
        _works[-1].seconds += seconds


class Clock:
    """A clock for one run; all that the run does counts against its limit, compiling too."""

    def __init__(self, *, limit_s: float, began: float | None = None) -> None:
        """Start the clock now, or at `began` of `now_s`."""
        self.limit_s = limit_s
        self._began = now_s() if began is None else began

    @property
    def spent_s(self) -> float:
        """Seconds since the start, for reports: to ask is no work."""
        return shown_s() - self._began

    @property
    def left_s(self) -> float:
        """Seconds left of the limit."""
        return self.limit_s - (now_s() - self._began)
