"""The load of the machine that times are measured under: how long a thread waits for a processor that others use."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns

_WAITED = Path("/proc/thread-self/schedstat")
"""Nanoseconds on a processor, nanoseconds of waiting for one, and turns, of the thread that reads it."""


class Load:
    """Adds up how long the calling thread waits for a processor in the stretches that are `watched`."""

    def __init__(self) -> None:
        self._waited_ns: int | None = 0
        self._passed_ns = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count the time inside."""
        waited, start = waited_ns(), perf_counter_ns()
        yield
        self._passed_ns += perf_counter_ns() - start
        now = waited_ns()
        if self._waited_ns is None or waited is None or now is None:
            self._waited_ns = None
        else:
            self._waited_ns += now - waited

    @property
    def share(self) -> float | None:
        """The share of the watched time that was waiting; None where the system does not tell."""
        if self._waited_ns is None or not self._passed_ns:
            return None
        return min(1.0, self._waited_ns / self._passed_ns)


def waited_ns() -> int | None:
    """Return how long the calling thread has waited for a processor so far; None where the system does not tell."""
    try:
        return int(_WAITED.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
