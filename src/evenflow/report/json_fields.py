"""What a report shows as JSON: steps with their idle time, and predictions minus measured steps by action."""

from collections.abc import Sequence

from evenflow.report.differences import StepDifference, differences
from evenflow.report.payload import idle_fields
from evenflow.report.shown import Shown
from evenflow.units import milliseconds


def report_fields(timelines: Sequence[Shown]) -> dict[str, object]:
    """Return every timeline in brief, and every measured step beside the prediction before it."""
    return {
        "timelines": [_timeline(timeline) for timeline in timelines],
        "differences": [_difference(pair) for pair in differences(timelines)],
    }


def _timeline(timeline: Shown) -> dict[str, object]:
    idle = idle_fields(timeline)
    schedule = timeline.schedule
    return {
        "name": timeline.name,
        "kind": timeline.kind.value,
        "step_ms": milliseconds(timeline.makespan_ns if timeline.step_ns is None else timeline.step_ns),
        "ranks": schedule.num_ranks,
        "chunks": schedule.num_chunks,
        "microbatches": schedule.num_microbatches,
        "notes": list(timeline.notes),
        "idle": [
            {
                "rank": rank,
                "busy_ms": milliseconds(busy_ns),
                "idle_ms": milliseconds(timeline.makespan_ns - busy_ns),
                "communication_ms": None if idle is None else milliseconds(idle[rank]["communication_ns"]),
                "waiting_ms": None
                if idle is None
                else milliseconds(idle[rank]["total_ns"] - idle[rank]["communication_ns"]),
            }
            for rank, busy_ns in enumerate(timeline.busy_ns.tolist())
        ],
    }


def _difference(pair: StepDifference) -> dict[str, object]:
    predicted_ns, measured_ns = pair.predicted.makespan_ns, pair.measured.makespan_ns
    rows = zip(pair.actions, pair.ranks, *pair.taken_ns.tolist(), *pair.start_ns.tolist(), strict=True)
    return {
        "predicted": pair.predicted.name,
        "measured": pair.measured.name,
        "predicted_minus_measured_ms": milliseconds(predicted_ns - measured_ns),
        "by_stage": [
            {
                "stage": kind.stage,
                "op": kind.op.name,
                "actions": kind.count,
                "predicted_ms": milliseconds(kind.predicted_ns),
                "measured_ms": milliseconds(kind.measured_ns),
                "predicted_minus_measured_ms": milliseconds(kind.predicted_ns - kind.measured_ns),
            }
            for kind in pair.by_kind
        ],
        "actions": [
            {
                "action": str(action),
                "rank": rank,
                "predicted_ms": milliseconds(taken),
                "measured_ms": milliseconds(took),
                "predicted_minus_measured_ms": milliseconds(taken - took),
                "start_predicted_minus_measured_ms": milliseconds(start - started),
            }
            for action, rank, taken, took, start, started in rows
        ],
        "actions_of_one_alone": pair.alone,
    }
