"""The compiler of inner loops: numba, imported at the first use; the machine code is cached on disk."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any

_importing = RLock()


class _Compiling:
    """The state of compiling in this process, whichever thread does it."""

    num_functions = 0
    """Functions that are being compiled now, one for the sake of the other: the compiler works for one thread."""
    num_threads = 0
    """Threads that compile several of them, one after the other."""
    has_compiled = False
    """Whether these have compiled one, and not only read what is kept on the disk."""
    is_kept = True
    """Whether there is a folder for the machine code."""


@cache
def _watch() -> None:
    """Let the compiler tell, from now on, when it compiles; what it reads from the disk it does not compile.

    One thread imports it: it initializes LLVM under a lock of its own, beside the locks of modules.
    """
    with _importing:
        from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: object) -> None:
            _Compiling.num_functions += 1
            _Compiling.has_compiled = True

        def on_end(self, event: object) -> None:
            _Compiling.num_functions -= 1

    event.register("numba:compile", Listener())


@cache
def compiled(function: Callable[..., Any], *, inline: str = "never") -> Callable[..., Any]:
    """Return `function` as machine code that releases the interpreter lock.

    It is kept beside the source, or in the user's cache where that cannot be written, or nowhere if neither can.
    """
    _watch()
    import numba

    machine_code: Callable[..., Any]
    try:
        machine_code = numba.njit(cache=True, nogil=True, inline=inline)(function)
    except RuntimeError:  # numba found no folder that it may write
        _Compiling.is_kept = False
        machine_code = numba.njit(nogil=True, inline=inline)(function)
    return machine_code


def is_compiling() -> bool:
    """Return whether a loop is compiled or read from the disk at this moment, in whichever thread."""
    return _Compiling.num_functions > 0 or _Compiling.num_threads > 0


def compiles_now() -> bool:
    """Return whether loops are compiled at this moment, and not only read from the disk, which takes no time."""
    return _Compiling.num_functions > 0 or (_Compiling.num_threads > 0 and _Compiling.has_compiled)


@contextmanager
def compiling() -> Iterator[None]:
    """Let `is_compiling` be so for the whole block, also between two loops: one thread at a time may say so."""
    if not _Compiling.num_threads:
        _Compiling.has_compiled = False
    _Compiling.num_threads += 1
    try:
        yield
    finally:
        _Compiling.num_threads -= 1


def is_kept() -> bool:
    """Return whether machine code is kept for later runs, as far as is known."""
    return _Compiling.is_kept


COMPILE_FROM_ACTIONS = 50_000
"""Fewest actions for which compiled loops pay for the import of the compiler."""
_LOAD_FROM_ACTIONS = 2_000
"""Fewest actions for which they pay once the compiler is there."""


def for_size(function: Callable[..., Any], num_actions: int) -> Callable[..., Any]:
    """Return `function`, compiled only where that pays for importing the compiler, unless that has been done.

    While another thread compiles, it is returned as it is: the compiler would let this thread wait for seconds.
    """
    return compiled(function) if pays_for(num_actions) else function


def pays_for(num_actions: int) -> bool:
    """Return whether a compiled loop over so many actions pays for importing the compiler, unless that has been done.

    It does not while another thread compiles.
    """
    fewest = _LOAD_FROM_ACTIONS if "numba" in sys.modules else COMPILE_FROM_ACTIONS
    return num_actions >= fewest and not is_compiling()
