"""Steady steps: medians behind the warm-up, of the last start of a run."""

import math
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.measured.logs import step_times
from evenflow.profiles.measured.logs.log_format import LoggedStep
from evenflow.profiles.measured.logs.step_times import SteadyStep, StepTimes

TIMES = st.floats(min_value=0.001, max_value=1e6)


def steady(steps: list[LoggedStep]) -> SteadyStep | None:
    """The steady step of lines in their order."""
    times = StepTimes()
    for step in steps:
        times.add(step)
    return times.steady()


def numbered(times_s: list[float], *, first: int = 1) -> list[LoggedStep]:
    return [LoggedStep(number=first + index, time_s=time) for index, time in enumerate(times_s)]


@given(st.lists(TIMES, min_size=3, max_size=60))
def test_the_median_is_that_of_all_but_two_lines_and_a_tenth(times: list[float]) -> None:
    found = steady(numbered(times))
    assert found is not None
    left_out = max(2, -(-len(times) // 10))
    assert found.time_s == median(times[left_out:])
    assert (found.used, found.logged, found.restarts) == (len(times) - left_out, len(times), 0)
    assert found.spread >= 0


@given(TIMES, st.integers(min_value=8, max_value=60), st.data())
def test_a_quarter_of_slow_lines_leaves_the_median_where_it_is(time: float, count: int, data: st.DataObject) -> None:
    """Checkpoints and evaluations make single lines longer."""
    slow = data.draw(st.sets(st.integers(min_value=0, max_value=count - 1), max_size=(count - 2) // 4))
    times = [time * 50 if index in slow else time for index in range(count)]
    found = steady(numbered([time * 9, time * 3, *times]))
    assert found is not None
    assert found.time_s == time


def test_of_fewer_than_three_lines_nothing_is_steady() -> None:
    assert steady(numbered([1.0, 1.0])) is None
    found = steady(numbered([9.0, 2.0, 1.0]))
    assert found is not None
    assert (found.time_s, found.used, found.spread) == (1.0, 1, 0.0)


def test_the_spread_is_that_of_the_middle_half() -> None:
    found = steady(numbered([9.0, 9.0, 8.0, 9.0, 10.0, 11.0, 12.0]))
    assert found is not None
    assert (found.time_s, found.spread) == (10.0, pytest.approx(0.2))


@given(st.lists(TIMES, min_size=3, max_size=30), st.lists(TIMES, min_size=3, max_size=30))
def test_after_a_restart_from_a_checkpoint_the_last_start_counts(before: list[float], after: list[float]) -> None:
    found, alone = steady([*numbered(before), *numbered(after)]), steady(numbered(after))
    assert found is not None
    assert alone is not None
    assert (found.time_s, found.used, found.restarts) == (alone.time_s, alone.used, 1)


def test_a_last_start_that_ended_at_once_does_not_count() -> None:
    found = steady([*numbered([5.0, 4.0, 2.0, 2.0]), *numbered([7.0], first=1)])
    assert found is not None
    assert (found.time_s, found.restarts) == (2.0, 0)


@given(st.lists(TIMES, min_size=3, max_size=30), st.integers(min_value=2, max_value=4))
def test_lines_of_several_ranks_for_one_step_count_once(times: list[float], ranks: int) -> None:
    alone = steady(numbered(times))
    together = [step for step in numbered(times) for _rank in range(ranks)]
    assert steady(together) == alone


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_time_is_left_out(value: float) -> None:
    found = steady(numbered([9.0, 9.0, 2.0, value, 2.0, value, 2.0]))
    assert found is not None
    assert (found.time_s, found.used) == (2.0, 3)
    assert steady(numbered([value] * 10)) is None


def test_only_the_batch_at_the_end_counts_while_it_grows() -> None:
    grown = [LoggedStep(number=index, time_s=1.0 + index, batch=32 * (1 + index // 10)) for index in range(40)]
    found = steady(grown)
    assert found is not None
    assert (found.batch, found.used, found.time_s) == (128, 10, 35.5)


def test_of_a_long_run_the_last_lines_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_times, "MOST_STEPS", 10)
    times = step_times.StepTimes()
    for index in range(1000):
        times.add(LoggedStep(number=index, time_s=1.0 + index))
    found = times.steady()
    assert found is not None
    assert (found.logged, found.used, found.time_s) == (1000, 10, 995.5)
