"""Memory over time: a strip for each rank, all to one scale, with the limit as a line."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.draw.palette import ACTIVATION_FILL, HAIRLINE, HELD_LINE, LIMIT, MUTED, OVER_FILL, STATIC_FILL
from evenflow.draw.parts.axes import TimeScale, nice_step, significant
from evenflow.draw.parts.legend import DASHES
from evenflow.draw.parts.timeline_blocks import TimelineRows
from evenflow.draw.svg_elements import number, path, rect, tenths, text
from evenflow.simulate import Simulation, memory_curve

BUCKET_TENTHS = 5
"""Tenths of pixels; steps within them are drawn as their range."""
_HEADROOM = 1.06
_TICK_PIXELS = 14
_LABELLED_INK = 28
"""Pixels; lower strips have no labels of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryScale:
    """The scale from bytes to pixels, from zero to a little above the highest of peak and limit."""

    top_bytes: int
    unit: tuple[int, str]
    limit_bytes: int | None

    def share(self, size_bytes: int) -> float:
        """Return the share of the scale's height or length."""
        return size_bytes / self.top_bytes


def memory_scale(peaks: list[int], limit_bytes: int | None, unit: tuple[int, str]) -> MemoryScale:
    """Return the scale that shows all of `peaks` and the limit."""
    highest = max(*peaks, limit_bytes or 0, 1)
    return MemoryScale(top_bytes=round(highest * _HEADROOM) + 1, unit=unit, limit_bytes=limit_bytes)


def draw_memory(simulation: Simulation, scale: TimeScale, rows: TimelineRows, memory: MemoryScale) -> list[str]:
    """Draw the strips: parameters as a base, activations on it as steps, red above the limit, the limit on top."""
    height = rows.ink
    curves, bases, over, clips, limits = [], [], [], [], []
    for rank, peak in enumerate(simulation.peak_memory_bytes):
        floor = rows.y(rank) + height
        data = _steps(simulation, rank, scale, floor, height, memory)
        curves.append(f'<path id="memory-{rank}" d="{data}"/>')
        base = memory.share(simulation.fixed_bytes[rank]) * height
        bases.append(rect(scale.left, floor - base, scale.width, base, fill=STATIC_FILL))
        if memory.limit_bytes is not None:
            line = floor - memory.share(memory.limit_bytes) * height
            limits.append(f"M{scale.left} {number(line)}h{scale.width}")
            if peak > memory.limit_bytes:
                above = f'x="{scale.left}" y="{rows.y(rank)}" width="{scale.width}"'
                clips.append(f'<rect {above} height="{number(line - rows.y(rank))}"/>')
                over.append(f'<use href="#memory-{rank}"/>')
    parts = [f'<g fill="{ACTIVATION_FILL}">', *curves, "</g>", *bases]
    if over:
        parts += ['<clipPath id="above-limit">', *clips, "</clipPath>"]
        parts += [f'<g fill="{OVER_FILL}" clip-path="url(#above-limit)">', *over, "</g>"]
    outlines = [f'<use href="#memory-{rank}"/>' for rank in range(rows.count)]
    width = 1 if rows.pitch >= 24 else 0.6 if rows.pitch >= 12 else 0.3
    parts += [f'<g fill="none" stroke="{HELD_LINE}" stroke-width="{width}">', *outlines, "</g>"]
    floors = "".join(f"M{scale.left} {rows.y(rank) + height}h{scale.width}" for rank in range(rows.count))
    parts.append(path(floors, stroke=HAIRLINE))
    if limits:
        parts.append(path("".join(limits), stroke=LIMIT, width=width, extra=f'{DASHES} class="limit"'))
    return parts


def memory_labels(x: int, rows: TimelineRows, memory: MemoryScale) -> list[str]:
    """Draw the scale of the strips, right-aligned at `x`, on every strip that is high enough."""
    if rows.ink < _LABELLED_INK:
        return []
    size, name = memory.unit
    ticks = rows.ink // _TICK_PIXELS
    top = memory.top_bytes / size
    step = nice_step(top, ticks)
    limit = None if memory.limit_bytes is None else memory.limit_bytes / size
    parts = []
    for rank in range(rows.count):
        floor = rows.y(rank) + rows.ink
        marks = [(index * step, MUTED) for index in range(int(top / step) + 1)] if ticks > 2 else []
        if limit is not None:
            apart = top * 10 / rows.ink
            marks = [mark for mark in marks if abs(mark[0] - limit) > apart] + [(limit, LIMIT)]
        for value, colour in marks:
            label = significant(value) + (f" {name}" if value and (colour == LIMIT or limit is None) else "")
            parts.append(text(x, floor - value / top * rows.ink + 3, label, size=9, fill=colour, anchor="end"))
    return parts


def _steps(simulation: Simulation, rank: int, scale: TimeScale, floor: int, height: int, memory: MemoryScale) -> str:
    """Return path data of one rank's memory, from the floor up and back down to it."""
    times_ns, held = memory_curve(simulation.timeline, simulation.costs, rank)
    settled = np.concatenate((np.diff(times_ns) != 0, [True]))  # at one instant, what is freed and taken nets out
    x = scale.tenths(times_ns[settled])
    y = np.rint(10 * (floor - held[settled] * (height / memory.top_bytes))).astype(np.int64)
    steps = "".join(f"H{tenths(at)}V{tenths(to)}" for at, to in _thin(x, y))
    return f"M{scale.left} {floor}{steps}H{scale.right}V{floor}"


def _thin(x: NDArray[np.int64], y: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the steps to draw: of several in one bucket the lowest, the highest and the last."""
    firsts = np.flatnonzero(np.concatenate(([True], np.diff(x // BUCKET_TENTHS) != 0)))
    lasts = np.concatenate((firsts[1:], [len(x)])) - 1
    highest, lowest = np.minimum.reduceat(y, firsts), np.maximum.reduceat(y, firsts)  # y points down
    points: list[tuple[int, int]] = []
    rows = zip(x[firsts].tolist(), lowest.tolist(), highest.tolist(), y[lasts].tolist(), strict=True)
    for at, low, high, last in rows:
        for value in (low, high, last):
            if not points or points[-1][1] != value:
                points.append((at, value))
    return points
