"""The time of a run with the time faked."""

import time

import pytest

from evenflow.solve.clock import Clock


@pytest.fixture
def now(monkeypatch) -> list[float]:
    moment = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    return moment


def test_all_that_passes_counts_against_the_limit(now):
    clock = Clock(limit_s=10)
    now[0] += 2
    assert (clock.spent_s, clock.left_s) == (2, 8)
    now[0] += 9
    assert (clock.spent_s, clock.left_s) == (11, -1)


def test_a_clock_may_have_begun_before(now):
    assert Clock(limit_s=10, began=97.0).left_s == 7
