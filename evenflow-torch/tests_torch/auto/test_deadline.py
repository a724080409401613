"""Deadlines by a clock that is set."""

import pytest

from evenflow import interruption
from evenflow_torch.auto.deadline import Deadline
from tests.clocks import SetClock, standing


def test_what_is_left() -> None:
    clock = SetClock(100.0)
    deadline = Deadline.after(8.0, now=clock)
    clock.time = 102.0
    assert (deadline.left_s, deadline.is_over) == (6.0, False)
    half = deadline.share(0.5)
    assert (half.left_s, half.limit_s) == (3.0, 8.0)
    clock.time = 105.0
    assert (half.is_over, deadline.is_over) == (True, False)
    clock.time = 120.0
    assert (deadline.left_s, deadline.is_over) == (0.0, True)
    assert "the time limit must be enough seconds" in str(deadline.too_short())


def test_a_signal_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = Deadline.after(8.0, now=standing)
    assert not deadline.is_over
    monkeypatch.setattr(interruption._command, "signal", 2)
    assert deadline.is_over
