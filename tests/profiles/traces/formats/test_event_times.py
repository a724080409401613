"""Times of traces: every digit of text is kept, and other values are right or refused."""

import json
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.profiles.traces.formats.event_times import time_ns, times_ns
from tests.profiles.traces import builders


@given(st.integers(0, 2**61), st.integers(0, 6))
def test_text_timestamps_keep_every_digit(nanoseconds: int, zeros: int):
    text = builders.text_us(nanoseconds) + "0" * zeros
    assert time_ns(text, file="f") == nanoseconds
    assert times_ns([text, text], file="f").tolist() == [nanoseconds] * 2


@given(st.integers(0, 2**52))
def test_number_timestamps_are_exact_for_weeks(nanoseconds: int):
    number = json.loads(builders.text_us(nanoseconds))
    assert time_ns(number, file="f") == nanoseconds
    assert times_ns([number, 0], file="f").tolist() == [nanoseconds, 0]


@given(st.text(alphabet="0123456789.eE+-_ nax", max_size=12) | st.floats() | st.integers())
@example("1e999999999")
@example("1e-999999999")
@example("nan")
@example("-")
@example(".")
@example("²")
def test_a_time_is_right_or_refused(value: str | float):
    try:
        found = time_ns(value, file="f")
    except InputError:
        return
    assert abs(Decimal(value) * 1000 - found) <= Decimal("0.5") + abs(Decimal(value)) * Decimal("1e-12")
