import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenflow.errors import ScheduleError
from evenflow.schedule import Action, Op, Schedule, check_complete, parse_schedule
from evenflow.simulate import build_graph
from tests.oracle import end_times, orders_of
from tests.strategies import schedules


def with_orders(schedule: Schedule, orders: list[list[Action]]) -> Schedule:
    return Schedule.from_actions(
        name=schedule.name,
        num_stages=schedule.num_stages,
        num_microbatches=schedule.num_microbatches,
        sequence_splits=schedule.sequence_splits,
        stage_ranks=schedule.stage_ranks,
        orders=orders,
    )


@st.composite
def picked(draw: st.DrawFn) -> tuple[Schedule, int, int]:
    """A valid schedule and the place of one of its actions: rank, index."""
    schedule = draw(schedules())
    rank = draw(st.integers(0, schedule.num_ranks - 1))
    return schedule, rank, draw(st.integers(0, len(schedule.order(rank)) - 1))


@given(picked())
def test_a_missing_action(case: tuple[Schedule, int, int]):
    schedule, rank, index = case
    orders = orders_of(schedule)
    missing = orders[rank].pop(index)
    assume(any(action.op != Op.F for order in orders for action in order) or missing.op == Op.F)
    with pytest.raises(ScheduleError, match=f"must run every action exactly once .*'{missing} 0 times'"):
        check_complete(with_orders(schedule, orders))


@given(picked(), st.integers(0, 100))
def test_a_repeated_action(case: tuple[Schedule, int, int], where: int):
    schedule, rank, index = case
    orders = orders_of(schedule)
    repeated = orders[rank][index]
    orders[rank].insert(where, repeated)
    with pytest.raises(ScheduleError, match=f"must run every action exactly once .*'{repeated} 2 times'"):
        check_complete(with_orders(schedule, orders))


@given(picked(), st.integers(1, 10))
def test_an_action_on_a_foreign_rank(case: tuple[Schedule, int, int], away: int):
    schedule, rank, index = case
    other = (rank + away) % schedule.num_ranks
    assume(other != rank)
    orders = orders_of(schedule)
    moved = orders[rank].pop(index)
    orders[other].append(moved)
    with pytest.raises(
        ScheduleError, match=rf"rank {other} must not run stage .*, which is on rank {rank}, got '{moved}'"
    ):
        check_complete(with_orders(schedule, orders))


@given(picked(), st.sampled_from(["stage", "microbatch"]))
def test_an_action_out_of_range(case: tuple[Schedule, int, int], what: str):
    schedule, rank, index = case
    orders = orders_of(schedule)
    action = orders[rank][index]
    stage = schedule.num_stages + rank if what == "stage" else action.stage
    microbatch = schedule.num_units if what == "microbatch" else action.microbatch
    orders[rank][index] = Action(stage, action.op, microbatch)
    with pytest.raises(ScheduleError, match=f"below {schedule.num_stages} and microbatches below {schedule.num_units}"):
        check_complete(with_orders(schedule, orders))


@given(picked())
def test_a_backward_before_its_forward(case: tuple[Schedule, int, int]):
    schedule, rank, index = case
    orders = orders_of(schedule)
    forward = Action(orders[rank][index].stage, Op.F, orders[rank][index].microbatch)
    both = (Action(forward.stage, op, forward.microbatch) for op in (Op.B, Op.I))
    backward = next((action for action in both if action in orders[rank]), None)
    assume(backward is not None)
    orders[rank].remove(backward)
    orders[rank].insert(orders[rank].index(forward), backward)
    with pytest.raises(ScheduleError, match=f"must run a backward after its own forward, got '{backward}'"):
        check_complete(with_orders(schedule, orders))


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("0F0,0W0,0I0,0F1,0B1", r"must run a weight gradient after its own input gradient, got '0W0'"),
        ("0F0,0I0,0F1,0B1", "exactly once .*got '0W0 0 times'"),
        ("0F0,0W0,0F1,0B1,0I1", "exactly once .*got '0B1 1 times'"),
        ("0F0,0I0,0W0,0B0,0F1,0B1", "exactly once .*got '0B0 1 times'"),
        ("0F0,0F1,0B1", "exactly once .*got '0B0 0 times'"),
    ],
)
def test_a_backward_is_whole_or_in_two_parts(order: str, message: str):
    with pytest.raises(ScheduleError, match=message):
        check_complete(parse_schedule(order + ",0F2,0I2,0W2,0F3,0B3", name="mine"))


