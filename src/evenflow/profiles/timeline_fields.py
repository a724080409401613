"""The timelines of a step, as `evenflow.profiles.timeline_file` reads them back."""

from evenflow.model import Plan
from evenflow.profiles.timeline_file import SIDES, TimelineFile
from evenflow.simulate import Timeline
from evenflow.units import megabytes, milliseconds


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
