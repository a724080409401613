"""Repeated building blocks: what repeats itself is not run again, and the order is as if it had been."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.schedule import make_schedule
from evenflow.schedule.building_block import _Squeeze
from tests.thoroughness import examples

FAMILIES = ("zbv", "v-half", "v-min")


@given(name=st.sampled_from(FAMILIES), ranks=st.integers(1, 6), microbatches=st.integers(1, 60))
@settings(max_examples=examples(40), deadline=None)
def test_the_order_is_that_of_a_run_without_repeats(name, ranks, microbatches):
    sizes = {"num_ranks": ranks, "num_chunks": 2, "num_microbatches": microbatches}
    order = make_schedule(name, **sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Squeeze, "_is_steady", False)
        assert make_schedule(name, **sizes).same_order(order)


def test_a_long_run_repeats_its_steady_phase():
    """The units that are run one by one do not depend on the number of microbatches."""
    ran = []
    for microbatches in (100, 400):
        units = 0

        def count(self, rank, run_one=_Squeeze._run_one):
            nonlocal units
            units += 1
            return run_one(self, rank)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_Squeeze, "_run_one", count)
            make_schedule("zbv", num_ranks=4, num_chunks=2, num_microbatches=microbatches)
        ran.append(units)
    assert ran[0] == ran[1]


def test_ranks_that_can_only_wait_are_not_tried_again():
    """Three runs, and a rank is tried after itself or a neighbour has run something: not once for each unit of time."""
    tries = 0

    def count(self, rank, run_one=_Squeeze._run_one):
        nonlocal tries
        tries += 1
        return run_one(self, rank)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Squeeze, "_run_one", count)
        schedule = make_schedule("zbv", num_ranks=60, num_chunks=2, num_microbatches=5)
    assert tries <= 3 * (3 * schedule.num_actions + schedule.num_ranks)
