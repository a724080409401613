"""Lower bounds over any order against the best of all orders."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.solve.bounds import given_cells_bound
from tests.solve.order.cases import as_work, equal_work, small_work
from tests.solve.order.oracle import Small, shortest
from tests.thoroughness import examples


@settings(max_examples=examples(60), deadline=None)
@given(small_work())
def test_no_order_is_shorter_than_the_bound(small: Small):
    best = shortest(small)
    assert best is not None
    assert given_cells_bound(as_work(small)).lower_bound_ns <= best


@settings(max_examples=examples(30), deadline=None)
@given(small_work(), st.integers(1, 3))
def test_more_room_never_raises_the_bound(small: Small, more: int):
    larger = replace(small, room=tuple(each + more for each in small.room))
    assert given_cells_bound(as_work(larger)).lower_bound_ns <= given_cells_bound(as_work(small)).lower_bound_ns


@settings(max_examples=examples(30), deadline=None)
@given(small_work(), st.integers(2, 1000))
def test_bounds_scale_with_the_times(small: Small, factor: int):
    scaled = replace(
        small,
        forward=tuple(factor * each for each in small.forward),
        backward=tuple(factor * each for each in small.backward),
        weight=tuple(factor * each for each in small.weight),
        message=factor * small.message,
        saved=small.saved and tuple(tuple(factor * each for each in row) for row in small.saved),
    )
    bound, larger = given_cells_bound(as_work(small)), given_cells_bound(as_work(scaled))
    assert larger.path_ns == factor * bound.path_ns
    assert larger.rank_ns == factor * bound.rank_ns


# Forward 1 and backward 2 (input and weight gradient 1 each) on every stage. Without split backwards p - 1 forwards and
# as many backwards stand before and after the work of the last rank: 3 (m + p - 1), which 1F1B reaches; with them the
# last rank can begin after p - 1 and never idle: 3 m + p - 1, which zb-h1 reaches. With room for one microbatch nothing
# overlaps. 30: the constraint program of the zero-bubble comparison, with 1F1B's memory held to the weight gradient.
@pytest.mark.parametrize(
    ("sizes", "may_split", "room", "optimum"),
    [
        ((4, 8), False, (4, 3, 2, 1), 33),
        ((8, 16), False, tuple(range(8, 0, -1)), 69),
        ((4, 8), True, (99,) * 4, 27),
        ((8, 16), True, (99,) * 8, 55),
        ((4, 8), True, (4, 3, 2, 1), 30),
        ((4, 8), False, (1,) * 4, 3 * 4 * 8),
    ],
)
def test_bounds_meet_known_optima(sizes: tuple[int, int], may_split: bool, room: tuple[int, ...], optimum: int):
    work = equal_work(num_ranks=sizes[0], num_microbatches=sizes[1], may_split=may_split, room=room)
    assert given_cells_bound(work).lower_bound_ns == optimum
