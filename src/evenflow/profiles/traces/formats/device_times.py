"""Device time of layers from scopes on the host: a kernel belongs to the scope that launched it.

    host    |  Layer_0      |  Layer_1      |  …  | backward of node n of Layer_1 | …
               launch ──┐       launch ──┐              launch ──┐
    device              └ kernel         └ kernel                └ kernel

The time of a layer is the union of its kernels: what the device is busy for it, gaps between kernels not counted. A
backward node belongs to the layer whose operator made it, which a link from forward to backward tells. What of it is
exchanges of tokens, and what runs between them, says `pass_halves`.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from evenflow.profiles.traces.formats.columns import Integers
from evenflow.profiles.traces.formats.event_times import follows
from evenflow.profiles.traces.formats.exchanges import Span, pass_halves, union_ns
from evenflow.profiles.traces.formats.launches import BackwardNode, DeviceWork, LaunchLink, LaunchScope
from evenflow.profiles.traces.trace import BACKWARD, FORWARD, Occurrence

_NOTHING = -1


@dataclass(slots=True)
class _Thread:
    """Regions of a thread from each time on; regions are indices, scopes first, then backward nodes."""

    times: list[int] = field(default_factory=list)
    regions: list[int] = field(default_factory=list)

    def region_at(self, time_ns: int) -> int:
        """Return the region at a time."""
        index = bisect_right(self.times, time_ns) - 1
        return self.regions[index] if index >= 0 else _NOTHING


def occurrences_of(
    scopes: Sequence[LaunchScope], nodes: Sequence[BackwardNode], links: Iterable[LaunchLink], work: DeviceWork
) -> tuple[list[Occurrence], bool]:
    """Return forwards and backwards of the layers with their device time, and whether some forwards were recomputed.

    A scope inside another layer's scope is part of that layer. One inside a backward node is a recomputation: its work
    is neither forward nor backward.
    """
    threads, inside, is_repeated = _regions(scopes, nodes)
    owners, is_linked = _owners(len(scopes), nodes, links, threads)
    work_regions = _regions_of_work(work, threads)
    is_collective, is_exchange = work.is_collective, work.is_exchange
    intervals: dict[tuple[int, str], list[Span]] = defaultdict(list)
    for index in np.flatnonzero(work_regions >= 0).tolist():
        region = int(work_regions[index])
        span = (int(work.start_ns[index]), int(work.end_ns[index]), bool(is_exchange[index]))
        if region < len(scopes):
            if not is_repeated[region]:
                intervals[region, FORWARD].append(span)
            continue
        owner = owners[region - len(scopes)]
        if owner != _NOTHING and (is_linked[region - len(scopes)] or not is_collective[index]):
            intervals[owner, BACKWARD].append(span)
    occurrences = []
    for index, scope in enumerate(scopes):
        if inside[index]:
            continue
        for phase in (FORWARD, BACKWARD):
            spans = intervals.get((index, phase), [])
            if spans or (phase == FORWARD and not is_repeated[index]):
                occurrences.append(
                    Occurrence(
                        match=scope.match,
                        scope=scope.name,
                        phase=phase,
                        start_ns=scope.start_ns,
                        time_ns=union_ns(spans),
                        halves=pass_halves(spans, is_forward=phase == FORWARD),
                    )
                )
    return occurrences, any(is_repeated)


def _regions(
    scopes: Sequence[LaunchScope], nodes: Sequence[BackwardNode]
) -> tuple[dict[int, _Thread], list[bool], list[bool]]:
    """Return the innermost region of each thread at any time, and which scopes are inside another, which repeated."""
    ranges: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    items: list[LaunchScope | BackwardNode] = [*scopes, *nodes]
    for region, item in enumerate(items):
        ranges[item.thread].append((item.start_ns, -item.end_ns, region))
    threads: dict[int, _Thread] = {}
    inside, is_repeated = [False] * len(scopes), [False] * len(scopes)
    for thread, entries in ranges.items():
        line = threads.setdefault(thread, _Thread())
        stack: list[tuple[int, int]] = []  # end and region; the innermost last
        for start, negative_end, entered in [*sorted(entries), (2**63, 0, _NOTHING)]:
            while stack and follows(start, -negative_end, stack[-1][0]):
                end, _ = stack.pop()
                while stack and stack[-1][0] <= end:  # ranges that overlap: the outer one ended before
                    stack.pop()
                line.times.append(min(end, start))
                line.regions.append(stack[-1][1] if stack else _NOTHING)
            region = entered
            if entered < len(scopes) and stack and entered != _NOTHING:
                around = stack[-1][1]
                if around < len(scopes):
                    inside[entered], region = True, around
                else:
                    is_repeated[entered] = True
            line.times.append(start)
            line.regions.append(region)
            stack.append((-negative_end, region))
        line.times.pop()
        line.regions.pop()
    return threads, inside, is_repeated


def _owners(
    num_scopes: int, nodes: Sequence[BackwardNode], links: Iterable[LaunchLink], threads: dict[int, _Thread]
) -> tuple[list[int], list[bool]]:
    """Return the scope that each backward node belongs to, and whether a link says so.

    A node without a link, such as the accumulation of a weight's gradient, runs right after the node that it follows
    from and belongs where that does.
    """
    owners = [_NOTHING] * len(nodes)
    is_linked = [False] * len(nodes)
    for link in sorted(links, key=lambda link: link.backward_ns):
        line, source = threads.get(link.backward_thread), threads.get(link.forward_thread)
        region = line.region_at(link.backward_ns) if line else _NOTHING
        if region < num_scopes or is_linked[region - num_scopes]:
            continue
        node = region - num_scopes
        is_linked[node] = True
        origin = source.region_at(link.forward_ns) if source else _NOTHING
        # What a backward node recomputes without a scope of its own belongs to the layer of that node.
        owners[node] = owners[origin - num_scopes] if origin >= num_scopes else origin
    latest: dict[int, int] = {}
    for node in sorted(range(len(nodes)), key=lambda node: nodes[node].start_ns):
        thread = nodes[node].thread
        if is_linked[node]:
            latest[thread] = owners[node]
        else:
            owners[node] = latest.get(thread, _NOTHING)
    return owners, is_linked


def _regions_of_work(work: DeviceWork, threads: dict[int, _Thread]) -> Integers:
    """Return the region in which each kernel was launched."""
    regions = np.full(len(work.thread), _NOTHING, dtype=np.int64)
    for thread, line in threads.items():
        here = np.flatnonzero(work.thread == thread)
        index = np.searchsorted(np.array(line.times, dtype=np.int64), work.launch_ns[here], side="right") - 1
        regions[here] = np.where(index >= 0, np.array(line.regions, dtype=np.int64)[index], _NOTHING)
    return regions
