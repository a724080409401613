"""Ctrl-C, SIGTERM and SIGHUP, at any moment: the best answer so far is given, and whole files are left.

A library call hears Ctrl-C while it searches (`on_interrupt`), and is otherwise interrupted as any Python code. A
command (`watch`) hears the three signals from its first moment to its last. Until there is an answer it ends at once,
wherever it is: a listening thread ends the process, so that neither an import nor a long call into a library delays or
garbles that. Once there is an answer (`answer_exists`) the search is asked to end, and what was found is printed and
written.
"""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from weakref import WeakSet

TYPE_CHECKING = False  # as type checkers know it, without the time that `typing` takes
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143
"""Exit statuses after SIGINT, and after SIGTERM or SIGHUP."""

_STATUS = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
if hasattr(signal, "SIGHUP"):
    _STATUS[signal.SIGHUP] = TERMINATED
_PATIENCE_SECONDS = 2.0
"""A further signal so long after the first ends the process at once."""
_SHOW_CURSOR = b"\r\x1b[2K\x1b[?25h"


class _Command:
    """The state of this process as a command."""

    def __init__(self) -> None:
        self.is_watched = False
        self.began_s: float | None = None
        """The moment it began, by ``time.monotonic()``."""
        self.signal = 0
        self.signalled_at = 0.0
        self.has_answer = False
        self.has_ended = False
        self.num_writing = 0
        self.can_abandon = False
        """Whether the main thread is at a step that it may leave by KeyboardInterrupt."""
        self.num_patient = 0
        """Pieces of work that end by themselves when they are told to, and leave processes behind if they cannot."""
        self.actions: list[Callable[[], None]] = []
        self.unawaited: WeakSet[threading.Thread] = WeakSet()
        """Threads that the end of the process need not wait for."""


_command = _Command()


def watch() -> None:
    """Let this process be a command: hear the signals from now on. A signal that is ignored stays ignored (nohup)."""
    if _command.is_watched or threading.current_thread() is not threading.main_thread():
        return
    _command.is_watched = True
    _command.began_s = time.monotonic()
    _fill_standard_descriptors()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _STATUS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave_to_listener)
    threading.Thread(target=_listen, args=(reader,), daemon=True).start()
    atexit.register(_ignore)


def command_began_s() -> float | None:
    """Return the moment at which this process began as a command, by ``time.monotonic()``; None where it is none."""
    return _command.began_s


def _ignore() -> None:
    """Ignore further signals: all is done, and the interpreter that shuts down would die of them."""
    for number in _STATUS:
        signal.signal(number, signal.SIG_IGN)


def answer_exists() -> None:
    """Say that there is something to answer: from now on a signal ends the search, and not the process."""
    _command.has_answer = True


def end_without(thread: threading.Thread) -> None:
    """Let a command end while `thread` is in a long step that nobody waits for: once the answer is out, it is too."""
    _command.unawaited.add(thread)


def was_interrupted() -> bool:
    """Return whether this process is a command that a signal has asked to end."""
    return _command.signal != 0


@contextmanager
def on_interrupt(action: Callable[[], None], *, patient: bool = False) -> Iterator[None]:
    """Let a signal call `action` meanwhile; it is called from another thread, or in between two steps of this one.

    In a library call the signal is Ctrl-C, where this is the thread that receives it. With `patient` a command is not
    ended before the block is left, also without an answer: the block has processes of its own to end.
    """
    if _command.is_watched:
        _command.actions.append(action)
        _command.num_patient += patient
        try:
            if was_interrupted():
                action()
            yield
        finally:
            _command.num_patient -= patient
            _command.actions.remove(action)
        return
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, lambda number, frame: action())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def abandonable() -> Iterator[None]:
    """Let a signal end the block, a long step without a result, by KeyboardInterrupt, which the caller catches.

    That is what Ctrl-C does in a library call anyway. A thread beside the main one is not interrupted.
    """
    if was_interrupted():
        raise KeyboardInterrupt
    _command.can_abandon = _command.is_watched and threading.current_thread() is threading.main_thread()
    try:
        yield
    finally:
        _command.can_abandon = False


@contextmanager
def writing() -> Iterator[None]:
    """Let the block end before a signal ends the process: it writes a file."""
    _command.num_writing += 1
    try:
        yield
    finally:
        _command.num_writing -= 1
        if _command.signal and not _command.num_writing and not _must_go_on():
            _leave(_command.signal)


def exit_with(status: int, *, replaceable: tuple[int, ...]) -> "NoReturn":
    """End the process; after a signal with its status in the place of a `replaceable` one, waiting for no thread.

    Otherwise it waits for all threads but those that it may `end_without`.
    """
    is_left = _command.is_watched and any(thread.is_alive() for thread in tuple(_command.unawaited))
    if not was_interrupted():
        _command.has_ended = True
        if not is_left:
            sys.exit(status)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    replaced = was_interrupted() and status in replaceable
    os._exit(_STATUS[signal.Signals(_command.signal)] if replaced else status)


def _leave_to_listener(number: int, _frame: object) -> None:
    """Do nothing but abandon a step: the interpreter has told the listening thread."""
    _note(number)
    if _command.can_abandon and _command.has_answer:
        _command.can_abandon = False
        raise KeyboardInterrupt


def _listen(reader: int) -> None:
    while True:
        for number in os.read(reader, 64):
            if number in _STATUS:
                _hear(number)


def _hear(number: int) -> None:
    now = time.monotonic()
    if _command.signal and now - _command.signalled_at > _PATIENCE_SECONDS and not _command.num_writing:
        _leave(number)
    _note(number)
    for action in tuple(_command.actions):
        action()
    if not _command.num_writing and not _must_go_on():
        _leave(number)


def _note(number: int) -> None:
    """Take the first signal; the main thread and the listening one may come first."""
    if not _command.signal:
        _command.signalled_at = time.monotonic()
        _command.signal = number


def _must_go_on() -> bool:
    return not _command.has_ended and (_command.has_answer or _command.num_patient > 0)


def _leave(number: int) -> "NoReturn":
    """End the process in the middle of whatever it does."""
    if not _command.has_ended:
        from evenflow.language import _  # here, so that `watch` comes as early as can be

        message = _("interrupted: there is no result yet") + "\n"
        with suppress(OSError):
            if os.isatty(2):
                os.write(2, _SHOW_CURSOR)
            os.write(2, message.encode(errors="replace"))
    os._exit(_STATUS[signal.Signals(number)])


def _fill_standard_descriptors() -> None:
    """Open those of the three standard streams that are closed, so that no other file gets their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
