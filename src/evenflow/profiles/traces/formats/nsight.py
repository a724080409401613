"""Nsight Systems, as ``nsys export --type sqlite`` writes it: NVTX ranges, CUDA calls and what ran on the device.

A report may have several processes, each a pipeline rank; ids of calls are unique in a process only. Tables are there
only where there was something to record. Times are nanoseconds. [Nsight Systems, SQLite Schema Reference]
"""

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from evenflow.language import _, to_translate
from evenflow.profiles.traces.formats import device_times
from evenflow.profiles.traces.formats.columns import IntegerColumns
from evenflow.profiles.traces.formats.launches import (
    AUTOGRAD_NODE,
    BackwardNode,
    LaunchedRanges,
    LaunchLink,
    LaunchScope,
    check_scopes,
    work_of_launches,
)
from evenflow.profiles.traces.formats.nsight_tables import NsightTables, check_size, damaged, no_ranges
from evenflow.profiles.traces.markers import complete_steps, is_step
from evenflow.profiles.traces.names import NameMatcher, count_name
from evenflow.profiles.traces.trace import StepMarkers, Trace

_THREAD_BITS = 24
"""Lowest bits of a global thread id that are the thread; the others are the process."""
_SEQUENCE = re.compile(r"(.*), seq = (\d{1,18})(?:,.*)?", re.DOTALL)


class _Process:
    """Ranges, calls and kernels of one process."""

    def __init__(self) -> None:
        self.scopes: list[LaunchScope] = []
        self.nodes: list[BackwardNode] = []
        self.steps: list[tuple[int, int]] = []
        self.counts: Counter[str] = Counter()
        self.forward_of: dict[int, tuple[int, int]] = {}
        self.backward_of: list[tuple[int, int, int]] = []
        self.calls = IntegerColumns(3)  # correlation, thread, time
        self.kernels = IntegerColumns(4)  # correlation, start, end, what it is doing

    def links(self) -> Iterator[LaunchLink]:
        """Yield links from the forward operator that last had a sequence number to the backward node that has it."""
        for sequence, thread, start in self.backward_of:
            origin = self.forward_of.get(sequence)
            if origin is not None:
                yield LaunchLink(*origin, thread, start)


def read_report(path: Path, matcher: NameMatcher, *, on_bytes: Callable[[int], None]) -> list[Trace]:
    """Return a trace for each process with NVTX ranges.

    Raises:
        InputError: a file that is no such export, is damaged, or has no NVTX ranges or no kernels.
    """
    traces = []
    for file, record in _processes(path, matcher, on_bytes):
        work = work_of_launches(record.calls, record.kernels)
        occurrences, recomputed = device_times.occurrences_of(record.scopes, record.nodes, record.links(), work)
        note = _("{file}: layers recompute; that time is in neither forward nor backward", file=file)
        traces.append(
            Trace(
                file=file,
                source=_("Nsight Systems: time in which the device is busy"),
                occurrences=occurrences,
                markers=[StepMarkers(name=to_translate("step ranges"), windows=complete_steps(record.steps))],
                scopes=record.counts,
                notes=[note] if recomputed else [],
            )
        )
    return traces


def read_report_ranges(path: Path, matcher: NameMatcher, *, on_bytes: Callable[[int], None]) -> list[LaunchedRanges]:
    """Return the NVTX ranges that match and the work on the device, for each process with ranges.

    Raises InputError as `read_report`.
    """
    return [
        LaunchedRanges(
            file=file,
            scopes=record.scopes,
            work=work_of_launches(record.calls, record.kernels),
            names=record.counts,
            steps=complete_steps(record.steps),
            nodes=record.nodes,
            links=list(record.links()),
        )
        for file, record in _processes(path, matcher, on_bytes)
    ]


def _processes(path: Path, matcher: NameMatcher, on_bytes: Callable[[int], None]) -> list[tuple[str, _Process]]:
    """Return the processes that have NVTX ranges, with a name for each."""
    check_size(path)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.text_factory = lambda text: text.decode("utf-8", "replace")
            processes = _read(database, path, matcher)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise damaged(path, str(error)) from None
    on_bytes(path.stat().st_size)
    several = len(processes) > 1
    return [
        (f"{path}, process {process & 0xFFFFFF}" if several else str(path), record)
        for process, record in sorted(processes.items())
    ]


def _read(database: sqlite3.Connection, path: Path, matcher: NameMatcher) -> dict[int, _Process]:
    """Return the processes that have NVTX ranges."""
    tables = NsightTables(database, place=str(path))
    processes: dict[int, _Process] = defaultdict(_Process)
    for thread, start, end, name in tables.ranges():
        ranged = processes[thread >> _THREAD_BITS]
        _add_range(ranged, matcher, name, thread, start, end)
        check_scopes(len(ranged.scopes), file=str(path))
    if not processes:
        raise no_ranges(str(path))
    for calls in tables.calls():
        for process, rows in _by_process((row[1], row) for row in calls).items():
            if process in processes:
                processes[process].calls.add(*zip(*rows, strict=True))
    only = next(iter(processes)) if len(processes) == 1 else None
    for kernels in tables.kernels():
        for process, rows in _by_process(kernels).items():
            owner = only if process is None else process
            if owner in processes:
                processes[owner].kernels.add(*zip(*rows, strict=True))
    return dict(processes)


def _by_process(rows: Iterable[tuple[int | None, tuple[int, ...]]]) -> dict[int | None, list[tuple[int, ...]]]:
    """Return rows by the process of their global id."""
    groups: dict[int | None, list[tuple[int, ...]]] = defaultdict(list)
    for identifier, row in rows:
        groups[None if identifier is None else identifier >> _THREAD_BITS].append(row)
    return groups


def _add_range(process: _Process, matcher: NameMatcher, name: str, thread: int, start: int, end: int) -> None:
    """Take one range: a step, an operator, or a scope."""
    if is_step(name):
        process.steps.append((start, end))
        return
    numbered = _SEQUENCE.fullmatch(name)
    if numbered is not None or name.startswith(AUTOGRAD_NODE):  # an operator, as PyTorch's emit_nvtx marks it
        operator = name if numbered is None else numbered[1]
        if operator.startswith(AUTOGRAD_NODE) or "Backward" in operator:
            process.nodes.append(BackwardNode(thread, start, end))
            if numbered is not None:
                process.backward_of.append((int(numbered[2]), thread, start))
        elif numbered is not None:
            process.forward_of[int(numbered[2])] = (thread, start)
        return
    count_name(process.counts, name)
    match = matcher(name)
    if match is not None:
        process.scopes.append(LaunchScope(thread, start, end, match, name))
