"""Times of traces: every digit is kept, of numbers and of text, and what is no time is refused."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.profiles.traces.formats.event_times import follows, time_ns, times_ns
from evenflow.profiles.traces.formats.events import Event
from tests.profiles.traces import builders

decode = msgspec.json.Decoder(Event).decode


@given(st.integers(0, 2**61), st.integers(0, 6), st.sampled_from(['"', ""]))
@example(1712345678901234567, 0, "")
def test_every_digit_of_a_file_is_kept(nanoseconds: int, zeros: int, quote: str):
    text = builders.text_us(nanoseconds) + "0" * zeros
    event = decode(f'{{"ts": {quote}{text}{quote}}}')
    assert time_ns(event.ts, file="f") == nanoseconds
    assert times_ns([event.ts, event.ts], file="f").tolist() == [nanoseconds] * 2


@given(st.integers(2**50, 2**51), st.integers(0, 10**6), st.integers(2_000, 10**6), st.booleans())
def test_what_a_double_or_whole_microseconds_rounded_still_follows(
    start_us: int, odd_ns: int, long_ns: int, whole: bool
):
    """A range that begins where another ends, both written from rounded numbers; and one that is inside."""

    def rounded(time_ns: int) -> int:
        return time_ns // 1000 * 1000 if whole else round(Decimal(time_ns / 1000) * 1000)

    first, middle = start_us * 1000, start_us * 1000 + 2_000 + odd_ns
    end = rounded(first) + (middle - first)
    assert follows(rounded(middle), rounded(middle) + long_ns, end)
    assert not follows(rounded(first) + 500, end - 500, end)


@given(st.decimals(allow_nan=True, allow_infinity=True) | st.none())
@example(Decimal("1e999999999"))
@example(Decimal("1e-999999999"))
@example(Decimal("nan"))
@example(Decimal("snan"))
def test_a_time_is_right_or_refused(value: Decimal | None):
    try:
        read = times_ns([Decimal(1), value], file="f").tolist()
    except InputError:
        return
    assert value is not None
    assert abs(value * 1000 - read[1]) <= Decimal("0.5")


@pytest.mark.parametrize("text", ["true", "[1]", '"x"', '""', "1e9999999999999999999"])
def test_other_values_are_no_times(text: str):
    with pytest.raises(msgspec.ValidationError):
        decode(f'{{"ts": {text}}}')
