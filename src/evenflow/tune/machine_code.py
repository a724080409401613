"""The machine code of bounds and first plans, made in a thread of its own: until it is there, a search does without.

To compile it takes longer than many a time limit, once on every machine; to load what was compiled takes a moment.
"""

from collections.abc import Callable
from threading import Thread, current_thread

from evenflow.interruption import end_without
from evenflow.simulate import compiling
from evenflow.solve.clock import counts_work

_POLL_SECONDS = 0.02


class _Making:
    """The work of this process."""

    thread: Thread | None = None
    """The thread that makes the machine code; None before it is asked for."""


def begin(use: Callable[[], object]) -> None:
    """Let a thread make the machine code, by what `use` needs of it, unless that was begun before.

    Where searches count their work, nobody makes it beforehand: compiling is no work, and threads are none's.
    """
    if counts_work():
        if _Making.thread is not None:
            _Making.thread.join()
        return
    if _Making.thread is None:
        # Not a daemon: the compiler must not be torn down with the interpreter.
        _Making.thread = Thread(target=_make, args=(use,))
        end_without(_Making.thread)
        _Making.thread.start()


def _make(use: Callable[[], object]) -> None:
    with compiling():
        use()


def is_made() -> bool:
    """Return whether no other thread is making the machine code: then a call does not wait for one."""
    thread = _Making.thread
    return thread is None or thread is current_thread() or not thread.is_alive()


def wait(*, is_over: Callable[[], bool]) -> None:
    """Wait until the machine code is there, or until `is_over`."""
    while not is_made() and not is_over():
        assert _Making.thread is not None
        _Making.thread.join(timeout=_POLL_SECONDS)
