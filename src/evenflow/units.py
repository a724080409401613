"""Units: time is integer nanoseconds, memory integer bytes; text is turned into them here, once.

A megabyte is 2**20 bytes and a gigabyte 2**30, as device memory and the layer files count them.
"""

import re

from evenflow.errors import InputError

MEGABYTE = 2**20
NANOSECONDS_PER_MILLISECOND = 1_000_000

_MEMORY_UNITS = {
    "": MEGABYTE,
    "b": 1,
    "kb": 2**10,
    "kib": 2**10,
    "mb": MEGABYTE,
    "mib": MEGABYTE,
    "gb": 2**30,
    "gib": 2**30,
    "tb": 2**40,
    "tib": 2**40,
}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*")


def parse_memory(text: str, *, place: str = "memory") -> int:
    """Bytes of a memory size such as ``56GB``, ``57344MB`` or ``57344`` (megabytes).

    >>> parse_memory("56GB") == parse_memory("57344") == 56 * 2**30
    True
    """
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2].lower() not in _MEMORY_UNITS:
        raise InputError(
            value=text,
            rule="a memory size is a number with one of the units B, KB, MB, GB, TB (none: MB)",
            place=place,
            remedy="write for example 56GB or 57344MB",
        )
    size = round(float(match[1]) * _MEMORY_UNITS[match[2].lower()])
    if size <= 0:
        raise InputError(value=text, rule="a memory size is above zero", place=place)
    return size


def bytes_from_megabytes(megabytes: float) -> int:
    """Integer bytes, rounded once."""
    return round(megabytes * MEGABYTE)


def megabytes(size_bytes: int) -> float:
    """Megabytes (2**20 bytes), for people and files."""
    return size_bytes / MEGABYTE


def nanoseconds_from_milliseconds(milliseconds: float) -> int:
    """Integer nanoseconds, rounded once."""
    return round(milliseconds * NANOSECONDS_PER_MILLISECOND)


def milliseconds(time_ns: int) -> float:
    """Milliseconds, for people and files."""
    return time_ns / NANOSECONDS_PER_MILLISECOND
