"""Collects the events of a Chrome trace that matter, in one pass (see `chrome`)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.traces.formats.columns import IntegerColumns, Integers
from evenflow.profiles.traces.formats.event_times import time_ns, times_ns
from evenflow.profiles.traces.formats.events import Event
from evenflow.profiles.traces.formats.kernel_names import kernel_doing, operator_doing
from evenflow.profiles.traces.formats.launches import AUTOGRAD_NODE, BackwardNode, LaunchLink, LaunchScope, check_scopes
from evenflow.profiles.traces.formats.scope_rows import PASSES, ScopeRow
from evenflow.profiles.traces.markers import is_step
from evenflow.profiles.traces.names import NameMatcher, count_name

_MODULE = "nn.Module: "
_FIRST_OPERATOR = "MatMul-op"
_OPERATORS = tuple(f"{name}/" for name in PASSES)
_HOST_RANGES = ("user_annotation", "python_function", "cpu_op")
_LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime", "privateuse1_runtime", "xpu_runtime")
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_OLD_CATEGORIES = {
    "Operator": "cpu_op", "Runtime": "cuda_runtime", "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset"
}  # fmt: skip
"""Categories as PyTorch named them before 1.13."""

Name = int | str | None
"""A process or a thread."""


class ChromeCollector:
    """Keeps what matters of a stream of events, in tables of numbers where there is much of it."""

    def __init__(self, path: Path, matcher: NameMatcher) -> None:
        self.file = str(path)
        self.matcher = matcher
        self._threads: dict[tuple[Name, Name], int] = {}
        self.processes: dict[object, object] = {}
        self.scopes: list[LaunchScope] = []
        self.nodes: list[BackwardNode] = []
        self.steps: list[tuple[int, int]] = []
        self.counts: Counter[str] = Counter()
        self.row_counts: Counter[tuple[object, str]] = Counter()
        self.rows: list[tuple[Name, Name, ScopeRow]] = []
        self.operator = ""
        self.operator_starts: list[int] = []
        self._flow_starts: dict[tuple[str, object], tuple[int, int]] = {}
        self._opened: defaultdict[tuple[Name, Name], list[Event]] = defaultdict(list)
        self.links: list[LaunchLink] = []
        self.launches = IntegerColumns(3)  # correlation, thread, time
        self.kernels = IntegerColumns(4)  # correlation, start, end, what it is doing
        self.operators = IntegerColumns(4)  # thread, start, end, what it is doing
        self.flows = IntegerColumns(4)  # thread and time of the launch, thread and time of the kernel
        self.bare_rows = IntegerColumns(4)  # thread, start, end, what it is doing

    def add(self, events: Iterable[Event]) -> None:
        """Take the next events of the file."""
        ranges: defaultdict[str, list[Event]] = defaultdict(list)
        for read in events:
            event = self._whole(read) if read.ph in ("B", "E") else read
            phase = event.ph
            if phase == "X":
                ranges[_OLD_CATEGORIES.get(event.cat, event.cat)].append(event)
            elif phase in ("s", "f"):
                self._add_flow(event)
            elif phase == "M" and event.name == "process_name" and event.args:
                self.processes[event.pid] = event.args.name
        for category, batch in ranges.items():
            if category in _DEVICE:
                self._add_kernels(batch)
            elif category in _LAUNCHES:
                self._add_launches(batch)
            elif category in _HOST_RANGES:
                self._add_host_ranges(batch, category)
            elif not category:
                self._add_bare_rows(batch)
            elif self.matcher.takes_functions:
                self._add_named_rows(batch)
        check_scopes(len(self.scopes) + len(self.rows), file=self.file)

    @property
    def num_threads(self) -> int:
        """Number of threads that events name."""
        return len(self._threads)

    @property
    def thread_processes(self) -> list[Name]:
        """The process of every thread."""
        return [process for process, _thread in self._threads]

    def _span(self, event: Event) -> tuple[int, int]:
        start, end = self._spans([event])
        return int(start[0]), int(end[0])

    def _spans(self, events: Sequence[Event]) -> tuple[Integers, Integers]:
        start = times_ns([event.ts for event in events], file=self.file)
        duration = times_ns([event.dur for event in events], file=self.file)
        if len(duration) and duration.min() < 0:
            rule = _("must have events that last no negative time")
            raise InputError(value=int(duration.min()), rule=rule, place=self.file)
        return start, start + duration

    def _thread(self, event: Event) -> int:
        return self._threads.setdefault((event.pid, event.tid), len(self._threads))

    def _add_kernels(self, events: Sequence[Event]) -> None:
        events = [event for event in events if _correlation(event) is not None]
        arguments = [(event.name, event.args) for event in events if event.args]
        doing = [
            kernel_doing(name, collective=args.collective if isinstance(args.collective, str) else None)
            for name, args in arguments
        ]
        self.kernels.add([args.correlation for _name, args in arguments], *self._spans(events), doing)
        self.operators.clear()  # there is a device, so the operators of the CPU are no measure

    def _add_launches(self, events: Sequence[Event]) -> None:
        events = [event for event in events if _correlation(event) is not None]
        times = times_ns([event.ts for event in events], file=self.file)
        correlations = [event.args.correlation for event in events if event.args]
        self.launches.add(correlations, [self._thread(event) for event in events], times)

    def _add_host_ranges(self, events: Sequence[Event], category: str) -> None:
        if category == "cpu_op":
            for event in events:
                if event.name.startswith(AUTOGRAD_NODE):
                    self.nodes.append(BackwardNode(self._thread(event), *self._span(event)))
            # A backward node is no work by itself: it calls operators, and may recompute a layer first.
            events = [
                event for event in events if "Backward" not in event.name and not event.name.startswith(AUTOGRAD_NODE)
            ]
            if not self.kernels:
                threads, doing = (
                    [self._thread(event) for event in events],
                    [operator_doing(event.name) for event in events],
                )
                self.operators.add(threads, *self._spans(events), doing)
            # Operators of libraries have "::" in their names; torch_npu has the ranges of users among them.
            events = [event for event in events if "::" not in event.name]
        elif category == "python_function":
            also = self.matcher if self.matcher.takes_functions else lambda _name: None
            events = [event for event in events if event.name.startswith(_MODULE) or also(event.name)]
        for event in events:
            if is_step(event.name):
                self.steps.append(self._span(event))
                continue
            count_name(self.counts, event.name)
            match = self.matcher(event.name)
            if match is not None:
                self.scopes.append(LaunchScope(self._thread(event), *self._span(event), match, event.name))

    def _add_bare_rows(self, events: Sequence[Event]) -> None:
        """Take rows without a category: Ascend's device, CANN and scopes; a label may tell later which."""
        for event in events:
            name = event.name
            if _FIRST_OPERATOR in name and (not self.operator or name == self.operator):
                self.operator = name
                self.operator_starts.append(self._span(event)[0])
        # Neither MindSpore's operators by their full name nor CANN's calls.
        events = [event for event in events if not event.name.startswith(_OPERATORS) and "@" not in event.name]
        for event in events:
            name = event.name
            if "/" in name:
                continue  # no scope
            count_name(self.row_counts, (event.pid, name))
            if is_step(name):
                self.steps.append(self._span(event))
            elif (name in PASSES and event.tid in (0, "0")) or self.matcher(name):
                self.rows.append((event.pid, event.tid, ScopeRow(name, *self._span(event))))
        threads = [self._thread(event) for event in events]
        self.bare_rows.add(threads, *self._spans(events), [kernel_doing(event.name) for event in events])

    def _add_named_rows(self, events: Sequence[Event]) -> None:
        """Take rows of any category that match."""
        for event in events:
            count_name(self.row_counts, (event.pid, event.name))
            if self.matcher(event.name):
                self.rows.append((event.pid, event.tid, ScopeRow(event.name, *self._span(event))))

    def _whole(self, event: Event) -> Event:
        """Return the row that an event ends; of one that begins a row, that event itself."""
        opened = self._opened[event.pid, event.tid]
        if event.ph == "B":
            opened.append(event)
        elif opened:
            begin = opened.pop()
            if begin.ts is not None and event.ts is not None:
                return msgspec.structs.replace(begin, ph="X", dur=event.ts - begin.ts)
        return event

    def _add_flow(self, event: Event) -> None:
        if event.cat not in ("fwdbwd", "async_npu"):
            return
        key = (event.cat, event.id)
        if event.ph == "s":
            self._flow_starts[key] = (self._thread(event), time_ns(event.ts, file=self.file))
            return
        start = self._flow_starts.pop(key, None)
        if start is None:
            return
        if event.cat == "fwdbwd":
            self.links.append(LaunchLink(*start, self._thread(event), time_ns(event.ts, file=self.file)))
        else:
            self.flows.add(*([value] for value in (*start, self._thread(event), time_ns(event.ts, file=self.file))))


def _correlation(event: Event) -> int | None:
    """Return the number that joins a kernel and its launch."""
    correlation = event.args.correlation if event.args else None
    return correlation if isinstance(correlation, int) and abs(correlation) < 2**62 else None
