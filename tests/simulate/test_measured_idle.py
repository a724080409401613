"""Idle time that was measured: communication and waiting are all of it, and each is what it says."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.simulate import Timeline, covered_ns, gaps_ns, waiting_ns
from tests.profiles.steps.builders import timelines


def waits(timeline: Timeline, communication=()):
    gaps = gaps_ns(timeline)
    parts = (timeline.schedule, timeline.start_ns, timeline.end_ns, gaps, timeline.graph.inputs)
    return gaps, waiting_ns(*parts, communication)


@given(timelines())
def test_what_follows_the_end_of_an_input_is_communication(timeline: Timeline):
    gaps, waiting = waits(timeline)
    assert ((waiting >= 0) & (waiting <= gaps)).all()
    schedule, inputs = timeline.schedule, timeline.graph.inputs
    for action in range(schedule.num_actions):
        source = int(inputs[action])
        if source < 0 or schedule.ranks[source] == schedule.ranks[action]:
            assert waiting[action] == gaps[action]
        else:
            begins = int(timeline.start_ns[action]) - int(gaps[action])
            left = int(timeline.start_ns[action]) - max(begins, int(timeline.end_ns[source]))
            assert gaps[action] - waiting[action] == left
    assert (waiting[schedule.num_actions :] == gaps[schedule.num_actions :]).all()


@given(timelines(), st.data())
def test_where_communication_is_recorded_it_alone_counts(timeline: Timeline, data: st.DataObject):
    """Compared with counting every nanosecond that counts."""
    ranks = timeline.schedule.num_ranks
    marks = [
        sorted(data.draw(st.sets(st.integers(0, timeline.makespan_ns), max_size=6), label="marks"))
        for _ in range(ranks)
    ]
    spans = [np.array(list(zip(own[::2], own[1::2], strict=False)), dtype=np.int64).reshape(-1, 2).T for own in marks]
    gaps, waiting = waits(timeline, spans)
    _gaps, by_input = waits(timeline)
    schedule, inputs = timeline.schedule, timeline.graph.inputs
    for gap in range(len(gaps)):
        is_tail = gap >= schedule.num_actions
        rank = gap - schedule.num_actions if is_tail else int(schedule.ranks[gap])
        end = timeline.makespan_ns if is_tail else int(timeline.start_ns[gap])
        begin = end - int(gaps[gap])
        if not is_tail and inputs[gap] >= 0 and schedule.ranks[inputs[gap]] != rank:
            begin += int(by_input[gap])
        communicated = sum(max(0, min(end, int(stop)) - max(begin, int(start))) for start, stop in spans[rank].T)
        assert gaps[gap] - waiting[gap] == communicated


@given(st.lists(st.integers(0, 40), max_size=8, unique=True), st.integers(0, 45), st.integers(0, 45))
def test_what_spans_cover_of_a_window(marks: list[int], first: int, last: int):
    marks = sorted(marks)[: len(marks) // 2 * 2]
    spans = np.array([marks[::2], marks[1::2]], dtype=np.int64)
    covered = {time for start, end in spans.T.tolist() for time in range(start, end)}
    expected = len(covered & set(range(first, last)))
    assert covered_ns(spans, np.array([first]), np.array([last])).tolist() == [expected]
