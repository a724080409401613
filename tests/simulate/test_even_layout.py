from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import Communication
from evenflow.schedule import NUM_OPS, Schedule, parse_schedule
from evenflow.simulate import build_graph, run
from evenflow.simulate.even_layout import even_layout, idle_bubbles
from tests.oracle import orders_of
from tests.strategies import inputs_of, schedules


@given(schedules(), st.integers(0, 10**9), st.integers(0, 9))
def test_the_even_layout_is_the_same_work_in_the_same_order_and_time(schedule: Schedule, seed: int, message_ns: int):
    durations = np.random.default_rng(seed).integers(0, 20, NUM_OPS * schedule.num_stages)
    communication = Communication(latency_ns=message_ns)
    timeline = run(build_graph(schedule), durations, communication)
    even = even_layout(timeline)
    assert even.makespan_ns == timeline.makespan_ns
    assert np.array_equal(even.end_ns - even.start_ns, timeline.end_ns - timeline.start_ns)
    assert (even.start_ns >= timeline.start_ns).all()
    assert even.end_ns.max(initial=0) <= even.makespan_ns
    actions = [action for order in orders_of(schedule) for action in order]
    starts = dict(zip(actions, even.start_ns.tolist(), strict=True))
    ends = dict(zip(actions, even.end_ns.tolist(), strict=True))
    for order in orders_of(schedule):
        for before, after in pairwise(order):
            assert ends[before] <= starts[after]
    for action in actions:
        ranks = schedule.stage_ranks
        needed = [
            ends[other] + message_ns * (ranks[other.stage] != ranks[action.stage])
            for other in inputs_of(action, schedule.num_stages)
            if other in ends
        ]
        assert max(needed, default=0) <= starts[action]


@given(schedules(), st.integers(0, 10**9))
def test_bubbles_add_up_to_the_idle_time(schedule: Schedule, seed: int):
    durations = np.random.default_rng(seed).integers(1, 20, NUM_OPS * schedule.num_stages)
    for timeline in (run(build_graph(schedule), durations), even_layout(run(build_graph(schedule), durations))):
        for rank in range(schedule.num_ranks):
            total_ns = sum(bubble.count * bubble.length_ns for bubble in idle_bubbles(timeline, rank))
            assert total_ns == timeline.makespan_ns - timeline.busy_ns[rank]


def test_by_hand():
    """Rank 0 of ``F0 F1 . . B0 F2 B1 . B2``: its second forward waits for the first backward, its last bubble stays."""
    schedule = parse_schedule("0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n", name="1f1b")
    timeline = run(build_graph(schedule), np.array([1, 2, 0, 0, 1, 2, 0, 0]))
    assert timeline.start_ns[:6].tolist() == [0, 1, 4, 6, 7, 10]
    assert even_layout(timeline).start_ns[:6].tolist() == [0, 3, 4, 6, 7, 10]
