"""Ascend's ``trace_view.json`` and PyTorch's Kineto traces: one pass over the events, then what they mean together.

Three layouts, told apart by what is there:

- Ascend with a ``Scope Layer`` process (MindSpore): rows of layers on the device, see `scope_rows`.
- Ascend without (torch_npu): ranges on the host, ``torch_to_npu`` flows from operators to kernels.
- Kineto: ranges on the host, kernels and launches with one ``correlation``; without kernels, operators of the CPU.

The last two name links from forward to backward by ``fwdbwd`` flows; see `device_times`.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import numpy as np

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.traces.formats import device_times, scope_rows
from evenflow.profiles.traces.formats.chrome_collector import ChromeCollector
from evenflow.profiles.traces.formats.columns import joined
from evenflow.profiles.traces.formats.events import read_events
from evenflow.profiles.traces.formats.kernel_names import Doing
from evenflow.profiles.traces.formats.launches import DeviceWork, LaunchedRanges, LaunchScope, work_of_launches
from evenflow.profiles.traces.formats.scope_rows import PASSES, SCOPE_PROCESS
from evenflow.profiles.traces.markers import complete_steps
from evenflow.profiles.traces.names import BODY, Match, NameMatcher
from evenflow.profiles.traces.trace import StepMarkers, Trace
from evenflow.profiles.traces.trace_files import shown_name


def read_chrome_trace(path: Path, matcher: NameMatcher, *, on_bytes: Callable[[int], None]) -> Trace:
    """Return the trace in a file; `on_bytes` is told how many bytes have been read.

    Raises:
        InputError: a file that is damaged or no trace, or kernels that nothing joins to the host.
    """
    collector = _collected(path, matcher, on_bytes)
    scope_pids = {pid for pid, name in collector.processes.items() if name == SCOPE_PROCESS}
    return _scope_trace(collector, scope_pids) if scope_pids else _host_trace(collector)


def read_chrome_ranges(path: Path, matcher: NameMatcher, *, on_bytes: Callable[[int], None]) -> list[LaunchedRanges]:
    """Return the ranges on the host that match and the work on the device, for each process that has any of either, or
    once where none has.

    Where no range on the host matches, rows without a category may: those of a device, or of a simulator.

    Of a trace with MindSpore's scopes, its passes are these ranges.

    Raises:
        InputError: as `read_chrome_trace`.
    """
    collector = _collected(path, matcher, on_bytes)
    if SCOPE_PROCESS in collector.processes.values():
        return _pass_ranges(collector)
    if collector.rows and not (collector.scopes or collector.kernels or collector.operators or collector.flows):
        return _row_ranges(collector)
    work, _source = _work(collector)
    if collector.flows:
        work = _with_messages(work, collector)
    processes = collector.thread_processes
    of_work = np.unique(work.thread).tolist()
    every = dict.fromkeys(processes[thread] for thread in (*(s.thread for s in collector.scopes), *of_work))
    return [
        LaunchedRanges(
            file=str(path),
            scopes=[scope for scope in collector.scopes if processes[scope.thread] == process],
            work=_work_of(work, [thread for thread in of_work if processes[thread] == process]),
            names=collector.counts,
            steps=complete_steps(collector.steps),
            nodes=[node for node in collector.nodes if processes[node.thread] == process],
            links=[link for link in collector.links if processes[link.forward_thread] == process],
            label=str(collector.processes.get(process) or ""),
        )
        for process in every or (None,)
    ]


def _with_messages(work: DeviceWork, collector: ChromeCollector) -> DeviceWork:
    """Return the work of an NPU with the messages that no flow joins to the host, launched before what runs next."""
    _thread, start, end, doing = collector.bare_rows.columns()
    joined_spans = set(zip(work.start_ns.tolist(), work.end_ns.tolist(), strict=True))
    loose = np.array(
        [
            place
            for place in np.flatnonzero(doing == Doing.MESSAGE).tolist()
            if (int(start[place]), int(end[place])) not in joined_spans
        ],
        dtype=np.int64,
    )
    order = np.argsort(work.start_ns, kind="stable")
    following = order[np.minimum(np.searchsorted(work.start_ns[order], start[loose]), len(order) - 1)]
    more = DeviceWork(
        thread=work.thread[following],
        launch_ns=work.launch_ns[following] - 1,
        start_ns=start[loose],
        end_ns=end[loose],
        doing=doing[loose],
    )
    columns = {
        field.name: np.concatenate((getattr(work, field.name), getattr(more, field.name)))
        for field in fields(DeviceWork)
    }
    return DeviceWork(**columns)


def _work_of(work: DeviceWork, threads: Sequence[int]) -> DeviceWork:
    """Return the work that some threads launched."""
    own = np.isin(work.thread, threads)
    columns = {field.name: getattr(work, field.name)[own] for field in fields(DeviceWork)}
    return DeviceWork(**columns)


def _pass_ranges(collector: ChromeCollector) -> list[LaunchedRanges]:
    """Return the forwards and backwards of MindSpore's scopes, for each process that has any."""
    ranges = []
    for process in (pid for pid, name in collector.processes.items() if name == SCOPE_PROCESS):
        rows = [(tid, row) for pid, tid, row in collector.rows if pid == process]
        passes = [row for tid, row in rows if row.name in PASSES and tid in (0, "0")]
        layers = [row for _tid, row in rows if row.name not in PASSES]
        scopes = [
            LaunchScope(0, row.start_ns, row.end_ns, Match(BODY, row.name), row.name)
            for row in scope_rows.whole_passes(passes, layers)
        ]
        names = {name: count for (pid, name), count in collector.row_counts.items() if pid == process}
        ranges.append(
            LaunchedRanges(file=collector.file, scopes=scopes, work=_no_work(), names=names, has_own_times=True)
        )
    return ranges


