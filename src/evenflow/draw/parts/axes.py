"""Scales and axes: nanoseconds and bytes as pixels and labels."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.draw.palette import HAIRLINE, MUTED
from evenflow.draw.svg_elements import path, tenths, text
from evenflow.units import MEGABYTE

TIME_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
MEMORY_UNITS = ((2**40, "TB"), (2**30, "GB"), (2**20, "MB"), (2**10, "KB"), (1, "B"))
_TICK_SPACING = 96
"""Least pixels, about, between the labels of a time axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeScale:
    """A scale of time along x: 0 at `left`, `span_ns` at ``left + width``."""

    left: int
    width: int
    span_ns: int

    @property
    def right(self) -> int:
        """The pixel where the span ends."""
        return self.left + self.width

    def tenths(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return times as tenths of pixels, rounded."""
        pixels = self.left + times_ns * (self.width / self.span_ns)
        return np.asarray(np.rint(10 * pixels), dtype=np.int64)

    def tenth(self, time_ns: float) -> int:
        """Return a time as tenths of a pixel, rounded."""
        return round(10 * (self.left + time_ns * (self.width / self.span_ns)))


def nice_step(span: float, most: int) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that divides `span` into at most `most` parts.

    >>> nice_step(430, 10), nice_step(0.9, 5), nice_step(60, 3)
    (50.0, 0.2, 20.0)
    """
    rough = span / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    for factor in (1, 2, 5):
        if factor * power >= rough * (1 - 1e-9):
            return float(f"{factor * power:.6g}")
    return float(f"{10 * power:.6g}")


def time_unit(span_ns: int) -> tuple[int, str]:
    """Return size in nanoseconds and name of the unit for an axis; 2 of it fit into `span_ns`, of seconds 10."""
    for size, name in TIME_UNITS:
        if span_ns >= size * (10 if name == "s" else 2):
            return size, name
    return 1, "ns"


def memory_unit(size_bytes: int) -> tuple[int, str]:
    """Return size in bytes and name of the unit for memory up to `size_bytes`."""
    for size, name in MEMORY_UNITS:
        if size_bytes >= 2 * size:
            return size, name
    return 1, "B"


def show_time(time_ns: int) -> str:
    """Return a time as text, with its unit."""
    size, name = time_unit(time_ns)
    return f"{significant(time_ns / size)} {name}"


def show_memory(size_bytes: int, unit: tuple[int, str]) -> str:
    """Return memory as text in `unit`."""
    size, name = unit
    return f"{significant(size_bytes / size)} {name}"


def column_memory(size_bytes: int, unit: tuple[int, str]) -> str:
    """Return memory as text in `unit` for numbers in a column: two decimals, of megabytes and less none."""
    size, name = unit
    return f"{size_bytes / size:,.{2 if size > MEGABYTE else 0}f} {name}"


def significant(value: float) -> str:
    """Return about four digits, with separated thousands and without needless zeros.

    >>> significant(56.0), significant(55.987), significant(2180.31), significant(12345.6)
    ('56', '55.99', '2,180.3', '12,346')
    """
    decimals = 2 if abs(value) < 100 else 1 if abs(value) < 10_000 else 0
    shown = f"{value:,.{decimals}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def time_ticks(scale: TimeScale) -> list[tuple[int, str]]:
    """Return positions in tenths of pixels and labels of a time axis; the last label has the unit."""
    size, name = time_unit(scale.span_ns)
    span = scale.span_ns / size
    step = nice_step(span, scale.width // _TICK_SPACING)
    count = math.floor(span / step + 1e-9)
    ticks = [(scale.tenth(index * step * size), f"{index * step:,.10g}") for index in range(count + 1)]
    position, label = ticks[-1]
    return [*ticks[:-1], (position, f"{label} {name}")]


def time_axis(scale: TimeScale, y: int) -> list[str]:
    """Draw an axis line at `y` with ticks and labels below, 20 pixels high."""
    ticks = time_ticks(scale)
    marks = "".join(f"M{tenths(x)} {y}v4" for x, _ in ticks)
    labels = [text(x / 10, y + 16, label, size=11, fill=MUTED, anchor="middle") for x, label in ticks]
    return [path(f"M{scale.left} {y}h{scale.width}{marks}", stroke=MUTED), *labels]


def time_grid(scale: TimeScale, top: int, bottom: int) -> str:
    """Draw hairlines at the ticks of the time axis."""
    lines = "".join(f"M{tenths(x)} {top}V{bottom}" for x, _ in time_ticks(scale))
    return path(lines, stroke=HAIRLINE)
