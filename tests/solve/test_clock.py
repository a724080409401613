"""The time of a run with the time faked."""

import time

import pytest

from evenflow.solve.clock import Clock


@pytest.fixture
def now(monkeypatch) -> list[float]:
    moment = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    return moment


def test_compiling_does_not_count_against_the_limit(now):
    clock = Clock(limit_s=10)
    now[0] += 2
    assert (clock.spent_s, clock.left_s) == (2, 8)
    with clock.compiling():
        now[0] += 5
        assert (clock.compiling_s, clock.left_s) == (5, 8)
    now[0] += 1
    assert (clock.spent_s, clock.compiling_s, clock.left_s) == (8, 5, 7)


def test_compiling_that_fails_ends_too(now):
    def fail() -> None:
        now[0] += 5
        raise ZeroDivisionError

    clock = Clock(limit_s=10)
    with pytest.raises(ZeroDivisionError), clock.compiling():
        fail()
    now[0] += 4
    assert (clock.compiling_s, clock.left_s) == (5, 6)


def test_a_clock_may_have_begun_before(now):
    assert Clock(limit_s=10, began=97.0).left_s == 7