def _no_work() -> DeviceWork:
    nothing = np.zeros(0, dtype=np.int64)
    return DeviceWork(thread=nothing, launch_ns=nothing, start_ns=nothing, end_ns=nothing, doing=nothing)


def _row_ranges(collector: ChromeCollector) -> list[LaunchedRanges]:
    """Return rows without a category that match, for each process, with their own times."""
    return [
        LaunchedRanges(
            file=collector.file,
            scopes=[
                LaunchScope(0, row.start_ns, row.end_ns, Match(BODY, row.name), row.name)
                for pid, _tid, row in collector.rows
                if pid == process
            ],
            work=_no_work(),
            names={name: count for (pid, name), count in collector.row_counts.items() if pid == process},
            steps=complete_steps(collector.steps),
            label=str(collector.processes.get(process) or ""),
            has_own_times=True,
            is_on_device=False,
        )
        for process in dict.fromkeys(pid for pid, _tid, _row in collector.rows)
    ]


def _collected(path: Path, matcher: NameMatcher, on_bytes: Callable[[int], None]) -> ChromeCollector:
    collector = ChromeCollector(path, matcher)
    for events in read_events(path, on_bytes=on_bytes):
        collector.add(events)
    return collector


def _host_trace(collected: ChromeCollector) -> Trace:
    """Return the trace with layers found by ranges on the host."""
    work, source = _work(collected)
    occurrences, recomputed = device_times.occurrences_of(collected.scopes, collected.nodes, collected.links, work)
    note = _("{name}: layers recompute; that time is in neither forward nor backward", name=shown_name(collected.file))
    return Trace(
        file=collected.file,
        source=source,
        occurrences=occurrences,
        markers=[StepMarkers(name="ProfilerStep", windows=complete_steps(collected.steps))],
        scopes=collected.counts,
        notes=[note] if recomputed else [],
    )


def _scope_trace(collected: ChromeCollector, pids: set[object]) -> Trace:
    """Return the layers by MindSpore's rows. Their operators repeat once a step; host marks run ahead of the device."""
    rows = [(tid, row) for pid, tid, row in collected.rows if pid in pids]
    passes = [row for tid, row in rows if row.name in PASSES and tid in (0, "0")]
    layers = [row for _, row in rows if collected.matcher(row.name)]
    starts, operator = sorted(collected.operator_starts), collected.operator.rpartition("/")[2]
    return Trace(
        file=collected.file,
        source=_("Ascend, scope rows: time on the device from first to last operator"),
        occurrences=scope_rows.occurrences_of(passes, layers, collected.matcher),
        markers=[
            StepMarkers(name=_("repeats of {operator}", operator=operator), windows=list(pairwise(starts))),
            StepMarkers(name="ProfilerStep", windows=complete_steps(collected.steps)),
        ],
        scopes={
            name: count for (pid, name), count in collected.row_counts.items() if pid in pids and name not in PASSES
        },
    )


def _work(collected: ChromeCollector) -> tuple[DeviceWork, str]:
    """Return the kernels with the places of their launches and their times."""
    if collected.flows:
        return _npu_work(collected), _("Ascend, host ranges: time in which the device is busy")
    if collected.kernels:
        work = work_of_launches(collected.launches, collected.kernels)
        if not len(work.thread):
            link = _("a launch of the same correlation (cuda_runtime)")
            raise _not_joined(collected.file, link, _("CPU and CUDA"))
        return work, _("PyTorch: time in which the device is busy")
    if "Ascend Hardware" in collected.processes.values():
        raise _not_joined(collected.file, _("a torch_to_npu flow"), _("CPU and NPU"))
    thread, start, end, doing = collected.operators.columns()
    work = DeviceWork(thread=thread, launch_ns=start, start_ns=start, end_ns=end, doing=doing)
    return work, _("PyTorch on the CPU: time in operators")


def _npu_work(collected: ChromeCollector) -> DeviceWork:
    """Return the kernels at the ends of flows, joined by thread and start."""
    launch_thread, launch_ns, kernel_thread, kernel_ns = collected.flows.columns()
    thread, start, end, doing = collected.bare_rows.columns()
    origin, threads = int(kernel_ns.min()), collected.num_threads
    row, flow = joined((start - origin) * threads + thread, (kernel_ns - origin) * threads + kernel_thread)
    if not len(flow):
        raise _not_joined(collected.file, _("a torch_to_npu flow"), _("CPU and NPU"))
    return DeviceWork(
        thread=launch_thread[flow],
        launch_ns=launch_ns[flow],
        start_ns=start[row],
        end_ns=end[row],
        doing=doing[row],
    )


def _not_joined(file: str, link: str, activities: str) -> InputError:
    """Return the refusal of a trace whose kernels cannot be joined to anything on the host."""
    rule = _("must join the kernels of the device to the host by {link}, and joins none", link=link)
    return InputError(
        rule=rule,
        place=file,
        remedy=_("profile the activities {activities} together", activities=activities),
    )
