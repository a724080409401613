"""A Chrome trace read by its documentation alone: slices, flows and counters, in whole nanoseconds."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

Numbers = dict[tuple[int, str], list[tuple[int, int]]]


@dataclass(frozen=True, kw_only=True)
class Slice:
    """What begins with one event and ends with another, or is one."""

    process: int
    thread: int
    start_ns: int
    end_ns: int
    name: str
    category: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReadTrace:
    """What a viewer sees."""

    slices: list[Slice]
    arrows: list[tuple[int, int]]
    """Places in `slices` that a flow leaves and reaches."""
    counters: Numbers
    """Time and value, by process and name."""
    processes: dict[int, str]
    threads: dict[tuple[int, int], str]


def read_trace(text: str) -> ReadTrace:
    """Events that every viewer knows, and no others; a process or thread has one name."""
    document = json.loads(text, parse_float=Decimal, parse_constant=lambda name: 1 / 0)
    assert document["displayTimeUnit"] in ("ms", "ns")
    slices: list[Slice] = []
    arrows: list[tuple[int, int]] = []
    counters: Numbers = {}
    processes: dict[int, str] = {}
    threads: dict[tuple[int, int], str] = {}
    at_end: dict[str, int] = {}
    open_slices: dict[tuple[int, int], list[int]] = {}
    for event in document["traceEvents"]:
        if event["ph"] == "M":
            if event["name"] == "process_name":
                assert event["pid"] not in processes
                processes[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                assert (event["pid"], event["tid"]) not in threads
                threads[event["pid"], event["tid"]] = event["args"]["name"]
            else:
                assert event["name"] == "process_sort_index"
        elif event["ph"] == "C":
            (value,) = event["args"].values()
            counters.setdefault((event["pid"], event["name"]), []).append((_ns(event["ts"]), value))
        elif event["ph"] == "i":
            assert event["s"] == "p"
        else:
            place = event["pid"], event["tid"]
            if event["ph"] == "E":
                end = _ns(event["ts"])
                index = open_slices[place].pop()
                slices[index] = replace(slices[index], end_ns=end)
                assert end >= slices[index].start_ns
                continue
            assert event["ph"] == "B"
            if event.get("flow_in"):
                arrows.append((at_end.pop(event["bind_id"]), len(slices)))
            if event.get("flow_out"):
                assert event["bind_id"] not in at_end, "a flow that begins twice"
                at_end[event["bind_id"]] = len(slices)
            open_slices.setdefault(place, []).append(len(slices))
            slices.append(
                Slice(
                    process=event["pid"],
                    thread=event["tid"],
                    start_ns=_ns(event["ts"]),
                    end_ns=-1,
                    name=event["name"],
                    category=event["cat"],
                    arguments=event.get("args", {}),
                )
            )
    assert not any(open_slices.values()), "a slice without an end"
    assert not at_end, "a flow that ends nowhere"
    return ReadTrace(slices=slices, arrows=arrows, counters=counters, processes=processes, threads=threads)


def critical_path(trace: ReadTrace, *, message_ns: int, without: tuple[str, ...]) -> list[int]:
    """Slices of one longest path, first to last, found in slices and arrows only.

    Every one must begin when the one before on its thread ends, or when the message of an arrow arrives.
    """
    sources = {there: here for here, there in trace.arrows}
    before: dict[int, int] = {}
    lasts: dict[tuple[int, int], int] = {}
    for index, slice_ in enumerate(trace.slices):
        if slice_.category in without:
            continue
        place = slice_.process, slice_.thread
        if place in lasts:
            before[index] = lasts[place]
        lasts[place] = index
    last = max(lasts.values(), key=lambda index: trace.slices[index].end_ns)
    path = [last]
    while trace.slices[path[-1]].start_ns > 0:
        here = trace.slices[path[-1]]
        own = before.get(path[-1])
        if own is None or trace.slices[own].end_ns != here.start_ns:
            own = sources[path[-1]]
            source = trace.slices[own]
            message = message_ns if source.process != here.process else 0
            assert source.end_ns + message == here.start_ns, "a slice that nothing explains"
        path.append(own)
    return path[::-1]


def _ns(microseconds: int | Decimal) -> int:
    nanoseconds = Decimal(microseconds) * 1000
    assert nanoseconds == int(nanoseconds)
    return int(nanoseconds)
