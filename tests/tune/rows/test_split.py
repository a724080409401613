"""Splits that are one step apart."""

from dataclasses import replace

import pytest

from evenflow.predict.training import Degrees
from evenflow.tune.rows.split import is_near
from tests.tune.questions import question

HERE = replace(question().on_one_device, degrees=Degrees(tensor=2, pipeline=4, data=4), microbatch=2)


@pytest.mark.parametrize(
    ("changes", "microbatch", "near"),
    [
        ({}, 2, False),
        ({}, 4, True),
        ({}, 8, False),
        ({"tensor": 4, "pipeline": 2}, 2, True),
        ({"tensor": 8, "pipeline": 1}, 2, False),
        ({"pipeline": 3}, 2, True),
        ({"tensor": 4, "pipeline": 2}, 1, False),
        ({"chunks": 2}, 1, True),
    ],
)
def test_two_degrees_or_the_microbatch_by_a_factor_of_two(changes: dict[str, int], microbatch: int, near: bool) -> None:
    other = replace(HERE, degrees=replace(HERE.degrees, **changes), microbatch=microbatch)
    assert is_near(HERE, other) is is_near(other, HERE) is near
