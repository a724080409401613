"""Makes a report's timeline of any timeline, planned or measured."""

from collections.abc import Sequence

import numpy as np

from evenflow.report.figures import Figures, timeline_figures
from evenflow.report.shown import Integers, Kind, Shown, ShownCopies, ShownMemory
from evenflow.simulate import StageCosts, Timeline, changes_at_both_ends, gaps_ns, memory_changes, pool_bytes


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
    copied = timeline.graph.copied if timeline.has_copies else None
    copies = None if copied is None else (_copies(timeline, copied[0], way=0), _copies(timeline, copied[1], way=1))
    nothing = np.zeros(schedule.num_actions, dtype=np.int64)
    peaks = None if peak_bytes is None else tuple(peak_bytes)
    memory = None
    if costs is not None:
        both = changes_at_both_ends(schedule, costs)
        memory = ShownMemory(
            static_bytes=tuple((costs.static_bytes + pool_bytes(schedule, costs)).tolist()),
            working_bytes=tuple(costs.working_bytes.tolist()),
            changes=memory_changes(schedule, costs) if both is None else both[:, 0],
            end_changes=None if both is None else both[:, 1],
        )
    saved_ns = None
    if timeline.saved_ns is not None:
        saved_ns = np.full(schedule.num_actions, -1, dtype=np.int64)
        saved_ns[schedule.paired] = timeline.saved_ns
    return Shown(
        name=name,
        kind=kind,
        schedule=schedule.in_turn(),  # a page draws both parts of a pair, one behind the other
        start_ns=timeline.start_ns,
        end_ns=timeline.end_ns,
        makespan_ns=timeline.makespan_ns,
        gaps_ns=gaps_ns(timeline),
        recompute_ns=nothing,
        inputs=timeline.graph.of_actions.inputs,
        message_ns=nothing if timeline.message_ns is None else timeline.message_ns,
        copies=copies,
        saved_ns=saved_ns,
        memory=memory,
        peak_bytes=peaks,
        limit_bytes=limit_bytes,
        figures=timeline_figures(timeline, peaks, limit_bytes) if figures is None else figures,
    )


def _copies(timeline: Timeline, actions: Integers, *, way: int) -> ShownCopies:
    """Return the copies of one direction, of these actions."""
    assert timeline.copy_start_ns is not None
    assert timeline.copy_end_ns is not None
    order = np.argsort(actions, kind="stable")
    return ShownCopies(
        actions=actions[order],
        start_ns=timeline.copy_start_ns[way][order],
        end_ns=timeline.copy_end_ns[way][order],
    )
