"""Dry runs of an init file: offsets and recompute lists as plans, one for each round."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.model import Plan
from evenflow.profiles.init.init_rounds import read_rounds


def rounds(
    *, offset: object, num_stages: int = 4, num_layers: int = 20, stages: object = None, **recompute: Any
) -> tuple[Plan, ...]:
    top = {"recompute_config": recompute} if recompute else {}
    pipeline = Fields(values={"pipeline_num": num_stages, "offset": offset}, file="init.yaml", path="pipeline_config")
    return read_rounds(Fields(values=top, file="init.yaml"), pipeline, num_layers=num_layers, stages=stages)


@given(st.integers(3, 6), st.integers(2, 5), st.data())
def test_offsets_are_added_to_equal_stages(num_stages: int, each: int, data: st.DataObject):
    offsets = data.draw(st.permutations([1, -1, *[0] * (num_stages - 2)]))
    (plan,) = rounds(offset=offsets, num_stages=num_stages, num_layers=each * num_stages)
    assert plan.layers == (tuple(each + more for more in offsets),)
    assert plan.num_microbatches == plan.num_ranks == num_stages
    assert plan.schedule == "1f1b"


def test_one_word_goes_for_all_rounds():
    plans = rounds(offset=[0, [1, 0, 0, -1]], recompute=True)
    assert [plan.layers[0] for plan in plans] == [(5, 5, 5, 5), (6, 5, 5, 4)]
    assert [plan.recompute["full"] for plan in plans] == [plan.layers for plan in plans]


def test_stages_tell_the_number_of_rounds_where_offsets_are_the_same():
    plans = rounds(offset=0, stages=[[1], [2], [1, 2]], select_recompute=[True, False, [1, 2, 3, 4]])
    assert len(plans) == 3
    assert len(rounds(offset=0, stages=[1, 2])) == 1
    counts = [[plan.count("select", 0, rank) for rank in range(4)] for plan in plans]
    assert counts == [[5, 5, 5, 5], [0, 0, 0, 0], [1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"offset": 0, "num_stages": 2}, "3 or more, because only middle stages"),
        ({"offset": None}, "must be 0, a list of integers or a list of lists"),
        ({"offset": [1, 0, -1]}, "a number for each of the 4 stages; here are 3"),
        ({"offset": "none"}, "must be 0, a list of integers"),
        ({"offset": [0, [1, 0, 0, -1]], "recompute": [[0, 0, 0, 0]]}, "an entry for each round, here 2"),
        ({"offset": [0, [1, 0, -1]]}, "round 2"),
        ({"offset": 0, "recompute": [1, 2]}, "a number for each of the 4 stages; here are 2"),
        ({"offset": 0, "recompute": [6, 0, 0, 0]}, "stage 0"),
        ({"offset": [5, 0, 0, 0]}, "offset"),
        ({"offset": 0, "other": 1}, "other"),
    ],
)
def test_what_fits_no_dry_run_is_refused(values: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        rounds(**values)
