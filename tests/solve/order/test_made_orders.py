"""Orders made of a family's pattern: allowed, within memory, as long as is said, and no longer than their authors'."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.baselines.even_plan import even_plan
from evenflow.model import NONE, Communication, Layer, LayerRun, Mode, Network, Sizes
from evenflow.schedule import FAMILIES, check_complete, make_schedule
from evenflow.simulate import stage_costs
from evenflow.solve.order.made_orders import family_orders
from evenflow.solve.order.searcher import OrderSearch
from evenflow.solve.work import Work, make_work
from tests.networks import equal_network
from tests.solve.order.cases import as_work, small_work
from tests.solve.order.oracle import Small
from tests.thoroughness import examples

WITH_PATTERN = [name for name, family in FAMILIES.items() if family.patterns]


@settings(max_examples=examples(40), deadline=None)
@given(small_work(), st.sampled_from(list(FAMILIES)))
def test_orders_of_families_are_allowed_and_take_what_is_said(small: Small, name: str):
    work = as_work(small)
    for found in family_orders(name, work):
        check_complete(found.schedule)
        assert found.schedule.name == name
        assert found.schedule.stage_ranks == small.stage_ranks
        assert work.fits(found.schedule)
        assert work.makespan_ns(found.schedule) == found.makespan_ns
        assert small.may_split or not found.schedule.splits_backward


def work_of(
    name: str, *, ranks: int, microbatches: int, times: tuple[int, int, int], limit: int | None, **more: int
) -> Work:
    """Equal stages with these times of forward, input and weight gradient; an activation is 6 bytes."""
    chunks = FAMILIES[name].num_chunks or 1
    forward, gradient, weight = times
    layer = Layer(
        name="layer",
        forward_ns=forward,
        parameter_bytes=0,
        modes={NONE: Mode(activation_bytes=6, backward_ns=gradient + weight)},
        stated_weight_ns=weight,
        stated_until_weight_bytes=3,
    )
    network = Network(name="equal", runs=(LayerRun(layer=layer, count=ranks * chunks),))
    sizes = Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)
    plan = even_plan(network, sizes, schedule=name)
    order = make_schedule(name, num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)
    return make_work(
        stage_costs(network, plan, order),
        order,
        memory_limit_bytes=limit,
        communication=Communication(latency_ns=more.get("message", 0)),
        split_backward=order.splits_backward,
    )


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("microbatches", [2, 4, 8])
def test_orders_for_stages_that_take_no_time_are_allowed(name: str, microbatches: int):
    chunks = FAMILIES[name].num_chunks or 2
    order = make_schedule(name, num_ranks=4, num_chunks=chunks, num_microbatches=microbatches)
    for layers in (1, 3, 5):
        plan = even_plan(equal_network(layers), order.sizes, schedule=name, allow_empty=True)
        work = make_work(
            stage_costs(equal_network(layers), plan, order),
            order,
            memory_limit_bytes=None,
            communication=None,
            split_backward=order.splits_backward,
        )
        for found in family_orders(name, work):
            check_complete(found.schedule)
            assert work.makespan_ns(found.schedule) == found.makespan_ns


@pytest.mark.parametrize("name", WITH_PATTERN)
def test_the_first_order_is_that_for_equal_times_and_the_best_is_no_longer(name: str):
    for ranks, microbatches, times in ((2, 5, (3, 5, 2)), (4, 9, (4, 3, 5)), (3, 7, (1, 1, 1))):
        work = work_of(name, ranks=ranks, microbatches=microbatches, times=times, limit=None)
        first, *others = family_orders(name, work)
        equal = make_schedule(name, num_ranks=ranks, num_chunks=len(work.stage_table), num_microbatches=microbatches)
        assert first.schedule.same_order(equal)
        assert min(found.makespan_ns for found in others) <= first.makespan_ns


def test_a_family_has_orders_where_that_for_equal_times_does_not_fit():
    needed = 4 * 6
    work = work_of("zb-h1", ranks=4, microbatches=8, times=(2, 2, 2), limit=needed - 6)
    equal = make_schedule("zb-h1", num_ranks=4, num_chunks=1, num_microbatches=8)
    assert not work.fits(equal)
    assert any(work.fits(found.schedule) for found in family_orders("zb-h1", work))


def test_families_of_other_chunks_placements_or_backwards_have_none():
    work = work_of("1f1b-v", ranks=3, microbatches=5, times=(2, 2, 2), limit=None)
    assert not list(family_orders("zb-h1", work))
    assert not list(family_orders("interleaved", work))
    assert not list(family_orders("zbv", work))
    assert list(family_orders("1f1b-v", work))


def test_orders_are_the_same_every_time():
    work = work_of("v-half", ranks=4, microbatches=9, times=(4, 3, 5), limit=None, message=2)
    first, second = ([found.schedule for found in family_orders("v-half", work)] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("own", ["zbv", "v-half", "search"])
def test_a_search_starts_from_the_best_of_all_families(own: str):
    work = work_of("zbv", ranks=3, microbatches=6, times=(4, 3, 5), limit=None, message=1)
    search = OrderSearch(work=work, bound_ns=0)
    search.start_from_families(own, until=float("inf"))
    assert search.best is not None
    assert search.best.makespan_ns == min(found.makespan_ns for name in FAMILIES for found in family_orders(name, work))
