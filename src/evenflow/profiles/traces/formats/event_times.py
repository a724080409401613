"""Times of a Chrome trace as integer nanoseconds."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation

import numpy as np

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.traces.formats.columns import Integers

_LARGEST_NS = 2**62


def times_ns(microseconds: Sequence[int | float | str | None], *, file: str) -> Integers:
    """Return `time_ns` of every value, fast where all are numbers."""
    if set(map(type, microseconds)) <= {int, float}:
        with suppress(OverflowError):  # an integer of hundreds of digits, which is refused below
            times = np.array(microseconds, dtype=np.float64) * 1000
            if not len(times) or np.abs(times).max() < 2**53:
                return np.rint(times).astype(np.int64)
    return np.array([time_ns(value, file=file) for value in microseconds], dtype=np.int64)


def time_ns(microseconds: int | float | str | None, *, file: str) -> int:
    """Return integer nanoseconds; of text, as in Ascend's traces, exactly to its digits.

    A number with a fraction was a double before it was written, so it is one here too: exact to the nanosecond up to
    2^52 ns (52 days, where newer Kineto starts to count), to 0.2 us since 1970.
    """
    nanoseconds = _LARGEST_NS
    if isinstance(microseconds, str):
        nanoseconds = _nanoseconds_of_text(microseconds)
    elif microseconds is not None and abs(microseconds) < _LARGEST_NS // 1000:
        nanoseconds = round(microseconds * 1000)
    if abs(nanoseconds) < _LARGEST_NS:
        return nanoseconds
    rule = _("must have a time in microseconds for every event")
    raise InputError(value=str(microseconds)[:40], rule=rule, place=file)


def _nanoseconds_of_text(text: str) -> int:
    """Return the nanoseconds of a decimal number of microseconds; `_LARGEST_NS` for other text."""
    whole, _, fraction = text.partition(".")
    if whole.isdecimal() and len(fraction) <= 3 and (fraction.isdecimal() or not fraction):
        return int(whole[:30] + fraction.ljust(3, "0"))
    try:
        number = Decimal(text)
    except InvalidOperation:
        return _LARGEST_NS
    # An exponent makes a number of any size from a few characters.
    return round(number.scaleb(3)) if number.is_finite() and number.adjusted() < 20 else _LARGEST_NS
