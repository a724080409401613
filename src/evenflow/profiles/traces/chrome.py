"""Ascend's ``trace_view.json`` and PyTorch's Kineto traces: one pass over the events, then what they mean together.

Three layouts, told apart by what is there:

- Ascend with a ``Scope Layer`` process (MindSpore): rows of layers on the device, see `scope_rows`.
- Ascend without (torch_npu): ranges on the host, ``torch_to_npu`` flows from operators to kernels.
- Kineto: ranges on the host, kernels and launches with one ``correlation``; without kernels, operators of the CPU.

The last two name links from forward to backward by ``fwdbwd`` flows; see `launches`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from evenflow.errors import InputError
from evenflow.profiles.traces import launches, scope_rows
from evenflow.profiles.traces.columns import Integers, Table, joined
from evenflow.profiles.traces.events import Event, time_ns, times_ns
from evenflow.profiles.traces.launches import BackwardNode, Link, Scope, Work
from evenflow.profiles.traces.markers import complete_steps, is_step
from evenflow.profiles.traces.names import NameMatcher
from evenflow.profiles.traces.scope_rows import PASSES, SCOPE_PROCESS, Row
from evenflow.profiles.traces.timeline import StepMarkers, Timeline

_NODE = "autograd::engine::evaluate_function"
_MODULE = "nn.Module: "
_FIRST_OPERATOR = "MatMul-op"
_OPERATORS = tuple(f"{name}/" for name in PASSES)
_HOST_RANGES = ("user_annotation", "python_function", "cpu_op")
_LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime", "privateuse1_runtime", "xpu_runtime")
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_MOST_NAMES = 50_000

Name = int | str | None
"""A process or a thread."""


class ChromeCollector:
    """Keeps what matters of a stream of events, in arrays of numbers where there is much of it."""

    def __init__(self, path: Path, matcher: NameMatcher) -> None:
        self._file = str(path)
        self._matcher = matcher
        self._threads: dict[tuple[Name, Name], int] = {}
        self._processes: dict[object, object] = {}
        self._scopes: list[Scope] = []
        self._nodes: list[BackwardNode] = []
        self._steps: list[tuple[int, int]] = []
        self._counts: Counter[str] = Counter()
        self._row_counts: Counter[tuple[object, str]] = Counter()
        self._rows: list[tuple[Name, Name, Row]] = []
        self._operator = ""
        self._operator_starts: list[int] = []
        self._flow_starts: dict[tuple[str, object], tuple[int, int]] = {}
        self._links: list[Link] = []
        self._launches = Table(3)  # correlation, thread, time
        self._kernels = Table(4)  # correlation, start, end, is collective
        self._operators = Table(3)  # thread, start, end
        self._flows = Table(4)  # thread and time of the launch, thread and time of the kernel
        self._bare_rows = Table(4)  # thread, start, end, is collective

    def add(self, events: Iterable[Event]) -> None:
        """Take the next events of the file."""
        ranges: defaultdict[str, list[Event]] = defaultdict(list)
        for event in events:
            phase = event.ph
            if phase == "X":
                ranges[event.cat].append(event)
            elif phase in ("s", "f"):
                self._add_flow(event)
            elif phase == "M" and event.name == "process_name" and event.args:
                self._processes[event.pid] = event.args.name
        for category, batch in ranges.items():
            if category in _DEVICE:
                self._add_kernels(batch)
            elif category in _LAUNCHES:
                self._add_launches(batch)
            elif category in _HOST_RANGES:
                self._add_host_ranges(batch, category)
            elif not category:
                self._add_bare_rows(batch)

    def _span(self, event: Event) -> tuple[int, int]:
        start, end = self._spans([event])
        return int(start[0]), int(end[0])

    def _spans(self, events: Sequence[Event]) -> tuple[Integers, Integers]:
        start = times_ns([event.ts for event in events], file=self._file)
        duration = times_ns([event.dur for event in events], file=self._file)
        if len(duration) and duration.min() < 0:
            raise InputError(value=int(duration.min()), rule="no event lasts a negative time", place=self._file)
        return start, start + duration

    def _thread(self, event: Event) -> int:
        return self._threads.setdefault((event.pid, event.tid), len(self._threads))

    def _add_kernels(self, events: Sequence[Event]) -> None:
        events = [event for event in events if _correlation(event) is not None]
        correlations = [event.args.correlation for event in events if event.args]
        self._kernels.add(correlations, *self._spans(events), [_is_collective(event.name) for event in events])
        self._operators.clear()  # there is a device, so the operators of the CPU are no measure

    def _add_launches(self, events: Sequence[Event]) -> None:
        events = [event for event in events if _correlation(event) is not None]
        times = times_ns([event.ts for event in events], file=self._file)
        correlations = [event.args.correlation for event in events if event.args]
        self._launches.add(correlations, [self._thread(event) for event in events], times)

    def _add_host_ranges(self, events: Sequence[Event], category: str) -> None:
        if category == "cpu_op":
            for event in events:
                if event.name.startswith(_NODE):
                    self._nodes.append(BackwardNode(self._thread(event), *self._span(event)))
            # A backward node is no work by itself: it calls operators, and may recompute a layer first.
            events = [event for event in events if "Backward" not in event.name and not event.name.startswith(_NODE)]
            if not self._kernels:
                self._operators.add([self._thread(event) for event in events], *self._spans(events))
            # Operators of libraries have "::" in their names; torch_npu has the ranges of users among them.
            events = [event for event in events if "::" not in event.name]
        elif category == "python_function":
            events = [event for event in events if event.name.startswith(_MODULE)]
        for event in events:
            if is_step(event.name):
                self._steps.append(self._span(event))
                continue
            _count(self._counts, event.name)
            match = self._matcher(event.name)
            if match is not None:
                self._scopes.append(Scope(self._thread(event), *self._span(event), match, event.name))

    def _add_bare_rows(self, events: Sequence[Event]) -> None:
        """Rows without a category: Ascend's device, CANN and scopes. Which of them, a label may tell later."""
        for event in events:
            name = event.name
            if _FIRST_OPERATOR in name and (not self._operator or name == self._operator):
                self._operator = name
                self._operator_starts.append(self._span(event)[0])
        # Neither MindSpore's operators by their full name nor CANN's calls.
        events = [event for event in events if not event.name.startswith(_OPERATORS) and "@" not in event.name]
        for event in events:
            name = event.name
            if "/" in name:
                continue  # no scope
            _count(self._row_counts, (event.pid, name))
            if is_step(name):
                self._steps.append(self._span(event))
            elif (name in PASSES and event.tid in (0, "0")) or self._matcher(name):
                self._rows.append((event.pid, event.tid, Row(name, *self._span(event))))
        threads = [self._thread(event) for event in events]
        self._bare_rows.add(threads, *self._spans(events), [_is_collective(event.name) for event in events])

    def _add_flow(self, event: Event) -> None:
        if event.cat not in ("fwdbwd", "async_npu"):
            return
        key = (event.cat, event.id)
        if event.ph == "s":
            self._flow_starts[key] = (self._thread(event), time_ns(event.ts, file=self._file))
            return
        start = self._flow_starts.pop(key, None)
        if start is None:
            return
        if event.cat == "fwdbwd":
            self._links.append(Link(*start, self._thread(event), time_ns(event.ts, file=self._file)))
        else:
            self._flows.add(*([value] for value in (*start, self._thread(event), time_ns(event.ts, file=self._file))))

    def timeline(self) -> Timeline:
        """What the whole file says.

        Raises:
            InputError: kernels that nothing joins to the host.
        """
        scope_pids = {pid for pid, name in self._processes.items() if name == SCOPE_PROCESS}
        if scope_pids:
            return self._scope_timeline(scope_pids)
        work, source = self._work()
        occurrences, recomputed = launches.occurrences_of(self._scopes, self._nodes, self._links, work)
        note = f"{Path(self._file).name}: layers recompute; that time is in neither forward nor backward"
        return Timeline(
            file=self._file,
            source=source,
            occurrences=occurrences,
            markers=[StepMarkers(name="ProfilerStep", windows=complete_steps(self._steps))],
            scopes=self._counts,
            notes=[note] if recomputed else [],
        )

    def _scope_timeline(self, pids: set[object]) -> Timeline:
        """MindSpore's rows. Their operators repeat once a step; marks of the host run ahead of the device."""
        rows = [(tid, row) for pid, tid, row in self._rows if pid in pids]
        passes = [row for tid, row in rows if row.name in PASSES and tid in (0, "0")]
        layers = [row for _, row in rows if self._matcher(row.name)]
        starts, operator = sorted(self._operator_starts), self._operator.rpartition("/")[2]
        return Timeline(
            file=self._file,
            source="Ascend, scope rows: time on the device from first to last operator",
            occurrences=scope_rows.occurrences_of(passes, layers, self._matcher),
            markers=[
                StepMarkers(name=f"repeats of {operator}", windows=list(pairwise(starts))),
                StepMarkers(name="ProfilerStep", windows=complete_steps(self._steps)),
            ],
            scopes={
                name: count for (pid, name), count in self._row_counts.items() if pid in pids and name not in PASSES
            },
        )

    def _work(self) -> tuple[Work, str]:
        """What ran, with where it was launched, and what its times are."""
        if self._flows:
            return self._npu_work(), "Ascend, host ranges: time in which the device is busy"
        if self._kernels:
            return self._gpu_work(), "PyTorch: time in which the device is busy"
        if "Ascend Hardware" in self._processes.values():
            raise _not_joined(self._file, "a torch_to_npu flow", "CPU and NPU")
        thread, start, end = self._operators.columns()
        nothing = np.zeros(len(thread), dtype=np.bool_)
        work = Work(thread=thread, launch_ns=start, start_ns=start, end_ns=end, is_collective=nothing)
        return work, "PyTorch on the CPU: time in operators"

    def _gpu_work(self) -> Work:
        """Kernels, copies and fills, found by the correlation of their launch."""
        launched, thread, launch_ns = self._launches.columns()
        correlation, start, end, is_collective = self._kernels.columns()
        launch, kernel = joined(launched, correlation)
        if not len(launch):
            raise _not_joined(self._file, "a launch of the same correlation (cuda_runtime)", "CPU and CUDA")
        return Work(
            thread=thread[launch],
            launch_ns=launch_ns[launch],
            start_ns=start[kernel],
            end_ns=end[kernel],
            is_collective=is_collective[kernel].astype(np.bool_),
        )

    def _npu_work(self) -> Work:
        """Kernels at the ends of flows, found by thread and start."""
        launch_thread, launch_ns, kernel_thread, kernel_ns = self._flows.columns()
        thread, start, end, is_collective = self._bare_rows.columns()
        origin, threads = int(kernel_ns.min()), len(self._threads)
        row, flow = joined((start - origin) * threads + thread, (kernel_ns - origin) * threads + kernel_thread)
        if not len(flow):
            raise _not_joined(self._file, "a torch_to_npu flow", "CPU and NPU")
        return Work(
            thread=launch_thread[flow],
            launch_ns=launch_ns[flow],
            start_ns=start[row],
            end_ns=end[row],
            is_collective=is_collective[row].astype(np.bool_),
        )


def _correlation(event: Event) -> int | None:
    """What joins a kernel and its launch."""
    found = event.args.correlation if event.args else None
    return found if isinstance(found, int) and abs(found) < 2**62 else None


def _is_collective(name: str) -> bool:
    return "nccl" in name or "hcom" in name or "hccl" in name or "Hccl" in name


def _count(counts: Counter[Any], key: object) -> None:
    """Count a name, unless there are so many that they only cost memory."""
    if key in counts or len(counts) < _MOST_NAMES:
        counts[key] += 1


def _not_joined(file: str, link: str, activities: str) -> InputError:
    return InputError(
        value=Path(file).name,
        rule=f"kernels of the device are joined to the host by {link}, and none is",
        place=file,
        remedy=f"profile the activities {activities} together",
    )
