"""V-Half, V-Min and ZB-V are the shortest orders on a V within their memory, for equal times, but for one size."""

import pytest

from evenflow.model.stage_ranks import v_shaped
from evenflow.schedule import make_schedule
from evenflow.solve.work import unit_work
from tests.schedule.every_order_on_a_v import fits_in, shortest_units
from tests.schedule.test_v_families import MOST_LIVE, most_live
from tests.solve.order.oracle import Small, shortest
from tests.thoroughness import IS_THOROUGH

SIZES = [(ranks, microbatches) for ranks in (1, 2, 3) for microbatches in (1, 2, 4, 7)]
SIZES += [(4, 1), (4, 2), (4, 3), (5, 3), (6, 2), (8, 2)]
if IS_THOROUGH:
    SIZES += [(4, microbatches) for microbatches in range(4, 13)] + [(6, 3), (7, 3), (8, 3)]


def units(family: str, ranks: int, microbatches: int) -> int:
    order = make_schedule(family, num_ranks=ranks, num_chunks=2, num_microbatches=microbatches)
    assert most_live(order) <= MOST_LIVE[family](ranks)
    return unit_work(order).makespan_ns(order)


@pytest.mark.parametrize("family", ["v-half", "v-min", "zbv"])
@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
def test_no_order_in_the_same_memory_is_shorter(family: str, ranks: int, microbatches: int):
    step = units(family, ranks, microbatches)
    assert not fits_in(ranks, microbatches, MOST_LIVE[family](ranks), step - 1)
    assert fits_in(ranks, microbatches, MOST_LIVE[family](ranks), step)


@pytest.mark.skipif(not IS_THOROUGH, reason="takes a minute; see make test-thorough")
def test_a_shorter_order_than_v_min():
    assert units("v-min", 5, 4) == 37
    assert shortest_units(5, 4, MOST_LIVE["v-min"](5)) == 35


@pytest.mark.parametrize("room", [2, 3, 4])
@pytest.mark.parametrize("microbatches", [1, 2])
def test_both_exhaustive_searches_say_the_same(room: int, microbatches: int):
    work = Small(
        stage_ranks=v_shaped(num_ranks=2), num_microbatches=microbatches, forward=(1,) * 4, backward=(2,) * 4,
        weight=(1,) * 4, activation=(1,) * 4, waiting=(1,) * 4, room=(room,) * 2, may_split=True,
    )  # fmt: skip
    assert shortest_units(2, microbatches, room) == shortest(work)
