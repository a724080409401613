"""Units: time is integer nanoseconds and memory integer bytes; text with a unit becomes such a number here, once.

A megabyte is 2**20 bytes and a gigabyte 2**30, as device memory and the layer files count them.
"""

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.ranges import BYTES_PER_S, FLOPS, MEGABYTES, MEMORY_BYTES, MILLISECONDS, TIME_NS

MEGABYTE = 2**20
GIGABYTE = 2**30
NANOSECONDS_PER_MILLISECOND = 1_000_000

_MEMORY_UNITS: dict[str, int] = {
    "": MEGABYTE,
    "b": 1,
    **{f"{prefix}{rest}": 2 ** (10 * place) for place, prefix in enumerate("kmgt", 1) for rest in ("", "b", "ib")},
}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*")


def parse_memory(text: str, *, place: str = "memory", needs_unit: bool = False) -> int:
    """Return the bytes of a memory size such as ``56GB``, ``56G``, ``57344MB`` or ``57344`` (megabytes).

    With `needs_unit` a number alone is refused: whoever writes 56 hardly means megabytes.

    >>> parse_memory("56GB") == parse_memory("56G") == parse_memory("57344") == 56 * 2**30
    True
    """
    match = _QUANTITY.fullmatch(text)
    if needs_unit and match is not None and not match[2]:
        raise InputError(
            value=text,
            rule=_("must have a unit"),
            place=place,
            remedy=_("write {gigabytes}GB or {megabytes}MB", gigabytes=match[1], megabytes=match[1]),
        )
    if match is None or match[2].lower() not in _MEMORY_UNITS:
        raise InputError(
            value=text,
            rule=_("must be a number with one of the units B, KB, MB, GB, TB")
            if needs_unit
            else _("must be a number with one of the units B, KB, MB, GB, TB (none: MB)"),
            place=place,
            remedy=_("write for example 56GB or 57344MB"),
        )
    size = float(match[1]) * _MEMORY_UNITS[match[2].lower()]
    # Infinite where there are too many digits.
    if not math.isfinite(size) or round(size) not in MEMORY_BYTES.above_zero:
        rule = _("must be {range}, and a byte or more", range=MEGABYTES.above_zero.text)
        raise InputError(value=text, rule=rule, place=place)
    return round(size)


def bytes_from_megabytes(megabytes: float) -> int:
    """Return integer bytes, rounded once."""
    return round(megabytes * MEGABYTE)


def megabytes(size_bytes: int) -> float:
    """Return megabytes (2**20 bytes), for people and files."""
    return size_bytes / MEGABYTE


def nanoseconds_from_milliseconds(milliseconds: float) -> int:
    """Return integer nanoseconds, rounded once."""
    return round(milliseconds * NANOSECONDS_PER_MILLISECOND)


def milliseconds(time_ns: int) -> float:
    """Return milliseconds, for people and files."""
    return time_ns / NANOSECONDS_PER_MILLISECOND


_TIME_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_NUMBER = r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*"
_TIME = re.compile(_NUMBER + r"(ns|us|µs|ms|s)\s*")
_BANDWIDTH = re.compile(_NUMBER + r"([KMGTkmgt]?)([Bb])(?:ps|/s)\s*")
_MOST_DIGITS = 17
"""Digits that tell every floating-point number from all others."""
_FLOPS = re.compile(_NUMBER + r"([KMGTPkmgtp]?)(?:flops|flop/s)\s*", re.IGNORECASE)


def parse_time(text: str, *, place: str = "time") -> int:
    """Return the nanoseconds of a time such as ``5us``, ``0.02ms`` or ``0s``; the unit is required.

    >>> parse_time("5us")
    5000
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise InputError(
            value=text,
            rule=_("must be a number with one of the units ns, us, ms, s"),
            place=place,
            remedy=_("write for example 5us"),
        )
    time_ns = float(match[1]) * _TIME_UNITS[match[2]]
    if not math.isfinite(time_ns) or round(time_ns) not in TIME_NS:
        raise InputError(value=text, rule=_("must be {range}", range=MILLISECONDS.text), place=place)
    return round(time_ns)


def parse_bandwidth(text: str, *, place: str = "bandwidth") -> int:
    """Return the bytes per second of a bandwidth such as ``200GBps`` or ``200GB/s``; a small b means bits: ``400Gbps``.

    Prefixes are decimal, as links are sold.

    >>> parse_bandwidth("25GBps") == parse_bandwidth("200Gb/s") == 25 * 10**9
    True
    """
    match = _BANDWIDTH.fullmatch(text)
    if match is None:
        raise InputError(
            value=text,
            rule=_("must be a number with K, M, G or T and bytes or bits per second (GBps, GB/s, Gbps, Gb/s)"),
            place=place,
            remedy=_("write for example 200GBps (bytes) or 400Gbps (bits)"),
        )
    size = float(match[1]) * _PREFIXES[match[2].lower()]
    rate = size if match[3] == "B" else size / 8
    if not math.isfinite(rate) or round(rate) not in BYTES_PER_S:
        rule = _("must be {range} bytes per second", range=BYTES_PER_S.text)
        raise InputError(value=text, rule=rule, place=place)
    return round(rate)


def parse_flops(text: str, *, place: str = "peak") -> float:
    """Return the floating-point operations per second of a peak such as ``312TFLOPS``.

    >>> parse_flops("312TFLOPS") == 312e12
    True
    """
    match = _FLOPS.fullmatch(text)
    rate = 0.0 if match is None else float(match[1]) * _PREFIXES[match[2].lower()]
    if rate not in FLOPS:
        raise InputError(
            value=text,
            rule=_(
                "must be a number of floating-point operations per second (FLOPS, GFLOPS, TFLOPS, PFLOPS) "
                "above zero, at most {most:g}",
                most=FLOPS.most,
            ),
            place=place,
            remedy=_("write for example 312TFLOPS"),
        )
    return rate


def format_memory(size_bytes: int) -> str:
    """Return the shortest text that `parse_memory` reads as `size_bytes`.

    >>> format_memory(80 * 2**30)
    '80GB'
    """
    return _formatted(size_bytes, (("GB", 2**30), ("MB", MEGABYTE), ("KB", 2**10), ("B", 1)), parse_memory)


def format_bandwidth(bytes_per_s: float) -> str:
    """Return the shortest text that `parse_bandwidth` reads as `bytes_per_s`, which is a whole number.

    >>> format_bandwidth(3.35e12)
    '3350GBps'
    """
    return _formatted(bytes_per_s, (("GBps", 10**9), ("MBps", 10**6), ("KBps", 10**3), ("Bps", 1)), parse_bandwidth)


def format_flops(flops_per_s: float) -> str:
    """Return the shortest text that `parse_flops` reads as `flops_per_s`.

    >>> format_flops(989.4e12)
    '989.4TFLOPS'
    """
    return _formatted(
        flops_per_s, (("TFLOPS", 10**12), ("GFLOPS", 10**9), ("MFLOPS", 10**6), ("FLOPS", 1)), parse_flops
    )


def _formatted(value: float, units: Sequence[tuple[str, int]], parse: Callable[[str], float]) -> str:
    """Return `value` in the largest of `units` that is not larger than it, with as few digits as say it exactly."""
    for unit, size in units:
        for digits in range(1, _MOST_DIGITS + 1):
            text = f"{Decimal(f'{value / size:.{digits}g}'):f}{unit}"
            with suppress(InputError):  # one that is rounded up can be beyond the range
                if value >= size and parse(text) == value:
                    return text
    return f"{Decimal(value):f}{units[-1][0]}"
