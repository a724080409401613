"""The time of compiling."""

import time

import numba
import pytest

from evenflow.simulate import compiled
from evenflow.simulate.compiled import compiled_s


def abs_of(one: int) -> int:
    return one if one >= 0 else -one


def test_compiling_counts_and_running_does_not():
    def add(one: int, other: int) -> int:
        return one + other

    # Without the cache on disk, from which nothing would be compiled.
    compiled.compiled(abs_of)
    machine_code = numba.njit(add)
    before = compiled_s()
    began = time.monotonic()
    assert machine_code(1, 2) == 3
    took = compiled_s() - before
    assert 0 < took <= time.monotonic() - began
    assert machine_code(3, 4) == 7
    assert compiled_s() == before + took


def test_what_is_compiled_for_something_else_counts_once_and_while_it_lasts(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stopwatch = compiled._Stopwatch()
    stopwatch.start()
    now[0] += 1
    stopwatch.start()
    now[0] += 2
    assert stopwatch.seconds == pytest.approx(3)
    stopwatch.stop()
    now[0] += 4
    assert stopwatch.seconds == pytest.approx(7)
    stopwatch.stop()
    now[0] += 8
    assert stopwatch.seconds == pytest.approx(7)
