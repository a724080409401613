"""Measurements are repeated while they scatter, and their error is that of their medians."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenflow_torch.run.measure import settled as module
from evenflow_torch.run.measure.settled import MOST_ROUNDS, relative_error, settled
from tests.clocks import SetClock

CPU = torch.device("cpu")
STEADY, SCATTERED = [100, 101, 99, 100, 100, 101, 99], [100, 180, 60, 140, 90, 200, 70]


@pytest.mark.usefixtures("one_rank")
def test_times_that_agree_are_measured_once() -> None:
    found = settled(lambda: [STEADY, [2 * time for time in STEADY]], CPU)
    assert (found.rounds, found.medians_ns) == (1, (100, 200))
    assert 0 < found.error < 0.01


@pytest.mark.usefixtures("one_rank")
def test_times_that_scatter_are_measured_again_until_their_median_is_known() -> None:
    rounds: Iterator[list[int]] = iter([SCATTERED, *[STEADY] * 9])
    found = settled(lambda: [next(rounds)], CPU)
    assert found.rounds == 2
    assert found.medians_ns == (100,)
    never = settled(lambda: [SCATTERED], CPU)
    assert never.rounds == MOST_ROUNDS
    assert never.error == relative_error([SCATTERED * MOST_ROUNDS]) > module.ENOUGH


@pytest.mark.usefixtures("one_rank")
def test_no_round_begins_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "monotonic", SetClock(step=15.0))
    assert settled(lambda: [SCATTERED], CPU).rounds == 2


@pytest.mark.usefixtures("one_rank")
def test_a_rank_without_times_has_no_error() -> None:
    found = settled(list, CPU)
    assert (found.rounds, found.medians_ns, found.error) == (1, (), 0.0)


@given(st.lists(st.lists(st.integers(1, 10**9), min_size=2, max_size=20), min_size=1, max_size=4), st.integers(2, 9))
def test_the_error_depends_on_no_unit_and_falls_as_the_root_of_the_number(times: list[list[int]], factor: int) -> None:
    error = relative_error(times)
    assert error >= 0
    assert relative_error([[factor * time for time in one] for one in times]) == pytest.approx(error)
    assert relative_error([*times, *times]) == pytest.approx(error)
    assert relative_error([[one[0]] * len(one) for one in times]) == 0


@given(st.integers(0, 2**32))
def test_the_error_is_how_far_medians_are_from_the_true_one(seed: int) -> None:
    """Of 400 medians of 35 times with a normal scatter of a tenth, about two in three are within one error."""
    drawn = 1000 + 100 * torch.randn(400, 35, generator=torch.Generator().manual_seed(seed))
    rows = [[round(time) for time in row] for row in drawn.tolist()]
    within = [abs(sorted(row)[17] / 1000 - 1) <= relative_error([row]) for row in rows]
    assert 0.5 < sum(within) / len(within) < 0.8
