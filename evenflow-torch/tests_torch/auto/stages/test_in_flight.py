import pytest

from evenflow.errors import InputError
from evenflow.profiles import own_plan_file
from evenflow_torch.auto.stages.in_flight import SCHEDULES, in_flight_microbatches


def test_counts_are_those_published() -> None:
    # 1F1B: as many as stages from here to the end; eager: nearly twice as many; F-then-B: all.
    assert in_flight_microbatches("pipedream-flush", num_microbatches=9, most_stages=4) == (0, 1, 2, 3, 4)
    assert in_flight_microbatches("eager-1f1b", num_microbatches=6, most_stages=4) == (0, 1, 3, 5, 6)
    assert in_flight_microbatches("gpipe", num_microbatches=9, most_stages=3) == (0, 9, 9, 9)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("num_microbatches", [1, 2, 7])
def test_counts_do_not_fall_with_the_distance_from_the_end(schedule: str, num_microbatches: int) -> None:
    counts = in_flight_microbatches(schedule, num_microbatches=num_microbatches, most_stages=6)
    assert sorted(counts) == list(counts)
    assert max(counts) <= num_microbatches


def test_schedules_the_program_cannot_assume_are_refused() -> None:
    with pytest.raises(InputError, match=r"schedule must be one of 1f1b, eager-1f1b, f-then-b .*, got 'zb-h1'"):
        in_flight_microbatches("zb-h1", num_microbatches=4, most_stages=2)


def test_schedules_are_those_that_a_plan_of_a_user_may_name():
    assert own_plan_file.SCHEDULES == SCHEDULES
