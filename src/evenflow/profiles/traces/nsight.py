"""Nsight Systems, as ``nsys export --type sqlite`` writes it: NVTX ranges, CUDA calls and what ran on the device.

A report may have several processes, each a pipeline rank; ids of calls are unique in a process only. Tables are there
only where there was something to record. Times are nanoseconds. [Nsight Systems, SQLite Schema Reference]
"""

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from evenflow.errors import InputError
from evenflow.profiles.traces import launches
from evenflow.profiles.traces.columns import Table, joined
from evenflow.profiles.traces.launches import BackwardNode, Link, Scope, Work
from evenflow.profiles.traces.markers import complete_steps, is_step
from evenflow.profiles.traces.names import NameMatcher
from evenflow.profiles.traces.timeline import StepMarkers, Timeline

MAGIC = b"SQLite format 3\0"

_THREAD_BITS = 24
"""A global thread id is the process's with the thread in its lowest bits."""
_PUSH_POP, _START_END = 59, 60
_DEVICE = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
_CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
_SEQUENCE = re.compile(r"(.*), seq = (\d{1,18})(?:,.*)?", re.DOTALL)
_NODE = "autograd::engine::evaluate_function"
_MOST_NAMES = 50_000


class _Process:
    """What one process did."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.nodes: list[BackwardNode] = []
        self.steps: list[tuple[int, int]] = []
        self.counts: Counter[str] = Counter()
        self.forward_of: dict[int, tuple[int, int]] = {}
        self.backward_of: list[tuple[int, int, int]] = []
        self.calls = Table(3)  # correlation, thread, time
        self.kernels = Table(4)  # correlation, start, end, is collective

    def links(self) -> Iterator[Link]:
        """From the forward operator that last had a sequence number to the backward node that has it."""
        for sequence, thread, start in self.backward_of:
            origin = self.forward_of.get(sequence)
            if origin is not None:
                yield Link(*origin, thread, start)

    def work(self) -> Work:
        """What ran on the device, with where it was launched."""
        called, thread, launch_ns = self.calls.columns()
        correlation, start, end, is_collective = self.kernels.columns()
        call, kernel = joined(called, correlation)
        return Work(
            thread=thread[call],
            launch_ns=launch_ns[call],
            start_ns=start[kernel],
            end_ns=end[kernel],
            is_collective=is_collective[kernel].astype(np.bool_),
        )


def read_report(path: Path, matcher: NameMatcher, *, on_bytes: Callable[[int], None]) -> list[Timeline]:
    """A timeline for each process with NVTX ranges.

    Raises:
        InputError: a file that is no such export, is damaged, or has no NVTX ranges or no kernels.
    """
    _check_size(path)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.text_factory = lambda text: text.decode("utf-8", "replace")
            processes = _read(database, path, matcher)
    except sqlite3.Error as error:
        raise _damaged(path, str(error)) from None
    on_bytes(path.stat().st_size)
    several = len(processes) > 1
    timelines = []
    for process, found in sorted(processes.items()):
        file = f"{path}, process {process & 0xFFFFFF}" if several else str(path)
        occurrences, recomputed = launches.occurrences_of(found.scopes, found.nodes, found.links(), found.work())
        note = f"{file}: layers recompute; that time is in neither forward nor backward"
        timelines.append(
            Timeline(
                file=file,
                source="Nsight Systems: time in which the device is busy",
                occurrences=occurrences,
                markers=[StepMarkers(name="step ranges", windows=complete_steps(found.steps))],
                scopes=found.counts,
                notes=[note] if recomputed else [],
            )
        )
    return timelines


def _check_size(path: Path) -> None:
    """Refuse a file that was cut off: what SQLite does not look for, it does not miss."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from None
    if len(header) < 100 or not header.startswith(MAGIC):
        raise _damaged(path, "it does not begin as one")
    page_bytes, num_pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    page_bytes = 2**16 if page_bytes == 1 else page_bytes
    if path.stat().st_size < page_bytes * num_pages:
        raise _damaged(path, f"it ends before its {num_pages:,} pages of {page_bytes:,} bytes")


def _damaged(path: Path, problem: str) -> InputError:
    return InputError(
        value=path.name,
        rule=f"a whole SQLite file ({problem})",
        place=str(path),
        remedy="export it again: nsys export --type sqlite",
    )


