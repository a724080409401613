"""The time of a run with the time faked."""

import time

import pytest

from evenflow.solve import clock as module
from evenflow.solve.clock import Clock


@pytest.fixture
def now(monkeypatch) -> list[float]:
    """The moment, and the seconds of it that were compiling."""
    moment = [100.0, 30.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    monkeypatch.setattr(module, "compiled_s", lambda: moment[1])
    return moment


def test_compiling_does_not_count_against_the_limit(now):
    clock = Clock(limit_s=10)
    now[0] += 2
    assert (clock.spent_s, clock.left_s) == (2, 8)
    now[0] += 6
    now[1] += 5
    assert (clock.spent_s, clock.compiling_s, clock.left_s) == (8, 5, 7)


def test_a_clock_may_have_begun_before(now):
    assert Clock(limit_s=10, began=97.0).left_s == 7
