import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import Communication
from evenflow.schedule import FAMILIES, NUM_OPS, Action, Schedule, check_complete, parse_schedule
from evenflow.simulate import StageCosts, Timeline, build_graph, compiled, live_vectors, memory_curve, peak_bytes, run
from tests.oracle import end_times, live_peak, orders_of
from tests.strategies import FamilySizes, schedules


@st.composite
def runs(draw: st.DrawFn, *, messages: bool = True) -> tuple[Schedule, np.ndarray, Communication | None]:
    """A valid order, durations of its classes (zero included), and perhaps the cost of messages."""
    schedule = draw(schedules())
    count = NUM_OPS * schedule.num_stages
    durations = np.array(draw(st.lists(st.integers(0, 50), min_size=count, max_size=count)), dtype=np.int64)
    costs = st.builds(Communication, latency_ns=st.integers(0, 20), transfer_ns=st.integers(0, 20))
    return schedule, durations, draw(st.none() | costs) if messages else None


def timeline_of(case: tuple[Schedule, np.ndarray, Communication | None]) -> Timeline:
    schedule, durations, communication = case
    return run(build_graph(schedule), durations, communication)


@given(runs())
def test_every_end_is_that_of_the_oracle(case: tuple[Schedule, np.ndarray, Communication | None]):
    schedule, durations, communication = case
    timeline = timeline_of(case)
    expected = end_times(
        orders_of(schedule),
        schedule.num_stages,
        lambda action: int(durations[NUM_OPS * action.stage + action.op]),
        message_ns=communication.message_ns if communication else 0,
    )
    actions = [action for order in orders_of(schedule) for action in order]
    shared = [action.is_paired for action in actions]
    ends = [int(end) for end, part in zip(timeline.end_ns, shared, strict=True) if not part]
    assert ends == [expected[action] for action, part in zip(actions, shared, strict=True) if not part]
    assert timeline.makespan_ns == max(expected.values())
    busy = [0] * schedule.num_ranks
    rank_of = schedule.stage_ranks
    for action, start_ns, end_ns in zip(actions, timeline.start_ns, timeline.end_ns, strict=True):
        busy[rank_of[action.stage]] += int(end_ns - start_ns)
    assert timeline.busy_ns.tolist() == busy


@given(runs(), st.integers(2, 1000))
def test_scaling_all_times_scales_the_makespan(case: tuple[Schedule, np.ndarray, Communication | None], factor: int):
    schedule, durations, communication = case
    scaled = communication and Communication(
        latency_ns=factor * communication.latency_ns, transfer_ns=factor * communication.transfer_ns
    )
    assert timeline_of((schedule, factor * durations, scaled)).makespan_ns == factor * timeline_of(case).makespan_ns


@given(runs(), st.data())
def test_no_rank_is_busy_longer_than_the_step_and_more_work_never_shortens_it(
    case: tuple[Schedule, np.ndarray, Communication | None], data: st.DataObject
):
    schedule, durations, communication = case
    timeline = timeline_of(case)
    assert timeline.makespan_ns >= timeline.busy_ns.max()
    slower = durations.copy()
    slower[data.draw(st.integers(0, len(durations) - 1))] += 7
    assert timeline_of((schedule, slower, communication)).makespan_ns >= timeline.makespan_ns


def action_at(schedule: Schedule, index: int) -> Action:
    rank = int(schedule.ranks[index])
    return schedule.order(rank)[index - schedule.rank_starts[rank]]


@given(runs())
def test_the_critical_path_has_no_gap_but_messages(case: tuple[Schedule, np.ndarray, Communication | None]):
    schedule, _, communication = case
    timeline = timeline_of(case)
    path = timeline.critical_path()
    message_ns = communication.message_ns if communication else 0
    assert timeline.start_ns[path[0]] == 0
    assert timeline.end_ns[path[-1]] == timeline.makespan_ns
    travelled = 0
    for before, after in itertools.pairwise(path):
        gap = int(timeline.start_ns[after] - timeline.end_ns[before])
        if gap:
            assert gap == message_ns
            assert schedule.ranks[before] != schedule.ranks[after]
        travelled += gap
    worked = sum(int(timeline.end_ns[index] - timeline.start_ns[index]) for index in path)
    assert worked + travelled == timeline.makespan_ns


def test_a_timeline_worked_out_by_hand():
    """1F1B on 2 ranks, 2 microbatches; F 2 and B 3 on stage 0, F 4 and B 5 on stage 1.

    ::

        rank 0  F0 0-2  F1 2-4                 B0 11-14             B1 20-23
        rank 1          F0 2-6  B0 6-11  F1 11-15  B1 15-20
    """
    schedule = FamilySizes(family="1f1b", num_ranks=2, num_chunks=1, num_microbatches=2).schedule()
    timeline = run(build_graph(schedule), np.array([2, 3, 0, 0, 4, 5, 0, 0]))
    assert timeline.start_ns.tolist() == [0, 2, 11, 20, 2, 6, 11, 15]
    assert timeline.end_ns.tolist() == [2, 4, 14, 23, 6, 11, 15, 20]
    assert [str(action_at(schedule, index)) for index in timeline.critical_path()] == [
        "0F0", "1F0", "1B0", "1F1", "1B1", "0B1",
    ]  # fmt: skip
    late = run(build_graph(schedule), np.array([2, 3, 0, 0, 4, 5, 0, 0]), Communication(latency_ns=1, transfer_ns=9))
    assert late.makespan_ns == 23 + 2 * 10


