"""What is left for an answer: shares of it, no time for compiling, and nothing after a signal."""

import pytest

from evenflow.tune.answers import time_left as module
from evenflow.tune.answers.time_left import TimeLeft


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets: seconds that went by, and those of them that were compiling."""
    now = {"passed": 100.0, "compiled": 0.0}
    monkeypatch.setattr(module.time, "monotonic", lambda: now["passed"])
    monkeypatch.setattr(module, "compiled_s", lambda: now["compiled"])
    return now


def test_shares_of_what_is_left(clock) -> None:
    left = TimeLeft.of(10)
    clock["passed"] += 4
    assert left.seconds == pytest.approx(6)
    assert left.share(0.5).seconds == pytest.approx(3)
    assert (left.at_most(2).seconds, left.at_most(20).seconds) == pytest.approx((2, 6))
    assert not left.is_over
    clock["passed"] += 7
    assert left.is_over
    assert left.seconds == left.share(0.5).seconds == 0


def test_compiling_does_not_count(clock) -> None:
    left = TimeLeft.of(10)
    clock["passed"] += 30
    clock["compiled"] += 25
    assert left.seconds == pytest.approx(5)


def test_a_signal_leaves_nothing(clock, monkeypatch) -> None:
    left = TimeLeft.of(10)
    monkeypatch.setattr(module, "was_interrupted", lambda: True)
    assert left.is_over
    assert left.seconds == 0
