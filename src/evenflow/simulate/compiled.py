"""The compiler of inner loops: numba, imported at the first use; the machine code is cached on disk."""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def compiled(function: Callable[..., Any], *, inline: str = "never") -> Callable[..., Any]:
    """Return `function` as machine code that releases the interpreter lock."""
    import numba

    _listener()
    machine_code: Callable[..., Any] = numba.njit(cache=True, nogil=True, inline=inline)(function)
    return machine_code


@cache
def _listener() -> Any:
    """Return what adds up the time of compiling, from the first call on."""
    from numba.core import event

    listener = event.TimingListener()
    event.register("numba:compile", listener)
    return listener


def compiled_s() -> float:
    """Return the seconds that compiling has taken in this process: what only a first run on a machine needs."""
    if "numba" not in sys.modules:
        return 0.0
    listener = _listener()
    return float(listener.duration) if listener.done else 0.0


COMPILE_FROM_ACTIONS = 50_000
"""Fewest actions for which compiled loops pay for the import of the compiler."""
_LOAD_FROM_ACTIONS = 2_000
"""Fewest actions for which they pay once the compiler is there."""


def for_size(function: Callable[..., Any], num_actions: int) -> Callable[..., Any]:
    """Return `function`, compiled only where that pays for importing the compiler, unless that has been done."""
    fewest = _LOAD_FROM_ACTIONS if "numba" in sys.modules else COMPILE_FROM_ACTIONS
    return compiled(function) if num_actions >= fewest else function
