"""Microbatches as they are given: any two of three numbers determine the third."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow_torch.auto.step_sizes import step_sizes
from evenflow_torch.requests import AutoRequest


def _request(global_batch: int | None, microbatch: int | None, num_microbatches: int | None) -> AutoRequest:
    return AutoRequest(sequence=64, global_batch=global_batch, microbatch=microbatch, num_microbatches=num_microbatches)


@given(size=st.integers(1, 1000), count=st.integers(1, 1000), leave_out=st.sampled_from(["none", "size", "count"]))
def test_two_of_three_are_enough(size: int, count: int, leave_out: str) -> None:
    request = _request(size * count, None if leave_out == "size" else size, None if leave_out == "count" else count)
    assert step_sizes(request, usual=8) == (size, count)


def test_microbatches_alone_have_the_usual_size() -> None:
    assert step_sizes(_request(None, None, 4), usual=8) == (8, 4)
    assert step_sizes(_request(None, 2, 4), usual=8) == (2, 4)


def test_a_whole_alone_is_to_be_cut() -> None:
    assert step_sizes(_request(64, None, None), usual=8) is None


def test_where_nothing_is_searched_nothing_is_chosen() -> None:
    with pytest.raises(InputError, match="--microbatch must be given beside --global-batch"):
        step_sizes(_request(64, None, None), usual=8, can_choose=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((None, None, None), "--global-batch must be given, or --microbatches"),
        ((None, 4, None), "--global-batch must be given, or --microbatches"),
        ((10, 4, None), "--microbatch must divide the 10 sequences of --global-batch, got 4"),
        ((10, None, 4), "--microbatches must divide the 10 sequences of --global-batch, got 4"),
        ((16, 4, 2), "--global-batch must be --microbatches times --microbatch, 2 x 4 = 8, got 16"),
        ((0, None, None), "--global-batch must be an integer from 1"),
        ((True, None, None), "--global-batch must be an integer from 1"),
        ((None, 0, 4), "--microbatch must be an integer from 1"),
        ((None, None, 10**9), "--microbatches must be an integer from 1"),
    ],
)
def test_what_does_not_agree(given: tuple[int | None, ...], message: str) -> None:
    whole, size, count = given
    with pytest.raises(InputError, match=message):
        step_sizes(_request(whole, size, count), usual=8)
