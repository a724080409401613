"""Makes a report's timeline of any timeline, planned or measured."""

from collections.abc import Sequence

import numpy as np

from evenflow.report.figures import Figures, timeline_figures
from evenflow.report.shown import Kind, Shown, ShownMemory
from evenflow.simulate import StageCosts, Timeline, gaps_ns, memory_changes


def shown_timeline(
    timeline: Timeline,
    *,
    name: str,
    kind: Kind,
    limit_bytes: int | None = None,
    costs: StageCosts | None = None,
    peak_bytes: Sequence[int] | None = None,
    figures: Figures | None = None,
) -> Shown:
    """Return a timeline without anything that it does not know of itself.

    The memory of `costs`, where they are given, is shown over time.
    """
    schedule = timeline.schedule
    nothing = np.zeros(schedule.num_actions, dtype=np.int64)
    peaks = None if peak_bytes is None else tuple(peak_bytes)
    memory = None
    if costs is not None:
        memory = ShownMemory(
            static_bytes=tuple(costs.static_bytes.tolist()),
            working_bytes=tuple(costs.working_bytes.tolist()),
            changes=memory_changes(schedule, costs),
        )
    return Shown(
        name=name,
        kind=kind,
        schedule=schedule,
        start_ns=timeline.start_ns,
        end_ns=timeline.end_ns,
        makespan_ns=timeline.makespan_ns,
        gaps_ns=gaps_ns(timeline),
        recompute_ns=nothing,
        inputs=timeline.graph.of_actions.inputs,
        message_ns=nothing if timeline.message_ns is None else timeline.message_ns,
        memory=memory,
        peak_bytes=peaks,
        limit_bytes=limit_bytes,
        figures=timeline_figures(timeline, peaks, limit_bytes) if figures is None else figures,
    )
