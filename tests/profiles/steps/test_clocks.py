from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.steps.clocks import shifts
from evenflow.simulate import Timeline
from tests.profiles.steps.builders import timelines

OFFSETS = st.lists(st.integers(-(10**7), 10**7), min_size=4, max_size=4)


def gaps(timeline: Timeline, moved: list[int]) -> dict[tuple[int, int], int]:
    """Time by which ranks must be later than others, by their own clocks, at most of all messages."""
    schedule, graph = timeline.schedule, timeline.graph
    found: dict[tuple[int, int], int] = {}
    for user, source in enumerate(graph.inputs.tolist()):
        if source < 0 or schedule.ranks[source] == schedule.ranks[user]:
            continue
        here, there = int(schedule.ranks[source]), int(schedule.ranks[user])
        gap = int(timeline.end_ns[source] - timeline.start_ns[user]) + moved[here] - moved[there]
        found[here, there] = max(gap, found.get((here, there), gap))
    return found


@given(timelines(), OFFSETS)
def test_shifts_are_the_least_that_make_every_message_arrive(timeline: Timeline, offsets: list[int]):
    ranks = timeline.schedule.ranks
    moved = offsets[: timeline.schedule.num_ranks]
    own = [[moved[rank] for rank in ranks]] * 2
    found = shifts(timeline.graph, timeline.start_ns + own[0], timeline.end_ns + own[1])
    assert found.early_ns == 0, "the true offsets are shifts that do"
    needed = gaps(timeline, moved)
    assert all(found.by_rank_ns[there] - found.by_rank_ns[here] >= gap for (here, there), gap in needed.items())
    for rank, shift in enumerate(found.by_rank_ns):
        assert shift >= 0
        tight = [gap + found.by_rank_ns[here] == shift for (here, there), gap in needed.items() if there == rank]
        assert shift == 0 or any(tight), "one nanosecond less would be too little"


@given(timelines())
def test_clocks_that_agree_are_left_alone(timeline: Timeline):
    found = shifts(timeline.graph, timeline.start_ns, timeline.end_ns)
    assert found.by_rank_ns == (0,) * timeline.schedule.num_ranks


@given(timelines(), st.integers(1, 10**6))
def test_what_no_shifts_can_explain_is_the_worst_circle(timeline: Timeline, late_ns: int):
    # Every action ends later than it did, so that its user starts before that.
    found = shifts(timeline.graph, timeline.start_ns, timeline.end_ns + late_ns)
    num_ranks = timeline.schedule.num_ranks
    needed = {pair: gap + late_ns for pair, gap in gaps(timeline, [0] * num_ranks).items()}
    circles = [
        circle
        for size in range(2, num_ranks + 1)
        for circle in permutations(range(num_ranks), size)
        if all(pair in needed for pair in zip(circle, (*circle[1:], circle[0]), strict=True))
    ]
    means = [
        -(-sum(needed[pair] for pair in zip(circle, (*circle[1:], circle[0]), strict=True)) // len(circle))
        for circle in circles
    ]
    assert found.early_ns == max(0, *means, 0)
    for (here, there), gap in needed.items():
        assert found.by_rank_ns[there] - found.by_rank_ns[here] >= gap - found.early_ns