@given(schedules(), st.data())
def test_peaks_are_those_of_a_replay(schedule: Schedule, data: st.DataObject):
    num_stages, num_ranks = schedule.num_stages, schedule.num_ranks
    amounts, waiting = (
        data.draw(st.lists(st.integers(0, 1000), min_size=num_stages, max_size=num_stages)) for _ in range(2)
    )
    static = data.draw(st.lists(st.integers(0, 1000), min_size=num_ranks, max_size=num_ranks))
    costs = StageCosts(
        num_ranks=num_ranks,
        forward_ns=np.arange(1, num_stages + 1),
        backward_ns=np.arange(2, num_stages + 2),
        weight_ns=np.ones(num_stages, dtype=np.int64),
        recompute_ns=np.zeros(num_stages, dtype=np.int64),
        activation_bytes=np.array(amounts),
        until_weight_bytes=np.array(waiting),
        static_bytes=np.array(static),
        working_bytes=np.zeros(len(static), dtype=np.int64),
    )
    timeline = run(build_graph(schedule), costs.durations)
    peaks = peak_bytes(schedule, costs)
    for rank in range(num_ranks):
        replayed = live_peak(schedule.order(rank), amounts.__getitem__, waiting.__getitem__)
        assert peaks[rank] == static[rank] + replayed
        times_ns, held = memory_curve(timeline, costs, rank)
        assert held.max() == peaks[rank]
        assert (np.diff(times_ns) >= 0).all()
        assert (times_ns[0], held[0], held[-1]) == (0, static[rank], static[rank])
        vectors = live_vectors(schedule.in_turn(), rank)
        stages = [stage for stage in range(num_stages) if schedule.stage_ranks[stage] == rank]
        own = [each[stage] for each in (amounts, waiting) for stage in stages]
        assert (vectors @ own[: vectors.shape[1]]).max() == replayed
        for one in range(len(vectors)):  # none is below another
            assert not any((vectors[one] <= vectors[other]).all() for other in range(len(vectors)) if other != one)


