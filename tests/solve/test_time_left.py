"""What is left for an answer: shares of it, and nothing after a signal."""

import pytest

from evenflow.solve import time_left as module
from evenflow.solve.clock import reproducible
from evenflow.solve.time_left import TimeLeft


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    now = {"passed": 100.0}
    monkeypatch.setattr(module, "now_s", lambda: now["passed"])
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


def test_a_signal_leaves_nothing(clock, monkeypatch) -> None:
    left = TimeLeft.of(10)
    monkeypatch.setattr(module, "was_interrupted", lambda: True)
    assert left.is_over
    assert left.seconds == 0


def test_a_command_began_before_it_looks_at_its_limit(clock, monkeypatch) -> None:
    assert TimeLeft.of_command(10).seconds == pytest.approx(10)  # no command
    monkeypatch.setattr(module, "command_began_s", lambda: 97.5)
    assert TimeLeft.of_command(10).seconds == pytest.approx(7.5)
    with reproducible():
        assert TimeLeft.of_command(10).seconds == pytest.approx(10)
