"""The even layout of a timeline: the same order and makespan, with idle time gathered in few places.

An earliest-start timeline has bubbles wherever an action happened to wait. Moving actions later where nothing waits for
them gathers these bubbles without losing time [uneven VPP talk, part 2]. Then bubbles stand where the formulas of
`schedule.bubble_formulas` say:

    earliest   F F F . . . B F B F B . B . B
    even       F F . . . F B F B F B . . B B      around a steady phase without gaps

Orders with split backwards stay as they are: their weight gradients are there to fill the bubbles where they stand.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import Bubble, BubblePlace, Op, Schedule, collect_bubbles
from evenflow.simulate.timeline import Timeline


def even_layout(timeline: Timeline) -> Timeline:
    """Return the same work in the same order and time, with warm-up early, cool-down late, the steady phase between.

    The warm-up's forwards and the last backward of the steady phase start as early as they can, everything else as
    late as it can without delaying these, another action or the end.
    """
    if timeline.schedule.splits_backward:
        return timeline
    graph = timeline.graph.of_actions
    sent = timeline.message_ns
    messages = [0] * len(graph.sequence) if sent is None else sent[graph.sequence].tolist()
    early = _starts_early(timeline.schedule)
    start_ns, end_ns = timeline.start_ns.tolist(), timeline.end_ns.tolist()
    sequence, predecessors = graph.sequence.tolist(), graph.rank_predecessors.tolist()
    dependencies = graph.dependencies.tolist()
    latest_end = [timeline.makespan_ns] * (len(sequence) + 1)  # by position
    for position in range(len(sequence), 0, -1):
        index = sequence[position - 1]
        duration = end_ns[index] - start_ns[index]
        if not early[index]:
            start_ns[index] = latest_end[position] - duration
        for before, message in ((predecessors[position - 1], 0), (dependencies[position - 1], messages[position - 1])):
            latest_end[before] = min(latest_end[before], start_ns[index] - message)
    starts = np.array(start_ns, dtype=np.int64)
    return replace(timeline, start_ns=starts, end_ns=starts + (timeline.end_ns - timeline.start_ns))


def idle_bubbles(timeline: Timeline, rank: int) -> tuple[Bubble, ...]:
    """Return the idle intervals of a rank by place and length."""
    schedule = timeline.schedule
    span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
    is_forward = (schedule.ops[span] == Op.F).tolist()
    starts, ends = timeline.start_ns[span].tolist(), timeline.end_ns[span].tolist()
    if not starts:
        return ()
    places = {
        (True, True): BubblePlace.FORWARDS,
        (True, False): BubblePlace.TURN,
        (False, True): BubblePlace.RETURN,
        (False, False): BubblePlace.BACKWARDS,
    }
    gaps = [(BubblePlace.START, 1, starts[0]), (BubblePlace.END, 1, timeline.makespan_ns - ends[-1])]
    for index in range(len(starts) - 1):
        place = places[is_forward[index], is_forward[index + 1]]
        gaps.append((place, 1, starts[index + 1] - ends[index]))
    return collect_bubbles(gaps)


def _starts_early(schedule: Schedule) -> NDArray[np.bool_]:
    """Return a mask of the actions that the even layout leaves in place, shape [num_actions].

    On a rank where a forward follows the first backward, these are the forwards before the one that the first backward
    follows, and the backward after the last forward; on other ranks all forwards.
    """
    early = np.zeros(schedule.num_actions, dtype=np.bool_)
    for rank in range(schedule.num_ranks):
        span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
        forward = schedule.ops[span] == Op.F
        leading = int(np.argmin(forward)) if not forward.all() else len(forward)
        if not forward[leading:].any():
            early[span] = forward
            continue
        last = int(np.flatnonzero(forward)[-1])
        place = np.arange(len(forward))
        early[span] = (place < leading - 1) | (place == last + 1)
    return early
