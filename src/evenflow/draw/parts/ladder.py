"""Axes of small charts: room at their ends, round ticks, plain or by factors."""

from collections.abc import Iterable, Iterator
from math import floor, log10
from typing import NamedTuple

from evenflow.draw.parts.axes import nice_step
from evenflow.draw.svg_elements import clean, number

_TICKS = 6
_PADDING = 0.06
"""Share of an axis that stays empty at its ends."""
_RUNGS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)


class Frame(NamedTuple):
    """The size of a chart in pixels, and the room around what it shows."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int

    def x(self, value: float, span: tuple[float, float]) -> float:
        """Return where a value is along an axis with these ends."""
        low, high = span
        return self.left + (value - low) / (high - low) * (self.width - self.left - self.right)

    def axes(
        self,
        up: Iterable[tuple[float, str]],
        along: Iterable[tuple[float, str]],
        *,
        up_name: str,
        along_name: str,
        name_y: int,
    ) -> Iterator[str]:
        """Yield both axes: ticks at their pixels with labels, and what they are; that of the upward one at `name_y`."""
        base, end = self.height - self.bottom, self.width - self.right
        for y, label in up:
            yield f'<path d="M{self.left} {number(y)}H{end}" stroke="currentColor" stroke-opacity=".14"/>'
            yield f'<text x="{self.left - 8}" y="{number(y + 4)}" text-anchor="end">{label}</text>'
        for x, label in along:
            yield f'<path d="M{number(x)} {base}v5" stroke="currentColor" stroke-opacity=".5"/>'
            yield f'<text x="{number(x)}" y="{base + 19}" text-anchor="middle">{label}</text>'
        yield f'<path d="M{self.left} {base}H{end}" stroke="currentColor" stroke-opacity=".5"/>'
        yield f'<text x="8" y="{name_y}">{clean(up_name)}</text>'
        yield f'<text x="{end}" y="{self.height - 6}" text-anchor="end">{clean(along_name)}</text>'


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
