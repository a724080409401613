"""The compiler of inner loops: numba, imported at the first use; the machine code is cached on disk."""

import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any


class _Stopwatch:
    """Seconds of compiling, in whichever thread; what is compiled for something else is a part of that."""

    def __init__(self) -> None:
        self._over_s = 0.0
        self._since = 0.0
        self._depth = 0

    @property
    def seconds(self) -> float:
        """Seconds so far, those of what is still compiled included."""
        return self._over_s + (time.monotonic() - self._since if self._depth else 0.0)

    def start(self) -> None:
        if not self._depth:
            self._since = time.monotonic()
        self._depth += 1

    def stop(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._over_s += time.monotonic() - self._since


_STOPWATCH = _Stopwatch()


@cache
def _watch() -> None:
    """Let the stopwatch run while the compiler is imported, once, and from then on whenever it compiles."""
    _STOPWATCH.start()
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: object) -> None:
            _STOPWATCH.start()

        def on_end(self, event: object) -> None:
            _STOPWATCH.stop()

    event.register("numba:compile", Listener())
    _STOPWATCH.stop()


@cache
def compiled(function: Callable[..., Any], *, inline: str = "never") -> Callable[..., Any]:
    """Return `function` as machine code that releases the interpreter lock."""
    _watch()
    import numba

    machine_code: Callable[..., Any] = numba.njit(cache=True, nogil=True, inline=inline)(function)
    return machine_code


def compiled_s() -> float:
    """Return the seconds that loading the compiler and compiling have taken in this process until now.

    No limit counts them: the machine code is kept, so that only a first run compiles.
    """
    return _STOPWATCH.seconds


COMPILE_FROM_ACTIONS = 50_000
"""Fewest actions for which compiled loops pay for the import of the compiler."""
_LOAD_FROM_ACTIONS = 2_000
"""Fewest actions for which they pay once the compiler is there."""


def for_size(function: Callable[..., Any], num_actions: int) -> Callable[..., Any]:
    """Return `function`, compiled only where that pays for importing the compiler, unless that has been done."""
    fewest = _LOAD_FROM_ACTIONS if "numba" in sys.modules else COMPILE_FROM_ACTIONS
    return compiled(function) if num_actions >= fewest else function
