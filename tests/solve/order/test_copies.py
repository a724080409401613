"""Orders with copies to the host: the search counts what the simulator counts, and finds what enumeration finds."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.errors import ScheduleError
from evenflow.model import HostLink
from evenflow.schedule import Action, Op, Schedule, make_schedule
from evenflow.simulate import build_graph, peak_bytes, run, with_copies
from evenflow.solve.bounds import given_cells_bound
from evenflow.solve.clock import now_s, reproducible
from evenflow.solve.order.copies_kernel import Order, copy_room, hold_with_copies, most_nodes, node_arrays
from evenflow.solve.order.kernel_stages import kernel_stages
from evenflow.solve.order.move_kernel import Room, _cost_with_copies
from evenflow.solve.order.searcher import OrderSearch
from evenflow.solve.work import UNLIMITED, Work, unit_work
from tests.strategies import random_schedules
from tests.thoroughness import examples

host_links = st.builds(
    HostLink,
    bytes_per_s=st.just(10**9),
    one_engine=st.booleans(),
    ahead=st.integers(0, 4),
    behind=st.integers(1, 4),
    buffers=st.none() | st.integers(1, 4),
)


@st.composite
def moving_work(draw: st.DrawFn, schedule: Schedule) -> Work:
    """The work of stages with the placement and sizes of an order, of which some move what they keep."""
    work, size = unit_work(schedule), schedule.num_stages

    def per_stage(low: int, high: int) -> np.ndarray:
        return np.array(draw(st.lists(st.integers(low, high), min_size=size, max_size=size)), dtype=np.int64)

    weight = per_stage(0, 4)
    moved = per_stage(0, 3)
    moved[draw(st.integers(0, size - 1))] = 3
    costs = replace(
        work.costs,
        forward_ns=per_stage(1, 5),
        backward_ns=weight + per_stage(1, 5),
        weight_ns=weight,
        activation_bytes=per_stage(0, 2),
        until_weight_bytes=per_stage(0, 3),
        offloaded_bytes=moved,
        copy_ns=np.where(moved > 0, per_stage(0, 9), 0),
        host_link=draw(host_links),
    )
    return replace(work, costs=costs, may_split=True)


def by_simulator(work: Work, schedule: Schedule) -> int:
    assert work.costs.host_link is not None
    graph = with_copies(build_graph(schedule), work.costs.host_link)
    return run(graph, work.costs.durations, work.messages).makespan_ns


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_the_search_counts_memory_and_time_as_the_simulator_does(data: st.DataObject):
    schedule = data.draw(random_schedules())
    assume(not schedule.is_forward_only and schedule.sequence_splits == 1 and not schedule.has_pairs)
    work = data.draw(moving_work(schedule))
    count, ranks = schedule.num_actions, schedule.num_ranks
    starts = np.array(schedule.rank_starts, dtype=np.int64)
    nothing = np.zeros(0, dtype=np.bool_)
    order = Order(
        schedule.ops.copy(), schedule.stages.copy(), schedule.units.astype(np.int32), np.zeros(count, np.int64), nothing
    )
    stages = kernel_stages(work, np.zeros(schedule.num_stages, dtype=bool))
    sizes = {"num_stages": schedule.num_stages, "num_units": schedule.num_units}
    copies, copied = copy_room(**sizes, num_actions=count), node_arrays(most_nodes(count), ranks)
    peaks = peak_bytes(schedule, work.costs) - work.costs.static_bytes - work.costs.working_bytes
    for rank, peak in enumerate(peaks.tolist()):
        begin, end = starts[rank], starts[rank + 1]
        assert not hold_with_copies(begin, end, peak - 1, order, stages, copies)
        assert hold_with_copies(begin, end, peak, order, stages, copies)
    room = Room(
        np.zeros((2, schedule.num_stages, schedule.num_units), dtype=np.uint32),
        node_arrays(count, ranks),
        np.zeros(count, dtype=np.int64),
        np.zeros(0, dtype=np.uint32),
        nothing,
    )
    ranks_of = schedule.ranks.astype(np.int64)
    _cost_with_copies(order, stages, starts, ranks_of, room, copies, copied)
    assert copied.ends[copied.rank_lasts].max() == by_simulator(work, schedule)


def rank_orders(stage: int, count: int) -> list[list[Action]]:
    """All orders of a rank with one stage that splits every backward or none, microbatches in turn."""
    made = []
    for ops in ((Op.F, Op.B), (Op.F, Op.I, Op.W)):
        orders: list[list[Action]] = [[]]
        for _ in range(count * len(ops)):
            orders = [
                [*order, Action(stage, op, done[op])]
                for order in orders
                for done in [{op: sum(action.op == op for action in order) for op in ops}]
                for before, op in zip((None, *ops), ops, strict=False)
                if done[op] < (count if before is None else done[before])
            ]
        made += orders
    return made


def every_order(*, num_ranks: int, num_microbatches: int) -> Iterator[Schedule]:
    for orders in product(*(rank_orders(stage, num_microbatches) for stage in range(num_ranks))):
        yield Schedule.from_actions(
            name="own", num_stages=num_ranks, num_microbatches=num_microbatches, orders=list(orders)
        )


def searched_and_shortest(seed: int) -> tuple[int, int]:
    """The step that a search of random work finds, and the shortest of all orders that fit."""
    draw = np.random.default_rng(seed)
    start = make_schedule("1f1b", num_ranks=3, num_chunks=1, num_microbatches=2)
    work = unit_work(start)
    weight, moved = draw.integers(0, 5, 3), draw.integers(0, 4, 3)
    moved[draw.integers(3)] = 3
    costs = replace(
        work.costs,
        forward_ns=draw.integers(1, 6, 3),
        backward_ns=weight + draw.integers(1, 6, 3),
        weight_ns=weight,
        activation_bytes=draw.integers(0, 3, 3),
        until_weight_bytes=draw.integers(0, 4, 3),
        offloaded_bytes=moved,
        copy_ns=np.where(moved > 0, draw.integers(0, 10, 3), 0),
        host_link=HostLink(
            bytes_per_s=10**9,
            one_engine=bool(draw.integers(2)),
            ahead=int(draw.integers(5)),
            behind=int(draw.integers(1, 4)),
            buffers=[None, 1, 2, 3][draw.integers(4)],
        ),
    )
    room = peak_bytes(start, costs) + draw.integers(3)
    work = replace(work, costs=costs, may_split=True, room_bytes=room)
    steps = []
    for order in every_order(num_ranks=3, num_microbatches=2):
        with suppress(ScheduleError):  # ranks wait for each other
            if work.fits(order):
                steps.append(by_simulator(work, order))
    assert given_cells_bound(work).lower_bound_ns <= min(steps)
    with reproducible():
        search = OrderSearch(work=work, bound_ns=min(steps))
        search.start_from(start)
        search.split_best()
        search.improve(began=now_s(), time_limit_s=2, progress=None)  # ends at the optimum
    assert search.best is not None
    assert work.fits(search.best.schedule)
    assert search.best.makespan_ns == by_simulator(work, search.best.schedule)
    return search.best.makespan_ns, min(steps)


def test_a_search_finds_the_shortest_of_all_orders_that_fit_in_nearly_all_cases():
    pairs = [searched_and_shortest(seed) for seed in range(6)]
    assert all(step >= shortest for step, shortest in pairs)
    assert sum(step == shortest for step, shortest in pairs) >= 5


def test_without_room_for_a_list_nothing_is_taken():
    start = make_schedule("1f1b", num_ranks=2, num_chunks=1, num_microbatches=3)
    work = unit_work(start)
    link = HostLink(bytes_per_s=10**9)
    moved = np.full(2, 5, dtype=np.int64)
    costs = replace(work.costs, offloaded_bytes=moved, copy_ns=moved, host_link=link)
    search = OrderSearch(work=replace(work, costs=costs, room_bytes=np.full(2, 4)), bound_ns=0)
    search.improve(began=time.monotonic(), time_limit_s=0.1, progress=None)
    assert search.best is None
    assert int(work.room_bytes[0]) == UNLIMITED
