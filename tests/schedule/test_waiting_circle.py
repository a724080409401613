import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import ScheduleError
from evenflow.schedule import Schedule, check_complete, parse_schedule
from evenflow.schedule.waiting_circle import waiting_circle
from evenflow.simulate import build_graph
from tests.oracle import orders_of
from tests.strategies import inputs_of, schedules, sizes


@given(schedules())
def test_an_order_that_can_finish_has_no_circle(schedule: Schedule):
    assert waiting_circle(schedule) == ()


@given(sizes(families=("interleaved", "f-then-b"), max_splits=1), st.integers(0, 10**9))
def test_a_circle_is_closed_and_every_wait_is_real(size, seed: int):
    """Actions of each rank shuffled, then put right within each stage."""
    pick = random.Random(seed)
    orders = orders_of(size.schedule())
    for order in orders:
        pick.shuffle(order)
        for index, action in enumerate(order):  # a backward after its own forward
            later = next(
                (
                    other
                    for other in range(index + 1, len(order))
                    if (order[other].stage, order[other].microbatch) == (action.stage, action.microbatch)
                    and order[other].op < action.op
                ),
                None,
            )
            if later is not None:
                order[index], order[later] = order[later], order[index]
    schedule = Schedule.from_actions(
        name="shuffled", num_stages=size.num_cells, num_microbatches=size.num_microbatches, orders=orders
    )
    check_complete(schedule)
    try:
        build_graph(schedule)
    except ScheduleError:
        waits = waiting_circle(schedule)
    else:
        assert waiting_circle(schedule) == ()
        return
    assert waits
    for wait, following in pairwise([*waits, waits[0]]):
        assert (wait.needs, wait.needs_rank) == (following.action, following.rank)
    for wait in waits:
        order = orders[wait.rank]
        if wait.by_order:
            assert order.index(wait.needs) < order.index(wait.action)
        else:
            assert wait.needs in inputs_of(wait.action, size.num_cells)
            assert wait.needs in orders[wait.needs_rank]


def test_the_words():
    schedule = parse_schedule("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n", name="mine")
    assert [str(wait) for wait in waiting_circle(schedule)] == [
        "0B0 on rank 0 needs 1B0 of rank 1",
        "rank 1 runs 1B0 only after 1F1",
        "1F1 on rank 1 needs 0F1 of rank 0",
        "rank 0 runs 0F1 only after 0B0",
    ]
