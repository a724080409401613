"""Forwards and backwards of a trace that names none, by what autograd launched and by the messages between.

In the order in which the host launched it, the work on the device is cut where a message is sent or received and where
autograd begins or ends:

    launched   | recv | matmul norm matmul | loss | matmul… (by autograd) | send | recv | matmul …
                        ^ forward                   ^ backward                            ^ forward

Where the trace has nothing of autograd, kernels whose names say that they are of a forward or of a backward tell
instead. Work of the optimizer, and of runs of little work such as a norm of gradients, is of no action.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evenflow.profiles.steps.action_names import OPTIMIZER, ActionName
from evenflow.profiles.steps.rank_ranges import (
    NamedRange,
    RankRanges,
    are_messages,
    communication_of,
    covers,
    length,
    union,
)
from evenflow.profiles.traces.formats.kernel_names import Doing
from evenflow.profiles.traces.formats.launches import DeviceWork, LaunchedRanges
from evenflow.schedule import Op

_LITTLE = 0.05
"""A run with less than this share of the work of the longest run of its kind is no action."""
_FORWARD, _BACKWARD, _BETWEEN, _NEITHER = range(4)
"""Of a forward, of a backward, what ends both (a message, or the optimizer's work), or none of these."""


def guessed_ranges(ranges: LaunchedRanges, *, rank: int | None) -> RankRanges | None:
    """Return the forwards and backwards of a process; None where nothing is computed."""
    work = ranges.work
    order = np.argsort(work.launch_ns, kind="stable")
    kinds = _kinds(ranges)[order]
    kept = kinds != _NEITHER
    order, kinds = order[kept], kinds[kept]
    if not len(kinds):
        return None
    if not ranges.nodes:
        kinds = _by_names(kinds, work.doing[order])
    step = np.searchsorted([start_ns for start_ns, _end_ns in ranges.steps], work.launch_ns[order], side="right")
    begins = np.flatnonzero(np.diff(kinds, prepend=-1) | np.diff(step, prepend=-1))
    runs = [
        (Op.F if kinds[begin] == _FORWARD else Op.B, order[begin:end])
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(kinds)], strict=True)
    ]
    is_between = [bool(kinds[begin] == _BETWEEN) for begin in begins.tolist()]
    times = [0 if between else _own_ns(work, run) for (_op, run), between in zip(runs, is_between, strict=True)]
    is_action = _are_actions(ranges, runs, times)
    actions: list[tuple[Op, NDArray[np.int64]]] = []
    is_cut = True
    for index, (op, run) in enumerate(runs):
        is_cut |= is_between[index] or step[begins[index]] != step[begins[index - 1]]
        if is_between[index]:
            continue
        if is_action[index]:
            if actions and not is_cut and actions[-1][0] == op:
                actions[-1] = (op, np.concatenate((actions[-1][1], run)))
            else:
                actions.append((op, run))
            is_cut = False
    if not actions:
        return None
    is_computed = ~work.is_collective
    assigned = sum(int((work.end_ns - work.start_ns)[run].sum()) for _op, run in actions)
    return RankRanges(
        file=ranges.file,
        label=ranges.label,
        rank=rank,
        ranges=[_range(work, op, run) for op, run in actions],
        steps=ranges.steps,
        left_out=1 - assigned / max(1, int((work.end_ns - work.start_ns)[is_computed].sum())),
        communicated=communication_of(ranges),
    )


def _kinds(ranges: LaunchedRanges) -> NDArray[np.int64]:
    """Return the kind of all work."""
    work = ranges.work
    kinds = np.full(len(work.launch_ns), _NEITHER)
    is_computed = ~work.is_collective
    kinds[is_computed] = _FORWARD
    kinds[are_messages(ranges)] = _BETWEEN
    for thread in {node.thread for node in ranges.nodes}:
        spans = union(np.array([(node.start_ns, node.end_ns) for node in ranges.nodes if node.thread == thread]).T)
        kinds[is_computed & (work.thread == thread) & covers(spans, work.launch_ns)] = _BACKWARD
    optimizers = [(scope.start_ns, scope.end_ns) for scope in ranges.scopes if OPTIMIZER.fullmatch(scope.name)]
    if optimizers:
        kinds[is_computed & covers(union(np.array(optimizers).T), work.launch_ns)] = _BETWEEN
    return kinds


def _by_names(kinds: NDArray[np.int64], doing: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return kinds of work in order where nothing tells what autograd launched: by the names of kernels.

    What has no such name is as what had one before it, since the last message; else as the next one that has.
    """
    named = np.where(doing == Doing.BACKWARD, _BACKWARD, np.where(doing == Doing.FORWARD, _FORWARD, -1))
    result = kinds.copy()
    ends = np.flatnonzero(kinds == _BETWEEN)
    for begin, end in pairwise([-1, *ends.tolist(), len(kinds)]):
        own = named[begin + 1 : end]
        known = np.flatnonzero(own >= 0)
        if len(known):
            last = np.searchsorted(known, np.arange(len(own)), side="right") - 1
            result[begin + 1 : end] = own[known[np.maximum(last, 0)]]
    return result


def _are_actions(
    ranges: LaunchedRanges, runs: Sequence[tuple[Op, NDArray[np.int64]]], times_ns: Sequence[int]
) -> list[bool]:
    """Return which runs are actions: those with work enough, of forwards those of which autograd keeps anything."""
    longest = {
        op: max((time for (kind, _run), time in zip(runs, times_ns, strict=True) if kind == op), default=0)
        for op in (Op.F, Op.B)
    }
    kept_ns = np.sort(np.array([link.forward_ns for link in ranges.links], dtype=np.int64))
    launch_ns = ranges.work.launch_ns
    starts = [int(launch_ns[run].min()) for _op, run in runs]
    ends = [*starts[1:], np.iinfo(np.int64).max]
    counts = np.searchsorted(kept_ns, ends) - np.searchsorted(kept_ns, starts)
    return [
        time > _LITTLE * longest[op] and (op != Op.F or not len(kept_ns) or bool(count))
        for (op, _run), time, count in zip(runs, times_ns, counts, strict=True)
    ]


def _own_ns(work: DeviceWork, run: NDArray[np.int64]) -> int:
    return length(union(np.stack((work.start_ns[run], work.end_ns[run]))))


def _range(work: DeviceWork, op: Op, run: NDArray[np.int64]) -> NamedRange:
    return NamedRange(
        ActionName(op=op),
        int(work.start_ns[run].min()),
        int(work.end_ns[run].max()),
        int(work.launch_ns[run].min()),
        _own_ns(work, run),
    )


def without_nested(ranges: RankRanges) -> RankRanges:
    """Return the same without ranges inside another of the same operation, as calls of calls are."""
    kept: list[NamedRange] = []
    for item in sorted(ranges.ranges, key=lambda item: (item.start_ns, -item.end_ns)):
        inside = any(
            item.end_ns <= outer.end_ns and item.name.op == outer.name.op
            for outer in kept[-2:]
            if outer.end_ns > item.start_ns
        )
        if not inside:
            kept.append(item)
    return replace(ranges, ranges=kept)
