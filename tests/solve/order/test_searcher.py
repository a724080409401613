"""A running search takes only what is allowed, fits and is better."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from evenflow.schedule import Op, check_complete, make_schedule
from evenflow.simulate import build_graph, peak_bytes, run
from evenflow.solve.order.searcher import OrderSearch
from tests.solve.order.cases import as_work, equal_work, small_work
from tests.solve.order.oracle import Small
from tests.thoroughness import examples

SIZES = {"num_ranks": 3, "num_chunks": 1, "num_microbatches": 6}
FEW_ROOM = (3, 2, 1)


def search_of(*, may_split: bool = False, room: tuple[int, ...] = (99, 99, 99)) -> OrderSearch:
    return OrderSearch(work=equal_work(num_ranks=3, num_microbatches=6, may_split=may_split, room=room), bound_ns=0)


def test_the_shorter_of_two_orders_is_kept_whichever_comes_first():
    naive, better = make_schedule("naive", **SIZES), make_schedule("1f1b", **SIZES)
    for orders in ((naive, better), (better, naive)):
        search = search_of()
        for order in orders:
            search.start_from(order)
        assert search.best is not None
        assert search.best.schedule is better
        assert search.best.makespan_ns == 3 * (6 + 3 - 1)


def test_orders_that_do_not_fit_or_split_where_they_may_not_are_left():
    search = search_of(room=FEW_ROOM)
    search.start_from(make_schedule("f-then-b", **SIZES))
    search.start_from(make_schedule("zb-h1", **SIZES))
    assert search.best is None
    search.start_from(make_schedule("1f1b", **SIZES))
    assert search.best is not None


def test_split_backwards_are_those_of_the_best_order_and_let_the_stage_before_begin():
    search = search_of(may_split=True)
    search.start_from(make_schedule("1f1b", **SIZES))
    assert search.best is not None
    whole_ns = search.best.makespan_ns
    search.split_best()
    order = search.best.schedule
    check_complete(order)
    assert search.best.makespan_ns < whole_ns
    assert set(order.ops.tolist()) == {Op.F, Op.I, Op.W}
    unsplit = [[action for action in order.order(rank) if action.op != Op.W] for rank in range(3)]
    family = make_schedule("1f1b", **SIZES)
    assert [[(a.stage, a.op == Op.F, a.microbatch) for a in own] for own in unsplit] == [
        [(a.stage, a.op == Op.F, a.microbatch) for a in family.order(rank)] for rank in range(3)
    ]


def test_a_search_without_an_order_moves_nothing():
    search = search_of()
    search.split_best()
    assert search.anneal(steps=500, end=float("inf")) == 500
    assert search.best is None


def test_a_search_that_met_its_bound_moves_nothing():
    search = replace(search_of(), bound_ns=24)
    search.start_from(make_schedule("1f1b", **SIZES))
    assert search.anneal(steps=500, end=float("inf")) == 500


@settings(max_examples=examples(20), deadline=None)
@given(small_work())
def test_local_moves_keep_to_the_room_and_never_make_the_step_longer(small: Small):
    work = as_work(small)
    search = OrderSearch(work=work, bound_ns=0)
    search._construct(until=0.0, at_least_one=True)
    assert search.best is not None
    before = search.best.makespan_ns
    search.anneal(steps=300, end=float("inf"))
    check_complete(search.best.schedule)
    assert search.best.makespan_ns <= before
    assert (peak_bytes(search.best.schedule, work.costs) <= np.array(small.room)).all()
    timeline = run(build_graph(search.best.schedule), work.costs.durations, work.communication)
    assert timeline.makespan_ns == search.best.makespan_ns