def test_more_maximal_vectors_than_there_is_room_for_at_first():
    """Chunk 0 empties by one while chunk 1 fills by one, so that no vector is below another."""
    count = 160
    tokens = [f"0F{unit}" for unit in range(count)]
    forwards = iter(range(count))
    for unit in range(count // 2):
        tokens += [f"1F{next(forwards)}", f"1F{next(forwards)}", f"1B{unit}", f"0B{unit}"]
    tokens += [f"{stage}B{unit}" for stage in (1, 0) for unit in range(count // 2, count)]
    schedule = parse_schedule(",".join(tokens), name="slope")
    check_complete(schedule)
    # After step i: i microbatches of chunk 0 are gone; of chunk 1, 2 (i + 1) came and i went.
    assert sorted(live_vectors(schedule, 0).tolist()) == sorted([count - i, i + 2] for i in range(count // 2))


def test_memory_over_time_worked_out_by_hand():
    """Rank 0 of the timeline above: 10 bytes from each forward's start to its backward's end, on top of 100."""
    schedule = FamilySizes(family="1f1b", num_ranks=2, num_chunks=1, num_microbatches=2).schedule()
    costs = StageCosts(
        num_ranks=2,
        forward_ns=np.array([2, 4]),
        backward_ns=np.array([3, 5]),
        weight_ns=np.array([1, 2]),
        recompute_ns=np.array([0, 0]),
        activation_bytes=np.array([10, 30]),
        until_weight_bytes=np.array([10, 30]),
        static_bytes=np.array([100, 200]),
        working_bytes=np.zeros(2, dtype=np.int64),
    )
    timeline = run(build_graph(schedule), costs.durations)
    times_ns, held = memory_curve(timeline, costs, 0)
    assert list(zip(times_ns.tolist(), held.tolist(), strict=True)) == [
        (0, 100), (0, 110), (2, 120), (14, 110), (23, 100),
    ]  # fmt: skip
    assert peak_bytes(schedule, costs).tolist() == [120, 230]


def test_a_split_step_worked_out_by_hand():
    """2 ranks, 2 microbatches; F 2, I 3, W 1 on stage 0 and F 2, I 3, W 4 on stage 1.

    ::

        rank 0  F0 0-2  F1 2-4            I0 7-10  W0 10-11          I1 12-15  W1 15-16
        rank 1          F0 2-4  I0 4-7  F1 7-9  I1 9-12  W0 12-16  W1 16-20

    10 bytes are held from F to I and 4 from I to W on stage 0; 30 and 50 on stage 1, where W needs more than was kept.
    """
    schedule = parse_schedule("0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n", name="split")
    costs = StageCosts(
        num_ranks=2,
        forward_ns=np.array([2, 2]),
        backward_ns=np.array([4, 7]),
        weight_ns=np.array([1, 4]),
        recompute_ns=np.array([0, 0]),
        activation_bytes=np.array([10, 30]),
        until_weight_bytes=np.array([4, 50]),
        static_bytes=np.array([100, 200]),
        working_bytes=np.zeros(2, dtype=np.int64),
    )
    timeline = run(build_graph(schedule), costs.durations)
    assert timeline.start_ns.tolist() == [0, 2, 7, 10, 12, 15, 2, 4, 7, 9, 12, 16]
    assert timeline.makespan_ns == 20
    assert peak_bytes(schedule, costs).tolist() == [120, 300]
    assert live_vectors(schedule, 1).tolist() == [[1, 1], [0, 2]]
    times_ns, held = memory_curve(timeline, costs, 0)
    assert list(zip(times_ns.tolist(), held.tolist(), strict=True)) == [
        (0, 100), (0, 110), (2, 120), (10, 114), (11, 110), (15, 104), (16, 100),
    ]  # fmt: skip


def test_messages_do_not_turn_round_on_a_rank():
    """Stages 0 and 3 on rank 0, 1 and 2 on rank 1: the turn from stage 1 to 2 and back costs nothing."""
    schedule = parse_schedule("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", name="v")
    timeline = run(build_graph(schedule), np.ones(16, dtype=np.int64), Communication(latency_ns=100))
    assert timeline.makespan_ns == 8 + 4 * 100


@given(case=runs())
def test_equal_messages_are_those_of_one_number(case: tuple[Schedule, np.ndarray, Communication | None]):
    schedule, durations, messages = case
    graph = build_graph(schedule)
    each = np.full(len(durations), messages.message_ns if messages else 0)
    assert np.array_equal(run(graph, durations, each).end_ns, run(graph, durations, messages).end_ns)


def test_every_message_may_take_its_own_time():
    """Two stages, one microbatch: forward 2, message 30, forward 3, backward 5, message 7, backward 4."""
    schedule = parse_schedule("0F0,0B0\n1F0,1B0\n", name="two")
    messages = np.zeros((2, NUM_OPS), dtype=np.int64)
    messages[1, 0], messages[0, 1] = 30, 7
    timeline = run(build_graph(schedule), np.array([2, 4, 0, 0, 3, 5, 0, 0]), messages.reshape(-1))
    assert timeline.makespan_ns == 2 + 30 + 3 + 5 + 7 + 4


def test_without_a_backward_nothing_is_kept():
    schedule = parse_schedule("0F0,0F1,2F0,2F1\n1F0,1F1,3F0,3F1\n", name="inference")
    check_complete(schedule)
    amounts = np.array([10, 20, 30, 5])
    costs = StageCosts(
        num_ranks=2, forward_ns=np.full(4, 3), backward_ns=np.zeros(4, int), weight_ns=np.zeros(4, int),
        recompute_ns=np.zeros(4, int), activation_bytes=amounts, until_weight_bytes=amounts,
        static_bytes=np.array([1, 2]),
        working_bytes=np.zeros(2, dtype=np.int64),
    )  # fmt: skip
    assert peak_bytes(schedule, costs).tolist() == [31, 22]
    timeline = run(build_graph(schedule), costs.durations)
    assert timeline.makespan_ns == 15
    assert memory_curve(timeline, costs, 0)[1].tolist() == [1, 11, 1, 11, 1, 31, 1, 31, 1]


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("microbatches", [1, 7, 12])
def test_compiled_and_plain_kernels_agree(family: str, microbatches: int, monkeypatch: pytest.MonkeyPatch):
    schedule = FamilySizes(
        family=family, num_ranks=4, num_chunks=FAMILIES[family].num_chunks or 3, num_microbatches=microbatches
    ).schedule()
    durations = np.random.default_rng(microbatches).integers(1, 1000, NUM_OPS * schedule.num_stages)
    communication = Communication(latency_ns=5)

    def everything() -> list[np.ndarray]:
        graph = build_graph(schedule)
        vectors = [live_vectors(schedule, rank) for rank in range(schedule.num_ranks)]
        ends = [run(graph, durations).end_ns, run(graph, durations, communication).end_ns]
        return [
            graph.sequence, graph.dependencies, graph.rank_predecessors, graph.classes, graph.crosses_ranks,
            graph.rank_lasts, *vectors, *ends,
        ]  # fmt: skip

    monkeypatch.setattr(compiled, "COMPILE_FROM_ACTIONS", 10**9)
    plain = everything()
    monkeypatch.setattr(compiled, "COMPILE_FROM_ACTIONS", 0)
    for one, other in zip(plain, everything(), strict=True):
        assert np.array_equal(one, other)
