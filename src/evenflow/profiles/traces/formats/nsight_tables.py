"""Tables of a report of Nsight Systems: the checks that they are there, and their rows.

SQLite does not hold a column to its type, so rows with other values than integers are left out.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from evenflow.errors import FileError, InputError
from evenflow.fields import read_head
from evenflow.language import _
from evenflow.profiles.traces.formats.kernel_names import Doing, kernel_doing

MAGIC = b"SQLite format 3\0"
"""First bytes of every SQLite file."""

_RANGES, _STRINGS = "NVTX_EVENTS", "StringIds"
_CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
_DEVICE = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
_PUSH_POP, _START_END = 59, 60
_REQUIRED = {
    _RANGES: {"start", "end", "text", "globalTid"},
    _CALLS: {"start", "globalTid", "correlationId"},
    _DEVICE[0]: {"start", "end", "correlationId"},
}
_BATCH = 100_000


class NsightTables:
    """The tables of one report, checked on creation."""

    def __init__(self, database: sqlite3.Connection, *, place: str) -> None:
        """Raise `InputError` for a report without ranges, kernels or calls, or of an old form."""
        self._database = database
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        self._columns = {
            name: {row[1] for row in database.execute(f'PRAGMA table_info("{name}")')}
            for name in names
            if name in (_RANGES, _STRINGS, _CALLS, *_DEVICE)
        }
        if _RANGES not in self._columns:
            raise no_ranges(place)
        if _CALLS not in self._columns or _DEVICE[0] not in self._columns:
            raise InputError(
                value=sorted(names)[:12],
                rule=_(
                    "must have CUDA kernels and calls (tables {device} and {calls})", device=_DEVICE[0], calls=_CALLS
                ),
                place=place,
                remedy=_("profile with nsys profile -t cuda,nvtx"),
            )
        for table, columns in _REQUIRED.items():
            if not columns <= self._columns[table]:
                raise InputError(
                    value=sorted(self._columns[table]),
                    rule=_(
                        "must have the columns {names} in table {table}", names=", ".join(sorted(columns)), table=table
                    ),
                    place=place,
                    remedy=_("export it with a recent nsys"),
                )

    def ranges(self) -> Iterator[tuple[int, int, int, str]]:
        """Yield thread, start, end and name of the ranges; a name is in the row or among the strings."""
        by_id = "textId" in self._columns[_RANGES] and _STRINGS in self._columns
        name = "COALESCE(n.text, s.value)" if by_id else "n.text"
        join = f"LEFT JOIN {_STRINGS} AS s ON s.id = n.textId" if by_id else ""
        has_kinds = "eventType" in self._columns[_RANGES]
        kinds = f"n.eventType IN ({_PUSH_POP}, {_START_END}) AND" if has_kinds else ""
        rows = self._database.execute(
            f'SELECT n.globalTid, n.start, n."end", {name} FROM {_RANGES} AS n {join} '
            f'WHERE {kinds} n."end" >= n.start ORDER BY n.start'
        )
        for thread, start, end, text in rows:
            if isinstance(text, str) and _are_integers(thread, start, end):
                yield thread, start, end, text

    def calls(self) -> Iterator[list[tuple[int, int, int]]]:
        """Yield batches of correlation, thread and time of the calls that launch work."""
        cursor = self._database.execute(f"SELECT correlationId, globalTid, start FROM {_CALLS}")
        while rows := cursor.fetchmany(_BATCH):
            yield [row for row in rows if _are_integers(*row)]

    def kernels(self) -> Iterator[list[tuple[int | None, tuple[int, int, int, int]]]]:
        """Yield batches of a process id, where there is one, with correlation, start, end and what it is doing."""
        for table in _DEVICE:
            if table in self._columns:
                yield from self._kernels_of(table)

    def _kernels_of(self, table: str) -> Iterator[list[tuple[int | None, tuple[int, int, int, int]]]]:
        """Yield the rows of one of the device's tables; a kernel's name is the id of a string."""
        process_id = "globalPid" if "globalPid" in self._columns[table] else "NULL"
        # The short name of a kernel does not say the library that it is of.
        named = [column for column in ("demangledName", "shortName") if column in self._columns[table]]
        is_named = named and "value" in self._columns.get(_STRINGS, set())
        doing: dict[object, int] = {}
        if is_named:
            names = self._database.execute(f"SELECT id, value FROM {_STRINGS}")
            doing = {identifier: kernel_doing(value) for identifier, value in names if isinstance(value, str)}
        cursor = self._database.execute(
            f'SELECT {process_id}, correlationId, start, "end", {named[0] if is_named else "NULL"} FROM {table}'
        )
        while rows := cursor.fetchmany(_BATCH):
            yield [
                (
                    process if isinstance(process, int) else None,
                    (correlation, start, end, doing.get(name, Doing.COMPUTATION)),
                )
                for process, correlation, start, end, name in rows
                if _are_integers(correlation, start, end) and end >= start
            ]


def check_size(path: Path) -> None:
    """Refuse a file that was cut off: SQLite does not miss pages that it does not look for."""
    header = read_head(path, 100)
    if len(header) < 100 or not header.startswith(MAGIC):
        raise damaged(path, _("it does not begin as one"))
    page_bytes, num_pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    page_bytes = 2**16 if page_bytes == 1 else page_bytes
    if path.stat().st_size < page_bytes * num_pages:
        raise damaged(
            path,
            _(
                "it ends before its {num_pages:,} pages of {page_bytes:,} bytes",
                num_pages=num_pages,
                page_bytes=page_bytes,
            ),
        )


def damaged(path: Path, problem: str) -> FileError:
    """Return the refusal of a file that SQLite cannot read."""
    remedy = _("export it again: nsys export --type sqlite")
    return FileError(path, reason=_("not a whole SQLite file ({problem})", problem=problem), remedy=remedy)


def no_ranges(place: str) -> InputError:
    """Return the refusal of a report that has no ranges."""
    return InputError(
        rule=_("must have NVTX ranges (table {ranges})", ranges=_RANGES),
        place=place,
        remedy=_("put an NVTX range around every layer and profile with nsys profile -t cuda,nvtx"),
    )


def _are_integers(*values: object) -> bool:
    return all(isinstance(value, int) for value in values)
