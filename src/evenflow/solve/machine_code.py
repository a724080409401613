"""Machine code that is made in a thread of its own: until it is there, a search does without it, or goes without.

To compile it takes longer than many a time limit, once on every machine; to load what was compiled takes a moment.
"""

from collections.abc import Callable
from threading import Thread, current_thread

from evenflow.interruption import end_without
from evenflow.simulate import compiling
from evenflow.solve.clock import counts_work

_POLL_SECONDS = 0.02


class MachineCode:
    """The machine code for one kind of work in this process."""

    def __init__(self) -> None:
        self._thread: Thread | None = None

    def begin(self, use: Callable[[], object]) -> None:
        """Let a thread make the machine code, by what `use` needs of it, unless that was begun before.

        Where searches count their work, nobody makes it beforehand: compiling is no work, and there are no threads.
        """
        if counts_work():
            if self._thread is not None:
                self._thread.join()
        elif self._thread is None:
            # Not a daemon: the compiler must not be torn down with the interpreter.
            self._thread = Thread(target=_make, args=(use,))
            end_without(self._thread)
            self._thread.start()

    @property
    def is_made(self) -> bool:
        """Whether no other thread is making it now: a call does not wait for one."""
        return self._thread is None or self._thread is current_thread() or not self._thread.is_alive()

    def wait(self, *, is_over: Callable[[], bool]) -> bool:
        """Wait until the machine code is there, or until `is_over`; returns whether it is there."""
        while not self.is_made and not is_over():
            assert self._thread is not None
            self._thread.join(timeout=_POLL_SECONDS)
        return self.is_made


def _make(use: Callable[[], object]) -> None:
    with compiling():
        use()
