"""Axes of small charts: room at their ends, round ticks, plain or by factors."""

from collections.abc import Iterator
from math import floor, log10

from evenflow.draw.parts.axes import nice_step

_TICKS = 6
_PADDING = 0.06
"""Share of an axis that stays empty at its ends."""
_RUNGS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)


def padded(low: float, high: float) -> tuple[float, float]:
    """Return the ends of an axis with room around all values."""
    room = (high - low) * _PADDING or max(abs(high), 1) * _PADDING
    return low - room, high + room


def ticks(span: tuple[float, float], unit: int) -> Iterator[tuple[float, str]]:
    """Yield places and labels of an axis whose labels count `unit`."""
    low, high = span[0] / unit, span[1] / unit
    step = nice_step(high - low, _TICKS)
    digits = max(0, -int(f"{step:e}".split("e")[1]))
    place = -(-low // step)
    while place * step <= high:
        yield place * step * unit, f"{place * step:,.{digits}f}"
        place += 1


def factor_ticks(span: tuple[float, float], unit: int) -> list[tuple[float, str]]:
    """Return places and labels of an axis on which equal factors are equally long; `span` is above 0."""
    low, high = span[0] / unit, span[1] / unit
    power = floor(log10(low))
    places = [rung * 10.0**exponent for exponent in range(power, floor(log10(high)) + 1) for rung in _RUNGS]
    inside = [place for place in places if low <= place <= high]
    if len(inside) < 3:
        return list(ticks(span, unit))
    return [(place * unit, f"{place:,g}") for place in inside]