def test_whole_and_split_backwards_may_mix():
    check_complete(parse_schedule("0F0,0F1,0I0,0W0,0B1\n1F0,1B0,1F1,1I1,1W1\n", name="mixed"))
    check_complete(parse_schedule("0F0,0F1\n1F0,1F1\n", name="forward only"))


@pytest.mark.parametrize(
    ("order", "rule"),
    [
        ("0F1,0F0,0B1,0B0", "forward in order"),
        ("0F0,0F1,0B0,0B1", "backward in reverse"),
        ("0F0,0F1,0B1,0F3,0F2,0B0,0B3,0B2", "forward in order"),
    ],
)
def test_parts_of_a_sequence_out_of_order(order: str, rule: str):
    with pytest.raises(ScheduleError, match=rule):
        check_complete(parse_schedule(order, name="mine", sequence_splits=2))
    check_complete(parse_schedule(order, name="mine"))  # whole microbatches may come in any order


@pytest.mark.parametrize("text", ["0F0,2F0,2B0,0B0\n1F0,1B0\n", "0F0,0B0\n\n"])
def test_every_rank_has_equally_many_stages(text: str):
    with pytest.raises(ScheduleError, match="stages"):
        check_complete(parse_schedule(text, name="mine"))


def test_a_deadlock_is_shown():
    """Rank 0 waits for the backward that rank 1 puts after the forward that rank 0 puts after that backward."""
    schedule = parse_schedule("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", name="mine")
    check_complete(schedule)
    with pytest.raises(ScheduleError) as caught:
        build_graph(schedule)
    message = str(caught.value)
    assert "but 6 of 8 actions never can; change the order" in message
    assert message.startswith("schedule mine must let every action start")
    assert message.endswith("\nrank 0: 0F0 ->0B0 0F1 0B1\nrank 1: 1F0 ->1F1 1B0 1B1")


def test_a_long_deadlock_is_cut_to_what_matters():
    forwards = ",".join(f"0F{unit}" for unit in range(1, 9))
    backwards = ",".join(f"0B{unit}" for unit in range(1, 9))
    schedule = parse_schedule(f"{forwards},0F0,{backwards},0B0\n", name="whole")
    build_graph(schedule)
    stuck = parse_schedule(f"{forwards},{backwards},0B0,0F0\n", name="stuck")
    with pytest.raises(ScheduleError) as caught:
        build_graph(stuck)
    assert caught.value.grid == "rank 0: … 0B5 0B6 0B7 0B8 ->0B0 0F0"


@given(schedules(), st.data())
def test_a_shuffled_order_is_accepted_exactly_when_it_can_run(schedule: Schedule, data: st.DataObject):
    assume(schedule.sequence_splits == 1)
    orders = orders_of(schedule)
    assume(not any(action.is_paired for order in orders for action in order))  # a pair that is torn apart is none
    for _ in range(data.draw(st.integers(1, 3))):
        order = orders[data.draw(st.integers(0, schedule.num_ranks - 1))]
        first, second = (data.draw(st.integers(0, len(order) - 1)) for _ in range(2))
        order[first], order[second] = order[second], order[first]
    shuffled = with_orders(schedule, orders)
    can_run = len(end_times(orders, schedule.num_stages, lambda action: 1)) == schedule.num_actions
    try:
        check_complete(shuffled)
        build_graph(shuffled)
        accepted = True
    except ScheduleError:
        accepted = False
    assert accepted == can_run
