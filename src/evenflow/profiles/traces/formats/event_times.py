"""Times of a Chrome trace as integer nanoseconds, exactly to the digits of the file."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation

import numpy as np

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.traces.formats.columns import Integers

_LARGEST_US = Decimal(2**62 // 1000)
ROUNDING_NS = 1_000
"""Most by which a range may seem to overlap the one that begins where it ends. The digits of a file are exact, but what
wrote them may have rounded: to microseconds, or to a double, which since 1970 is a quarter of one (16 digits)."""


def times_ns(microseconds: Sequence[Decimal | None], *, file: str) -> Integers:
    """Return the integer nanoseconds of every value.

    Raises:
        InputError: a value that is missing, no number, or beyond 64 bits.
    """
    known = [value for value in microseconds if value is not None]
    if len(known) == len(microseconds):
        with suppress(InvalidOperation):  # NaN, which has no order
            if not known or (min(known) > -_LARGEST_US and max(known) < _LARGEST_US):
                return np.array([round(value * 1000) for value in known], dtype=np.int64)
    wrong = next(value for value in microseconds if not _is_time(value))
    rule = _("must have a time in microseconds for every event")
    raise InputError(value=str(wrong)[:40], rule=rule, place=file)


def time_ns(microseconds: Decimal | None, *, file: str) -> int:
    """Return `times_ns` of one value."""
    return int(times_ns([microseconds], file=file)[0])


def _is_time(value: Decimal | None) -> bool:
    return value is not None and value.is_finite() and -_LARGEST_US < value < _LARGEST_US


def follows(start_ns: int, end_ns: int, other_end_ns: int) -> bool:
    """Return whether a range comes behind one that began before it, and is not inside.

    >>> follows(10_000, 20_000, 10_250), follows(10_000, 10_250, 10_250), follows(10_000, 20_000, 15_000)
    (True, False, False)
    """
    return other_end_ns <= start_ns or (other_end_ns < end_ns and other_end_ns - start_ns <= ROUNDING_NS)
