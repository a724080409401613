import pytest

from evenflow.cli.verbs.schedule.stage_times import StageTimes
from evenflow.errors import InputError


def test_milliseconds_become_whole_nanoseconds_of_at_least_one():
    assert StageTimes(forward_ms=1.5, backward_ms=2, weight_ms=None).keywords() == {
        "forward_ns": 1_500_000, "backward_ns": 2_000_000, "weight_ns": None,
    }  # fmt: skip
    assert StageTimes(forward_ms=1e-9, backward_ms=1, weight_ms=1).keywords()["forward_ns"] == 1


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ((0, 1, None), "^--forward must be a number above zero"),
        ((1, float("nan"), None), "^--backward must be a number above zero"),
        ((1, 1, 1e7), "^--weight must not be longer than the backward"),
        ((1, 1, 1.5), "^--weight must not be longer than the backward, .*, got 1.5"),
    ],
)
def test_what_is_no_time_is_refused_with_its_option(times, message):
    forward_ms, backward_ms, weight_ms = times
    with pytest.raises(InputError, match=message):
        StageTimes(forward_ms=forward_ms, backward_ms=backward_ms, weight_ms=weight_ms).keywords()
