"""The timelines of a step that ``evenflow run --timeline`` wrote: predicted and measured, action by action."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model import Plan
from evenflow.ranges import MEGABYTES, MILLISECONDS, SEQUENCE_SPLITS
from evenflow.schedule import Schedule, check_complete, parse_schedule
from evenflow.simulate import Graph, Timeline, build_graph
from evenflow.units import bytes_from_megabytes, megabytes, milliseconds, nanoseconds_from_milliseconds

SIDES = ("predicted", "measured")
_ACTION = re.compile(r"[0-9]{1,6}[FBIW][0-9]{1,7}")


@dataclass(frozen=True, kw_only=True)
class TimelineFile:
    """A step as it was predicted and as it was measured, in one order."""

    predicted: Timeline
    measured: Timeline
    predicted_peak_bytes: tuple[int, ...] | None
    """Highest memory by rank; None for a file of a version that did not write it."""
    measured_peak_bytes: tuple[int, ...] | None
    memory_limit_bytes: int | None


def is_timeline_file(fields: Fields) -> bool:
    """Return whether a JSON object is one of timelines."""
    return all(isinstance(fields.values.get(side), list) for side in SIDES)


def timeline_file(fields: Fields) -> TimelineFile:
    """Return the timelines in a decoded file.

    Raises:
        InputError: a field that is missing, of a wrong type, or against the others.
    """
    schedule = _schedule(fields)
    with fields.at():
        check_complete(schedule)
        graph = build_graph(schedule)
    predicted, measured = (_timeline(fields, side, graph) for side in SIDES)
    limit = None
    if fields.values.get("memory_limit_mb") is not None:
        limit = bytes_from_megabytes(fields.number("memory_limit_mb", MEGABYTES, above_zero=True))
    peaks = [_peaks(fields.inner("peak_memory_mb"), side, schedule) for side in SIDES if "peak_memory_mb" in fields]
    return TimelineFile(
        predicted=predicted,
        measured=measured,
        predicted_peak_bytes=peaks[0] if peaks else None,
        measured_peak_bytes=peaks[1] if peaks else None,
        memory_limit_bytes=limit,
    )


def _schedule(fields: Fields) -> Schedule:
    """Return the order, which is the same on both sides."""
    orders = [_orders(fields, side) for side in SIDES]
    if orders[0] != orders[1]:
        raise fields.error(
            "", _("must have the same actions in the same order under {sides}", sides=" and ".join(SIDES))
        )
    splits = fields.integer("sequence_splits", SEQUENCE_SPLITS) if "sequence_splits" in fields else 1
    text = "\n".join(map(",".join, orders[0]))
    return parse_schedule(text, name=fields.text("schedule"), sequence_splits=splits, place=fields.place("predicted"))


def _orders(fields: Fields, side: str) -> list[list[str]]:
    """Return the actions of every rank as text."""
    rule = _("must be a list of [action, start, end] for each rank, such as ['2F0', 0.0, 1.5]")
    ranks = fields.required(side)
    rows: list[Any] = ranks if isinstance(ranks, list) else [ranks]
    for row in rows:
        if not isinstance(row, list) or not row:
            raise InputError(rule=rule, place=fields.place(side))
        for entry in row:
            is_entry = isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], str)
            if not is_entry or not _ACTION.fullmatch(entry[0]):
                raise InputError(value=entry, rule=rule, place=fields.place(side))
    return [[str(entry[0]) for entry in row] for row in rows]


def _timeline(fields: Fields, side: str, graph: Graph) -> Timeline:
    """Return one side; actions of a rank never overlap."""
    schedule = graph.schedule
    ranks = fields.required(side)
    assert isinstance(ranks, list)  # as `_orders` has seen
    times = np.empty((2, schedule.num_actions), dtype=np.int64)
    index = 0
    for row in ranks:
        free_ns = 0
        for name, *values in row:
            for value in values:
                if value not in MILLISECONDS:
                    raise InputError(value=value, rule=MILLISECONDS.rule, place=fields.place(f"{side}, {name}"))
            start_ns, end_ns = map(nanoseconds_from_milliseconds, values)
            if not free_ns <= start_ns <= end_ns:
                rule = _("must begin once the action before it has ended, and end after that")
                raise InputError(value=values, rule=rule, place=fields.place(f"{side}, {name}"))
            times[:, index] = start_ns, end_ns
            free_ns = end_ns
            index += 1
    return Timeline(graph=graph, start_ns=times[0], end_ns=times[1], makespan_ns=int(times[1].max()))


def _peaks(peaks: Fields, side: str, schedule: Schedule) -> tuple[int, ...]:
    """Return the highest memory of every rank."""
    values = peaks.required(side)
    if (
        not isinstance(values, list)
        or len(values) != schedule.num_ranks
        or not all(peak in MEGABYTES for peak in values)
    ):
        count = schedule.num_ranks
        raise peaks.error(side, _("must be a list of {length} numbers {range}", length=count, range=MEGABYTES.text))
    return tuple(bytes_from_megabytes(peak) for peak in values)


def timeline_fields(step: TimelineFile, *, plan: Plan) -> dict[str, object]:
    """Return start and end of every action of a step of `plan`, predicted and measured, and the peaks of both."""
    timelines = dict(zip(SIDES, (step.predicted, step.measured), strict=True))
    peaks = dict(zip(SIDES, (step.predicted_peak_bytes, step.measured_peak_bytes), strict=True))
    known = {side: [megabytes(peak) for peak in of_ranks] for side, of_ranks in peaks.items() if of_ranks is not None}
    limit = step.memory_limit_bytes
    return {
        "schedule": plan.schedule,
        "sequence_splits": plan.sequence_splits,
        "memory_limit_mb": None if limit is None else megabytes(limit),
        **({"peak_memory_mb": known} if known else {}),
        **{f"{side}_step_ms": milliseconds(timeline.makespan_ns) for side, timeline in timelines.items()},
        **{side: _actions(timeline) for side, timeline in timelines.items()},
    }


def _actions(timeline: Timeline) -> list[list[list[object]]]:
    """Return ``[action, start, end]`` of every action, in the order of each rank."""
    schedule = timeline.schedule
    ranks = []
    for rank in range(schedule.num_ranks):
        first = schedule.rank_starts[rank]
        ranks.append(
            [
                [str(action), milliseconds(int(timeline.start_ns[index])), milliseconds(int(timeline.end_ns[index]))]
                for index, action in enumerate(schedule.order(rank), start=first)
            ]
        )
    return ranks
