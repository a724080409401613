"""Bars at the right of each row: how busy a rank is, and how high its memory peaks."""

import numpy as np

from evenflow.draw.palette import (
    ACTIVATION_FILL,
    HAIRLINE,
    HELD_LINE,
    LIMIT,
    MUTED,
    OPERATIONS,
    OVER_FILL,
    RECOMPUTE,
    STATIC_FILL,
)
from evenflow.draw.parts.axes import column_memory
from evenflow.draw.parts.legend import DASHES
from evenflow.draw.parts.memory_strips import MemoryScale
from evenflow.draw.parts.timeline_blocks import TimelineRows
from evenflow.draw.svg_elements import number, path, rect, text
from evenflow.simulate import Simulation

_MOST_HEIGHT = 14
_LEAST_PITCH = 9
"""Pixels; lower rows have no room for a number."""
VALUE_WIDTH = 68
"""Pixels right of the bars for their numbers."""


def busy_bars(simulation: Simulation, rows: TimelineRows, x: int, width: int) -> list[str]:
    """Draw the share of the makespan in which each rank works: its operations, then recomputation."""
    timeline, schedule = simulation.timeline, simulation.timeline.schedule
    span = max(timeline.makespan_ns, 1)
    recompute_ns = np.zeros_like(timeline.busy_by_op_ns)
    np.add.at(recompute_ns, (schedule.ranks, schedule.ops), simulation.recompute_ns)
    work_ns = timeline.busy_by_op_ns - recompute_ns
    parts_ns = [(shades(1)[0], work_ns[:, op]) for op, (_, shades) in enumerate(OPERATIONS)]
    parts_ns.append((RECOMPUTE, recompute_ns.sum(axis=1)))
    parts = []
    for rank, busy_ns in enumerate(timeline.busy_ns.tolist()):
        top, height = _place(rows, rank)
        parts.append(rect(x, top, width, height, fill="none", stroke=HAIRLINE))
        at = float(x)
        for colour, part_ns in parts_ns:
            length = width * int(part_ns[rank]) / span
            if length >= 0.1:
                parts.append(rect(at, top, length, height, fill=colour))
            at += length
        parts += _value(rows, rank, x + width, f"{100 * busy_ns / span:.1f} %", over=False)
    return parts


def peak_bars(simulation: Simulation, rows: TimelineRows, x: int, width: int, memory: MemoryScale) -> list[str]:
    """Draw the peak memory of each rank: parameters, activations, the part over the limit, and the limit as a line."""
    parts = []
    limit = memory.top_bytes if memory.limit_bytes is None else memory.limit_bytes
    for rank, peak in enumerate(simulation.peak_memory_bytes):
        top, height = _place(rows, rank)
        base = width * memory.share(simulation.fixed_bytes[rank])
        inside = width * memory.share(min(peak, limit))
        full = width * memory.share(peak)
        parts.append(rect(x, top, inside, height, fill=ACTIVATION_FILL))
        parts.append(rect(x, top, base, height, fill=STATIC_FILL))
        if peak > limit:
            parts.append(rect(x + inside, top, full - inside, height, fill=OVER_FILL))
        parts.append(path(f"M{number(x + full)} {top}v{height}", stroke=HELD_LINE))
        parts += _value(rows, rank, x + width, column_memory(peak, memory.unit), over=peak > limit)
    if memory.limit_bytes is not None:
        line = number(x + width * memory.share(limit))
        parts.append(path(f"M{line} {rows.top - 4}V{rows.bottom}", stroke=LIMIT, extra=f'{DASHES} class="limit"'))
    return parts


def bar_heading(x: int, y: int, heading: str) -> str:
    """Draw the heading of the bars."""
    return text(x, y, heading, size=12, fill=MUTED)


def _place(rows: TimelineRows, rank: int) -> tuple[int, int]:
    """Return top and height of a row's bar, centred on the row."""
    height = min(rows.ink, _MOST_HEIGHT)
    return rows.y(rank) + (rows.ink - height) // 2, height


def _value(rows: TimelineRows, rank: int, x: int, label: str, *, over: bool) -> list[str]:
    if rows.pitch < _LEAST_PITCH:
        return []
    size = min(11, rows.pitch - 1)
    y = rows.y(rank) + rows.ink / 2 + 0.36 * size
    return [text(x + VALUE_WIDTH, y, label, size=size, fill=LIMIT if over else MUTED, anchor="end", bold=over)]
