"""Where ranks that differ stand, against every order of them planned alone."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow import plan_best, plan_for_target
from evenflow.errors import InputError
from evenflow.model import RankTraits
from evenflow.solve import Status, plan
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.rank_orders import MOST_ORDERS, rank_orders, reordered, shown_order
from evenflow.units import MEGABYTE
from tests.networks import plain_network
from tests.thoroughness import examples

FAST, SLOW = RankTraits(), RankTraits(speed=0.5, reserved_bytes=100 * MEGABYTE)
RANKS = st.lists(st.sampled_from([FAST, SLOW, RankTraits(speed=0.9)]), min_size=1, max_size=6)


@given(ranks=RANKS, size=st.integers(1, 3))
@settings(max_examples=examples(60), deadline=None)
def test_every_different_order_is_there_once_the_given_one_first(ranks, size):
    if len(ranks) % size:
        with pytest.raises(InputError, match="must divide"):
            rank_orders(ranks, size)
        return
    orders = rank_orders(ranks, size)
    groups = [tuple(ranks[first : first + size]) for first in range(0, len(ranks), size)]
    expected = {sum(row, ()) for row in permutations(groups)}
    rows = [tuple(ranks[rank] for rank in order) for order in orders]
    assert rows[0] == tuple(ranks)
    assert (set(rows), len(rows)) == (expected, len(expected))
    for order in orders:
        assert sorted(order) == list(range(len(ranks)))
        starts = order[::size]
        assert all(start % size == 0 for start in starts)
        assert order == tuple(start + inner for start in starts for inner in range(size))


def test_an_order_is_shown_with_its_runs_shortened():
    assert shown_order((4, 5, 6, 7, 0, 1, 2, 3)) == "4-7, 0-3"
    assert shown_order((2, 0, 1, 3)) == "2, 0-1, 3"
    assert shown_order([0, 1, 2, 4, 6, 7]) == "0-2, 4, 6-7"
    assert shown_order([5]) == "5"


def test_too_many_orders_are_refused_with_a_way_out():
    ranks = (FAST,) * 8 + (SLOW,) * 8
    with pytest.raises(InputError, match="12,870") as refused:
        rank_orders(ranks, 1)
    assert "together" in str(refused.value)
    assert len(rank_orders(ranks, 2)) == 70 <= MOST_ORDERS


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("limit", [None, 700 * MEGABYTE])
def test_the_best_order_is_the_best_of_all_planned_alone(size, limit):
    network = replace(plain_network(9), ranks=(SLOW, FAST, FAST, FAST))
    asked = {"num_ranks": 4, "num_microbatches": 5, "memory_limit_bytes": limit, "time_limit_s": 30}
    best = plan_best(network, families=["1f1b"], num_chunks=(1,), place_ranks=size, **asked)
    alone = {
        order: plan(reordered(network, order), schedule="1f1b", **asked) for order in rank_orders(network.ranks, size)
    }
    shortest = min(outcome.makespan_ns for outcome in alone.values() if outcome.plan)
    assert best.outcome.makespan_ns == shortest
    assert best.gap <= 2 * TOLERANCE
    order = best.outcome.rank_order
    assert best.outcome.simulation.network.ranks == reordered(network, order).ranks
    assert alone[order].makespan_ns == shortest
    assert f"in any of {len(alone)} orders of the ranks" in best.certificate()
    assert {candidate.rank_order for candidate in best.candidates} == set(alone)
    if limit is None:
        assert shortest < alone[0, 1, 2, 3].makespan_ns or size == 2  # here it matters where the slow rank stands


def test_a_framework_has_its_ranks_placed_too():
    network = replace(plain_network(8), ranks=(SLOW, FAST))
    asked = {"num_ranks": 2, "num_microbatches": 4, "time_limit_s": 30, "num_chunks": (1,)}
    placed = plan_for_target(network, "megatron", place_ranks=1, **asked)
    alone = [plan_for_target(reordered(network, order), "megatron", **asked) for order in ((0, 1), (1, 0))]
    assert placed.outcome.makespan_ns == min(best.outcome.makespan_ns for best in alone)
    assert placed.outcome.status is Status.OPTIMAL
    assert "orders of the ranks" in placed.certificate()


def test_ranks_that_are_all_alike_have_nothing_to_place():
    best = plan_best(plain_network(4), num_ranks=2, num_microbatches=3, families=["1f1b"], place_ranks=1)
    assert best.outcome.rank_order == ()
    assert len(best.candidates) == 1
