"""What every process of a trace ran: its actions by the clock of its device, and what it communicated."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.steps.action_names import ActionName
from evenflow.profiles.traces.formats.kernel_names import ALL_TO_ALL, Doing
from evenflow.profiles.traces.formats.launches import LaunchedRanges, LaunchScope
from evenflow.simulate import Spans


class NamedRange(NamedTuple):
    """One action, or a piece of one."""

    name: ActionName
    start_ns: int
    end_ns: int
    host_ns: int
    """When the host began it, on the clock of the marks of steps."""
    own_ns: int
    """Time in which work of it ran."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Communicated:
    """What a process communicated."""

    spans: Spans
    """When collectives, exchanges or messages ran."""
    exchange: Spans
    """When tokens were exchanged with nothing computed beside that."""
    sends_messages: bool = False
    """Whether ranks send each other messages, as far as kernels have names."""
    is_recorded: bool = True
    """Whether it is recorded when this process communicates."""

    @classmethod
    def nothing(cls) -> "Communicated":
        """Return what is known of a process of which only actions are recorded."""
        return cls(spans=no_spans(), exchange=no_spans(), is_recorded=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRanges:
    """What one process ran."""

    file: str
    label: str
    rank: int | None
    """Rank, where the file, its folder or the label says it."""
    ranges: Sequence[NamedRange]
    steps: Sequence[tuple[int, int]]
    """Start and end of whole steps, on the clock of the host."""
    communicated: Communicated
    has_device: bool = True
    """Whether times are of a device; else they are of the ranges themselves."""
    left_out: float = 0.0
    """Share of the computation on the device that is in no action."""


def rank_ranges(
    ranges: LaunchedRanges, names: Sequence[tuple[LaunchScope, ActionName]], *, rank: int | None
) -> RankRanges:
    """Return the actions of a process from its ranges on the host: each lasts while work that it launched computes.

    Collectives and messages do not count, since they wait for others; exchanges of tokens do in pieces of actions.
    Raises InputError where no range launched anything.
    """
    ordered = sorted(names, key=lambda pair: (pair[0].start_ns, -pair[0].end_ns))
    if ranges.has_own_times:
        own = [
            NamedRange(name, scope.start_ns, scope.end_ns, scope.start_ns, scope.end_ns - scope.start_ns)
            for scope, name in ordered
        ]
        return RankRanges(
            file=ranges.file, label=ranges.label, rank=rank, ranges=own, steps=ranges.steps,
            communicated=Communicated.nothing(), has_device=ranges.is_on_device,
        )  # fmt: skip
    work = ranges.work
    counted = ~work.is_collective
    if any(name.is_piece for _scope, name in ordered):
        counted = counted | (work.doing == Doing.EXCHANGE)
    spans: dict[int, list[tuple[int, int]]] = {}
    starts = [scope.start_ns for scope, _name in ordered]
    columns = (column[counted].tolist() for column in (work.launch_ns, work.start_ns, work.end_ns))
    for launch, start, end in zip(*columns, strict=True):
        index = bisect_right(starts, launch) - 1
        if index >= 0 and launch < ordered[index][0].end_ns:
            spans.setdefault(index, []).append((start, end))
    if not spans:
        raise InputError(
            value=ordered[0][0].name,
            rule=_("must have work that was launched in the ranges of the actions"),
            place=ranges.file,
            remedy=_("profile the host and the device together"),
        )
    result: list[NamedRange] = []
    then = max(end for own_spans in spans.values() for _start, end in own_spans)
    for index in reversed(range(len(ordered))):
        scope, name = ordered[index]
        if index in spans:
            merged = union(np.array(spans[index], dtype=np.int64).T)
            own_range = NamedRange(name, int(merged[0, 0]), int(merged[1, -1]), scope.start_ns, length(merged))
        else:  # nothing runs in an input gradient that nobody needs: it takes no time, right before what runs next
            own_range = NamedRange(name, then, then, scope.start_ns, 0)
        result.append(own_range)
        then = min(then, own_range.start_ns)
    assigned = sum(end - start for own_spans in spans.values() for start, end in own_spans)
    return RankRanges(
        file=ranges.file,
        label=ranges.label,
        rank=rank,
        ranges=result[::-1],
        steps=ranges.steps,
        left_out=1 - assigned / max(1, int((work.end_ns - work.start_ns)[counted].sum())),
        communicated=communication_of(ranges),
    )


def are_messages(ranges: LaunchedRanges) -> NDArray[np.bool_]:
    """Return which work of a process is a message from one rank to another.

    NCCL has one kernel for these and for all-to-alls; it is of the latter where the host names any.
    """
    doing = ranges.work.doing
    exchanges = any(ALL_TO_ALL.search(name) for name in ranges.names)
    return np.asarray((doing == Doing.MESSAGE) | ((doing == Doing.SEND_RECEIVE) & (not exchanges)))


def communication_of(ranges: LaunchedRanges) -> Communicated:
    """Return what a process communicated, by its work on the device."""
    work = ranges.work
    both = np.stack((work.start_ns, work.end_ns))
    computing = union(both[:, ~work.is_collective])
    return Communicated(
        spans=union(both[:, work.is_collective]),
        exchange=without(union(both[:, work.is_exchange]), computing),
        sends_messages=bool(are_messages(ranges).any()),
    )


def no_spans() -> Spans:
    """Return no spans."""
    return np.zeros((2, 0), dtype=np.int64)


def union(spans: Spans) -> Spans:
    """Return the times in which at least one of the spans runs, which may be in any order.

    >>> union(np.array([[5, 0, 2], [9, 3, 4]])).tolist()
    [[0, 5], [4, 9]]
    """
    ordered = spans[:, np.argsort(spans[0], kind="stable")]
    ordered = ordered[:, ordered[1] > ordered[0]]
    if not ordered.shape[1]:
        return no_spans()
    latest = np.maximum.accumulate(ordered[1])
    begins = np.concatenate(([True], ordered[0, 1:] > latest[:-1]))
    ends = np.concatenate((begins[1:], [True]))
    return np.stack((ordered[0, begins], latest[ends]))


def without(spans: Spans, others: Spans) -> Spans:
    """Return the times of `spans` in which none of `others` runs.

    >>> without(np.array([[0, 20], [10, 30]]), np.array([[5], [25]])).tolist()
    [[0, 25], [5, 30]]
    """
    edges = np.unique(np.concatenate((spans.reshape(-1), others.reshape(-1))))
    middles = edges[:-1]
    kept = covers(spans, middles) & ~covers(others, middles)
    return union(np.stack((edges[:-1][kept], edges[1:][kept])))


def covers(spans: Spans, moments: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each moment is within a span, whose end is not."""
    if not spans.shape[1]:
        return np.zeros(len(moments), dtype=bool)
    place = np.searchsorted(spans[0], moments, side="right") - 1
    return np.asarray((place >= 0) & (moments < spans[1][place]))


def length(spans: Spans) -> int:
    """Return the time of all spans together."""
    return int((spans[1] - spans[0]).sum())