def _read(database: sqlite3.Connection, path: Path, matcher: NameMatcher) -> dict[int, _Process]:
    """The processes that have NVTX ranges."""
    tables = {name: set[str]() for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for name in tables:
        if name in ("NVTX_EVENTS", "StringIds", _CALLS, *_DEVICE):
            tables[name] = {row[1] for row in database.execute(f'PRAGMA table_info("{name}")')}
    _require(tables, path)
    processes: dict[int, _Process] = defaultdict(_Process)
    for thread, start, end, name in _ranges(database, tables):
        if isinstance(name, str) and _are_integers(thread, start, end):
            _add_range(processes[thread >> _THREAD_BITS], matcher, name, thread, start, end)
    if not processes:
        raise _no_ranges(path)
    _add_calls(database, processes)
    for table in _DEVICE:
        if table in tables:
            _add_kernels(database, table, tables[table], processes, tables.get("StringIds", set()))
    return dict(processes)


def _require(tables: dict[str, set[str]], path: Path) -> None:
    if "NVTX_EVENTS" not in tables:
        raise _no_ranges(path)
    if _CALLS not in tables or _DEVICE[0] not in tables:
        raise InputError(
            value=sorted(tables)[:12],
            rule=f"the report has CUDA kernels and calls: tables {_DEVICE[0]} and {_CALLS}",
            place=str(path),
            remedy="profile with nsys profile -t cuda,nvtx",
        )
    for table, columns in (
        ("NVTX_EVENTS", {"start", "end", "text", "globalTid"}),
        (_CALLS, {"start", "globalTid", "correlationId"}),
        (_DEVICE[0], {"start", "end", "correlationId"}),
    ):
        if not columns <= tables[table]:
            raise InputError(
                value=sorted(tables[table]),
                rule=f"table {table} has the columns {', '.join(sorted(columns))}",
                place=str(path),
                remedy="export it with a recent nsys",
            )


def _no_ranges(path: Path) -> InputError:
    return InputError(
        value=path.name,
        rule="the report has NVTX ranges (table NVTX_EVENTS)",
        place=str(path),
        remedy="put an NVTX range around every layer and profile with nsys profile -t cuda,nvtx",
    )


def _ranges(database: sqlite3.Connection, tables: dict[str, set[str]]) -> Iterator[tuple[int, int, int, str]]:
    """Thread, start, end and name of the ranges; a name is in the row or among the strings."""
    columns = tables["NVTX_EVENTS"]
    by_id = "textId" in columns and "StringIds" in tables
    name = "COALESCE(n.text, s.value)" if by_id else "n.text"
    join = "LEFT JOIN StringIds AS s ON s.id = n.textId" if by_id else ""
    kinds = f"n.eventType IN ({_PUSH_POP}, {_START_END}) AND" if "eventType" in columns else ""
    yield from database.execute(
        f'SELECT n.globalTid, n.start, n."end", {name} FROM NVTX_EVENTS AS n {join} '
        f'WHERE {kinds} n."end" >= n.start ORDER BY n.start'
    )


def _add_range(process: _Process, matcher: NameMatcher, name: str, thread: int, start: int, end: int) -> None:
    if is_step(name):
        process.steps.append((start, end))
        return
    numbered = _SEQUENCE.fullmatch(name)
    if numbered is not None or name.startswith(_NODE):  # an operator, as PyTorch's emit_nvtx marks it
        operator = name if numbered is None else numbered[1]
        if operator.startswith(_NODE) or "Backward" in operator:
            process.nodes.append(BackwardNode(thread, start, end))
            if numbered is not None:
                process.backward_of.append((int(numbered[2]), thread, start))
        elif numbered is not None:
            process.forward_of[int(numbered[2])] = (thread, start)
        return
    if len(process.counts) < _MOST_NAMES or name in process.counts:
        process.counts[name] += 1
    match = matcher(name)
    if match is not None:
        process.scopes.append(Scope(thread, start, end, match, name))


def _add_calls(database: sqlite3.Connection, processes: dict[int, _Process]) -> None:
    cursor = database.execute(f"SELECT globalTid, correlationId, start FROM {_CALLS}")
    while rows := cursor.fetchmany(100_000):
        batches = defaultdict(list)
        for thread, correlation, start in rows:
            if _are_integers(thread, correlation, start):
                batches[thread >> _THREAD_BITS].append((correlation, thread, start))
        for process, batch in batches.items():
            if process in processes:
                processes[process].calls.add(*zip(*batch, strict=True))


def _add_kernels(
    database: sqlite3.Connection, table: str, columns: set[str], processes: dict[int, _Process], strings: set[str]
) -> None:
    """Add the rows of one of the device's tables; a kernel's name is an id of a string."""
    process_id = "globalPid" if "globalPid" in columns else "NULL"
    is_named = "shortName" in columns and "value" in strings
    collectives = set()
    if is_named:
        found = database.execute("SELECT id FROM StringIds WHERE value LIKE '%nccl%'")
        collectives = {identifier for (identifier,) in found}
    cursor = database.execute(
        f'SELECT {process_id}, correlationId, start, "end", {"shortName" if is_named else "NULL"} FROM {table}'
    )
    only = next(iter(processes)) if len(processes) == 1 else None
    while rows := cursor.fetchmany(100_000):
        batches = defaultdict(list)
        for process, correlation, start, end, name in rows:
            if _are_integers(correlation, start, end) and end >= start:
                owner = process >> _THREAD_BITS if isinstance(process, int) else only
                batches[owner].append((correlation, start, end, name in collectives))
        for owner, batch in batches.items():
            if owner in processes:
                processes[owner].kernels.add(*zip(*batch, strict=True))


def _are_integers(*values: object) -> bool:
    """SQLite does not hold a column to its type."""
    return all(isinstance(value, int) for value in values)
