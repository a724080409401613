"""Standard output and standard error of a command: no text of a user acts on the terminal.

What cannot be written is said in one sentence, or left out.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

from evenflow.errors import FileError
from evenflow.language import _
from evenflow.plain_text import printable

if TYPE_CHECKING:
    from rich.console import Console

_Display = TypeVar("_Display")


@contextmanager
def checked_streams() -> Iterator[None]:
    """Filter and check what the block writes to the standard streams.

    Characters that a terminal would act on are written as escapes (see `plain_text`). Standard output that cannot be
    written raises FileError, or BrokenPipeError where its reader has gone. Messages that standard error cannot take are
    left out.
    """
    before = sys.stdout, sys.stderr
    if sys.stderr is None:
        sys.stderr = io.StringIO()
    else:
        sys.stderr = _Stream(cast("TextIO", sys.stderr), is_needed=False)
    if sys.stdout is not None:
        sys.stdout = _Stream(cast("TextIO", sys.stdout), is_needed=True)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def check_standard_output() -> None:
    """Refuse to work for a standard output that is closed; raises FileError."""
    if sys.stdout is None:
        raise FileError(_("standard output"), action="write", reason=_("it is closed"))


def live_console(*, markup: bool = True) -> "Console":
    """Return a console on standard error that may move the cursor; texts of users are made printable first."""
    from rich.console import Console

    stream = sys.stderr
    return Console(file=stream.live() if isinstance(stream, _Stream) else stream, highlight=False, markup=markup)


@contextmanager
def filtered(display: AbstractContextManager[_Display]) -> Iterator[_Display]:
    """Enter a display on a `live_console`, and filter what others write to the standard streams meanwhile.

    On a terminal rich takes those streams over, to print above what it shows, and does not filter.
    """
    with display as shown:
        taken = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = (
            stream if stream is None or isinstance(stream, _Stream) else _Stream(stream, is_needed=False)
            for stream in taken
        )
        try:
            yield shown
        finally:
            sys.stdout, sys.stderr = taken


def silence(stream: TextIO) -> None:
    """Let everything that is still to be written to `stream` go nowhere, at the end of the process too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Stream(io.TextIOBase):
    """A stream of text whose failures are reported where it `is_needed`, and nowhere else.

    What it writes is made printable, unless it `is_live`.
    """

    def __init__(self, stream: TextIO, *, is_needed: bool, is_live: bool = False) -> None:
        self._stream = stream
        self._is_needed = is_needed
        self._is_live = is_live
        self._failure: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors

    def live(self) -> TextIO:
        """Return the same stream without its filter."""
        return cast("TextIO", _Stream(self._stream, is_needed=self._is_needed, is_live=True))

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._guarded():
            self._stream.write(text if self._is_live else printable(text))
        return len(text)

    def flush(self) -> None:
        with self._guarded():
            self._stream.flush()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        if self._failure is not None:  # it may have been caught by a library that tries the stream out
            raise self._failure
        try:
            yield
        except OSError as error:
            silence(self._stream)
            if not self._is_needed:
                return
            if isinstance(error, BrokenPipeError):
                self._failure = error
            else:
                self._failure = FileError.from_os(_("standard output"), error, action="write")
            raise self._failure from None
