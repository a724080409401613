"""The search for orders: valid, within memory, never behind what it started from, optimal where that is known."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.baselines.even_plan import even_plan
from evenflow.errors import InputError
from evenflow.model import Halves, Network, PassHalves, Plan, Sizes
from evenflow.schedule import FAMILIES, Op, check_complete, f_then_b, make_schedule, parse_schedule
from evenflow.simulate import build_graph, peak_bytes, run, simulate
from evenflow.solve.bounds import given_cells_bound
from evenflow.solve.order.order_search import search_order
from evenflow.solve.order.searcher import OrderSearch
from tests.networks import equal_network
from tests.solve.order.cases import as_work, equal_work, small_work
from tests.solve.order.oracle import Small, shortest
from tests.strategies import random_schedules
from tests.thoroughness import examples

SECONDS = 0.3


def network(*, layers: int, forward: int = 10, backward: int = 20, activation: int = 6) -> Network:
    return equal_network(layers, forward_ns=forward, backward_ns=backward, activation_bytes=activation)


def even(model: Network, schedule: str, *, num_ranks: int, num_chunks: int = 1, **sizes: int) -> Plan:
    return even_plan(model, Sizes(num_ranks=num_ranks, num_chunks=num_chunks, **sizes), schedule=schedule)


@settings(max_examples=examples(25), deadline=None)
@given(small_work())
def test_finds_valid_orders_within_the_room_and_not_below_the_optimum(small: Small):
    work = as_work(small)
    bound = given_cells_bound(work).lower_bound_ns
    search = OrderSearch(work=work, bound_ns=bound)
    search.improve(began=time.monotonic(), time_limit_s=0.1, progress=None)
    assert search.best is not None
    order = search.best.schedule
    check_complete(order)
    assert order.stage_ranks == small.stage_ranks
    assert (peak_bytes(order, work.costs) <= np.array(small.room)).all()
    assert run(build_graph(order), work.costs.durations, work.communication).makespan_ns == search.best.makespan_ns
    assert small.may_split or not order.splits_backward
    assert small.saved is not None or not order.has_pairs
    best = shortest(small)
    assert best is not None
    assert search.best.makespan_ns >= best
    if search.best.makespan_ns == bound:
        assert best == bound


# As in test_given_cells_bound, whose bounds say that nothing is shorter.
@pytest.mark.parametrize(
    ("sizes", "may_split", "room", "optimum"),
    [
        ((4, 8), False, (4, 3, 2, 1), 33),
        ((8, 16), False, tuple(range(8, 0, -1)), 69),
        ((4, 8), True, (99,) * 4, 27),
        ((8, 16), True, (99,) * 8, 55),
        ((4, 8), True, (4, 3, 2, 1), 30),
    ],
)
def test_reaches_known_optima_without_a_family_to_start_from(
    sizes: tuple[int, int], may_split: bool, room: tuple[int, ...], optimum: int
):
    work = equal_work(num_ranks=sizes[0], num_microbatches=sizes[1], may_split=may_split, room=room)
    search = OrderSearch(work=work, bound_ns=optimum)
    search.improve(began=time.monotonic(), time_limit_s=60, progress=None)  # ends at the optimum
    assert search.best is not None
    assert search.best.makespan_ns == optimum


@settings(max_examples=examples(20), deadline=None)
@given(random_schedules(), st.booleans())
def test_is_never_longer_than_an_order_to_start_from(order, split):
    assume(not order.is_forward_only)
    assume(order.stage_ranks == tuple(range(order.num_ranks)) * order.num_chunks)
    model = network(layers=order.num_stages)
    family = "1f1b" if order.num_chunks == 1 else "interleaved"
    plan = even(
        model, family, num_ranks=order.num_ranks, num_chunks=order.num_chunks, num_microbatches=order.num_microbatches
    )
    given_order = simulate(model, plan, schedule=order)
    limit = max(given_order.peak_memory_bytes)
    outcome = search_order(
        plan, model, memory_limit_bytes=limit, split_backward=split, start=[order], time_limit_s=0.05
    )
    found = simulate(model, plan, schedule=outcome.schedule)
    assert found.makespan_ns == outcome.makespan_ns
    assert found.fits(limit)
    assert outcome.lower_bound_ns <= outcome.makespan_ns
    if split or not order.splits_backward:
        assert outcome.makespan_ns <= given_order.makespan_ns


@pytest.mark.parametrize(("num_chunks", "split"), [(1, False), (1, True), (2, False), (2, True)])
def test_is_never_longer_than_any_family_that_fits(num_chunks: int, split: bool):
    model = network(layers=8, forward=11, backward=23)
    sizes = {"num_ranks": 4, "num_chunks": num_chunks, "num_microbatches": 6}
    family = "1f1b" if num_chunks == 1 else "interleaved"
    limit = max(simulate(model, even(model, family, **sizes)).peak_memory_bytes)
    outcome = search_order(
        even(model, family, **sizes), model, memory_limit_bytes=limit, split_backward=split, time_limit_s=SECONDS
    )
    compared = 0
    for name in FAMILIES:
        try:
            order = make_schedule(name, **sizes)
        except InputError:
            continue
        if order.stage_ranks != outcome.schedule.stage_ranks:
            continue
        other = simulate(model, even(model, family, **sizes), schedule=order)
        if other.fits(limit) and (split or not order.splits_backward):
            compared += 1
            assert outcome.makespan_ns <= other.makespan_ns
    assert compared >= 2


def exchanging(layers: int) -> Network:
    halves = Halves(forward=PassHalves(dispatch_ns=4), backward=PassHalves(mlp_ns=6, combine_ns=4))
    model = network(layers=layers)
    runs = (replace(run, layer=replace(run.layer, halves=halves)) for run in model.runs)
    return replace(model, runs=tuple(runs))


def test_pairs_are_found_where_they_save_time_and_no_family_is_shorter():
    model = exchanging(layers=8)
    plain = even(model, "1f1b", num_ranks=4, num_microbatches=8)
    found = search_order(plain, model, memory_limit_bytes=None, time_limit_s=SECONDS)
    assert found.schedule.has_pairs
    assert found.start_name == "1f1b-overlap"
    assert found.lower_bound_ns <= found.makespan_ns <= found.start_ns
    paired = simulate(model, replace(plain, schedule="1f1b-overlap"))
    assert found.start_ns == paired.makespan_ns < simulate(model, plain).makespan_ns
    in_turn = search_order(plain, model, memory_limit_bytes=None, in_pairs=False, time_limit_s=SECONDS)
    assert not in_turn.schedule.has_pairs
    assert in_turn.makespan_ns > found.makespan_ns


def test_without_exchanges_orders_made_from_one_with_pairs_have_none():
    model = network(layers=8)
    paired = even(model, "1f1b-overlap", num_ranks=4, num_microbatches=8)
    start = make_schedule("1f1b-overlap", num_ranks=4, num_chunks=1, num_microbatches=8)
    found = search_order(paired, model, memory_limit_bytes=None, start=[start], time_limit_s=SECONDS)
    assert not found.schedule.has_pairs
    plain = simulate(model, even(model, "1f1b", num_ranks=4, num_microbatches=8))
    assert found.makespan_ns == found.bound.lower_bound_ns == plain.makespan_ns


def test_parts_of_split_sequences_keep_their_order():
    model = network(layers=4)
    plan = even(model, "1f1b", num_ranks=4, num_microbatches=3, sequence_splits=3)
    limit = max(simulate(model, plan).peak_memory_bytes)
    outcome = search_order(plan, model, memory_limit_bytes=limit, split_backward=True, time_limit_s=SECONDS)
    check_complete(outcome.schedule)
    assert outcome.schedule.sequence_splits == 3
    assert simulate(model, plan, schedule=outcome.schedule).fits(limit)
    assert outcome.lower_bound_ns <= outcome.makespan_ns <= simulate(model, plan).makespan_ns


def test_without_split_backwards_none_is_split():
    model = network(layers=4)
    plan = even(model, "zb-h1", num_ranks=4, num_microbatches=8)
    outcome = search_order(plan, model, memory_limit_bytes=None, time_limit_s=SECONDS)
    assert outcome.schedule.used_ops == (Op.F, Op.B)
    assert outcome.makespan_ns == 10 * 3 * (8 + 3)  # 1F1B is optimal for whole backwards of equal stages


def test_a_limit_below_one_microbatch_is_refused_with_what_it_needs():
    model = network(layers=4, activation=2**20)
    plan = even(model, "1f1b", num_ranks=4, num_microbatches=8)
    with pytest.raises(InputError, match=r"memory limit must be at least the 1\.0 MB that rank 0 holds"):
        search_order(plan, model, memory_limit_bytes=2**19, time_limit_s=SECONDS)


def test_the_least_memory_is_enough():
    model = network(layers=4)
    plan = even(model, "1f1b", num_ranks=4, num_microbatches=5)
    outcome = search_order(plan, model, memory_limit_bytes=1 + 6, time_limit_s=SECONDS)
    assert outcome.makespan_ns == 5 * 4 * 30  # one microbatch at a time, parameters 1 and activation 6 bytes a rank
    assert outcome.lower_bound_ns == outcome.makespan_ns


def test_an_order_to_start_from_must_fit_the_plan():
    model = network(layers=4)
    plan = even(model, "1f1b", num_ranks=4, num_microbatches=5)
    with pytest.raises(InputError, match="num_microbatches"):
        search_order(
            plan, model, memory_limit_bytes=None, start=[f_then_b(num_ranks=4, num_microbatches=4)], time_limit_s=1.0
        )
    turned = parse_schedule("1F0,1B0\n0F0,0B0", name="turned")
    two = even(model, "1f1b", num_ranks=2, num_microbatches=1)
    with pytest.raises(InputError, match="placement"):
        search_order(two, model, memory_limit_bytes=None, start=[turned], time_limit_s=1.0)


def test_a_plan_without_backward_is_refused():
    model = network(layers=2)
    plan = replace(even(model, "1f1b", num_ranks=2, num_microbatches=2), schedule="mine", order=("0F0,0F1", "1F0,1F1"))
    with pytest.raises(InputError, match="schedule must have backwards"):
        search_order(plan, model, memory_limit_bytes=None, time_limit_s=SECONDS)


def test_split_backwards_start_from_the_whole_ones_of_a_family():
    model = network(layers=8, forward=11, backward=23)
    sizes = {"num_ranks": 4, "num_chunks": 2, "num_microbatches": 6}
    plan = even(model, "interleaved", **sizes)
    limit = max(simulate(model, plan).peak_memory_bytes)
    outcome = search_order(plan, model, memory_limit_bytes=limit, split_backward=True, time_limit_s=0.0)
    assert Op.W in outcome.schedule.used_ops
    assert outcome.makespan_ns < simulate(model, plan).makespan_ns
    check_complete(outcome.schedule)
