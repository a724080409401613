"""Events of a Chrome trace, streamed: any size of file in the memory of a few blocks.

A trace is a bare array of events (Ascend) or an object with them under ``traceEvents`` (PyTorch), plain or gzipped. The
text is read in blocks and cut after the last event that is whole:

    …{"ph": "X", …}, {"ph": "X", …}, {"ph": "X", "na
                                   ^ cut; the rest waits for the next block

What stands before the cut is decoded at once, and only the fields below. A wrong cut, as inside a list of objects,
does not go unnoticed, because it leaves text that is not JSON; then brackets are counted from the start of the block.
"""

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from evenflow.errors import FileError, InputError
from evenflow.language import _

BLOCK_BYTES = 2**19
MOST_HEADER_BYTES = 16 * 2**20
MOST_EVENT_BYTES = 4 * 2**20
"""Text that is no whole event is searched again with every block, so it must not grow for long."""

DEEPEST = 200
"""Most lists and objects within one another in an event."""

_SEPARATOR = re.compile(rb"\}\s*,\s*\{")
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[\[\]{}]', re.DOTALL)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventArgs(msgspec.Struct, gc=False):
    """Arguments of an event that are of use."""

    name: Any = None
    correlation: Any = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    """The collective that a kernel runs, where PyTorch says it."""


class Event(msgspec.Struct, gc=False):
    """One trace event; `ts` and `dur` are microseconds, as a number or as text, to every digit."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Decimal | None = None
    dur: Decimal | None = None
    id: int | float | str | None = None
    args: EventArgs | None = None


_DECODER = msgspec.json.Decoder(list[Event])
_NOT_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def read_events(path: Path, *, on_bytes: Callable[[int], None]) -> Iterator[list[Event]]:
    """Yield batches of the events of a file, in order; `on_bytes` hears how many bytes of the file have been read.

    Raises:
        InputError: a file that cannot be read, is empty, cut off, not JSON, or not a trace.
    """
    try:
        with path.open("rb") as file:
            head = file.read(2)
            file.seek(0)
            if head == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield from _batches(unpacked.read, path, lambda: on_bytes(file.tell()))
            else:
                yield from _batches(file.read, path, lambda: on_bytes(file.tell()))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileError(
            path, reason=_("not a whole gzip file ({error})", error=error), remedy=_("copy it again")
        ) from None
    except OSError as error:
        raise FileError.from_os(path, error) from None


def _batches(read: Callable[[int], bytes], path: Path, on_block: Callable[[], None]) -> Iterator[list[Event]]:
    rest, is_object = _start(read, path)
    taken = 0
    while True:
        block = read(BLOCK_BYTES)
        on_block()
        buffer = rest + block
        events, used, ended = _decode(buffer, path, taken=taken, at_end=not block)
        if events:
            yield events
        if ended:
            _check_end(buffer[used:], read, path, is_object=is_object)
            on_block()
            return
        rest = buffer[used:]
        taken += used
        if not block or len(rest) > MOST_EVENT_BYTES:
            raise _cut_off(path)


def _start(read: Callable[[int], bytes], path: Path) -> tuple[bytes, bool]:
    """Return what follows the bracket that opens the events, and whether that bracket is inside an object."""
    header = b""
    while len(header) < MOST_HEADER_BYTES:
        block = read(BLOCK_BYTES if header else 2**16)
        header += block
        text = header.removeprefix(_BYTE_ORDER_MARK).lstrip()
        if text[:1] == b"[":
            return text[1:], False
        if text and text[:1] != b"{":
            break
        key = _EVENTS_KEY.search(text)
        if key:
            return text[key.end() :], True
        if not block:
            break
    if not header.strip():
        rule = _("must have events, but the file is empty")
        raise InputError(rule=rule, place=str(path), remedy=_("profile again"))
    raise InputError(
        value=header[:40].decode("utf-8", "replace"),
        rule=_("must be a JSON array of events, or an object with them under 'traceEvents'"),
        place=str(path),
        remedy=_("leave only traces in the folder; if it is one, it is cut off"),
    )


def _decode(buffer: bytes, path: Path, *, taken: int, at_end: bool) -> tuple[list[Event], int, bool]:
    """Return the whole events at the start of `buffer`, the bytes they took, and whether the array has ended."""
    separator = None if at_end else _last_separator(buffer)
    if separator is not None:
        end, following = separator
        try:
            return _DECODER.decode(b"[" + buffer[:end] + b"]"), following, False
        except msgspec.ValidationError as error:
            raise _not_an_event(error, path) from None
        except _NOT_JSON:
            pass  # not between two events: look closer
    end, following, ended = _whole_events(buffer, path)
    try:
        return _DECODER.decode(b"[" + buffer[:end] + b"]"), following, ended
    except msgspec.ValidationError as error:
        raise _not_an_event(error, path) from None
    except _NOT_JSON as error:
        reason = _(
            "not JSON in the {size:,} bytes from byte {taken:,} of the events: {error}",
            size=max(len(buffer), 1),
            taken=taken,
            error=error,
        )
        raise FileError(path, reason=reason, remedy=_("profile again")) from None


def _last_separator(buffer: bytes) -> tuple[int, int] | None:
    """Return the end of the last event that another one follows, and the start of that one."""
    end = len(buffer)
    for _attempt in range(64):
        end = buffer.rfind(b"}", 0, end)
        if end < 0:
            return None
        separator = _SEPARATOR.match(buffer, end)
        if separator:
            return end + 1, separator.end() - 1
    return None


def _whole_events(buffer: bytes, path: Path) -> tuple[int, int, bool]:
    """Count brackets: the end of the last whole event, where reading goes on, and whether the array has ended."""
    depth, end = 0, 0
    for token in _TOKEN.finditer(buffer):
        character = token[0]
        if character in b"[{":
            depth += 1
            if depth > DEEPEST:
                raise FileError(path, reason=_("its events nest more than {limit} deep", limit=DEEPEST))
        elif character in b"]}":
            depth -= 1
            if depth < 0:
                return token.start(), token.end(), True
            if depth == 0:
                end = token.end()
        elif not token[1]:
            break  # a string that goes on in the next block
    separator = re.compile(rb"\s*,").match(buffer, end)
    return (end, separator.end(), False) if separator else (0, 0, False)


def _check_end(tail: bytes, read: Callable[[int], bytes], path: Path, *, is_object: bool) -> None:
    """Refuse a file that does not close after its events."""
    last = tail.rstrip()[-1:]
    while block := read(BLOCK_BYTES):
        last = block.rstrip()[-1:] or last
    if last != (b"}" if is_object else b""):
        raise _cut_off(path)


def _cut_off(path: Path) -> FileError:
    """Return the refusal of a file that is not all there."""
    reason = _("it ends before its last bracket")
    return FileError(path, reason=reason, remedy=_("wait until the profiler has written it, or copy it again"))


def _not_an_event(error: Exception, path: Path) -> InputError:
    """Return the refusal of a field that no event of a trace has."""
    return InputError(value=str(error), rule=_("must be a list of events"), place=str(path), remedy=_("profile again"))
