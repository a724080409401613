"""The load of the machine that times are measured under: how long threads wait for a processor that others use.

All threads of a rank count, since one that carries a message makes the other rank wait as much as one that computes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter_ns

_THREADS = Path("/proc/self/task")
"""Has a folder for each thread, whose `schedstat` is ns on a processor, ns of waiting for one, and turns."""


class Load:
    """Adds up how long the threads of this process wait for a processor in the stretches that are `watched`."""

    def __init__(self) -> None:
        self._waited_ns: int | None = 0
        self._passed_ns = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count the time inside."""
        before, start = waited_ns(), perf_counter_ns()
        yield
        self._passed_ns += perf_counter_ns() - start
        after = waited_ns()
        if self._waited_ns is None or not before or not after:
            self._waited_ns = None
        else:
            self._waited_ns += sum(max(0, ns - before.get(thread, 0)) for thread, ns in after.items())

    @property
    def share(self) -> float | None:
        """The share of the watched time that was waiting, at most 1; None where the system does not tell."""
        if self._waited_ns is None or not self._passed_ns:
            return None
        return min(1.0, self._waited_ns / self._passed_ns)


def waited_ns() -> Mapping[str, int]:
    """Return how long each thread of this process has waited for a processor; none where the system does not tell."""
    found = {}
    for thread in _THREADS.iterdir() if _THREADS.exists() else ():
        with suppress(OSError, ValueError, IndexError):  # it may end meanwhile
            found[thread.name] = int((thread / "schedstat").read_text(encoding="ascii").split()[1])
    return found
