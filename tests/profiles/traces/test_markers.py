"""Marks of steps."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.traces.markers import complete_steps, is_step


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ProfilerStep#12", True), ("step_3", True), ("ITERATION: 4", True), ("iter-7", True),
        ("step", False), ("my step 3", False), ("step 3 of 4x", False), ("backward 3", False), ("", False),
    ],
)  # fmt: skip
def test_names_of_steps(name, expected):
    assert is_step(name) is expected


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)).map(lambda pair: (2_000 * pair[0], 2_000 * sum(pair))))
)
def test_complete_steps_are_in_order_and_do_not_overlap(spans):
    steps = complete_steps(spans)
    assert set(steps) <= set(spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(steps))
    assert bool(steps) == bool(spans)


def test_steps_that_overlap_by_what_a_double_rounds_are_two():
    assert complete_steps([(10_000, 20_000), (0, 10_250), (12_000, 21_000)]) == [(0, 10_250), (10_000, 20_000)]
