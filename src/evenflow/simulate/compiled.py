"""The compiler of inner loops: numba, imported at the first use; the machine code is cached on disk."""

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def compiled(function: Callable[..., Any], *, inline: str = "never") -> Callable[..., Any]:
    """Return `function` as machine code that releases the interpreter lock."""
    import numba

    machine_code: Callable[..., Any] = numba.njit(cache=True, nogil=True, inline=inline)(function)
    return machine_code


COMPILE_FROM_ACTIONS = 50_000
"""Fewest actions for which compiled loops pay for the import of the compiler."""


def for_size(function: Callable[..., Any], num_actions: int) -> Callable[..., Any]:
    """Return `function`, compiled only where that pays for importing the compiler."""
    return compiled(function) if num_actions >= COMPILE_FROM_ACTIONS else function
