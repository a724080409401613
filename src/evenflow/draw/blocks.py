"""The timeline: one row a rank, one block an action, one path a colour."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.draw.axes import TimeScale
from evenflow.draw.elements import number, path, tenths, text_width
from evenflow.draw.palette import (
    INK, PAPER, RECOMPUTE, backward_shades, forward_shades,
)
from evenflow.schedule import Op
from evenflow.simulate import Simulation

MERGE_TENTHS = 5
"""Actions of a rank that start within the same half pixel are drawn as one block."""
_SEPARATED_TENTHS = 40
"""Where nearly all blocks are at least this wide, they have a thin white outline."""
_LABEL_SIZES = (11.0, 10.0, 9.0, 8.0, 7.0)

Tenths = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of a timeline from the top down: `pitch` from one to the next, of which `ink` is drawn."""

    top: int
    pitch: int
    count: int

    @property
    def ink(self) -> int:
        """Height of a block."""
        return self.pitch - max(1, round(self.pitch / 9))

    @property
    def bottom(self) -> int:
        """Below the last row."""
        return self.top + self.count * self.pitch

    def y(self, rank: int) -> int:
        """The top of a row's blocks."""
        return self.top + rank * self.pitch


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Blocks:
    """What is drawn, in tenths of pixels; every array has shape [num_blocks]."""

    ranks: Tenths
    classes: Tenths
    """``op * num_chunks + chunk``."""
    units: Tenths
    left: Tenths
    split: Tenths
    """Where recomputation inside a backward ends; `left` where there is none."""
    right: Tenths


def make_blocks(simulation: Simulation, scale: TimeScale) -> Blocks:
    """The blocks of a simulation. Actions too short to see are merged into one block of the class that runs longest."""
    timeline, costs = simulation.timeline, simulation.costs
    schedule = timeline.schedule
    left, right = scale.tenths(timeline.start_ns), scale.tenths(timeline.end_ns)
    recompute_ns = np.where(schedule.ops == Op.B, costs.recompute_ns[schedule.stages], 0)
    duration_ns = timeline.end_ns - timeline.start_ns

    cells = left // MERGE_TENTHS
    is_first = np.concatenate(([True], (np.diff(cells) != 0) | (np.diff(schedule.ranks) != 0)))
    firsts = np.flatnonzero(is_first)
    longest = np.lexsort((-duration_ns, np.cumsum(is_first)))[firsts]
    left, right = left[firsts], np.maximum.reduceat(right, firsts)
    share = recompute_ns[longest] / np.maximum(duration_ns[longest], 1)

    drawn = np.flatnonzero(right > left)
    left, right, longest, share = left[drawn], right[drawn], longest[drawn], share[drawn]
    chunks = schedule.stages[longest] // schedule.num_ranks
    return Blocks(
        ranks=schedule.ranks[longest].astype(np.int64),
        classes=(np.where(schedule.ops[longest] == Op.F, 0, schedule.num_chunks) + chunks).astype(np.int64),
        units=schedule.units[longest].astype(np.int64),
        left=left,
        split=left + np.rint(share * (right - left)).astype(np.int64),
        right=right,
    )


def draw_blocks(simulation: Simulation, scale: TimeScale, rows: Rows, *, num_shades: int) -> list[str]:
    """The blocks as one path a class, recomputation on top of the backwards, then microbatch numbers where they fit.

    `num_shades`, the number of chunks or more, is how many shades a direction has; pictures with one legend share it.
    """
    schedule = simulation.timeline.schedule
    blocks = make_blocks(simulation, scale)
    num_chunks = schedule.num_chunks
    colours = forward_shades(num_shades)[:num_chunks] + backward_shades(num_shades)[:num_chunks]
    separated = len(blocks.left) > 0 and np.quantile(blocks.right - blocks.left, 0.1) >= _SEPARATED_TENTHS
    outline = PAPER if separated else ""
    parts = []
    for index, colour in enumerate(colours):
        direction = "forward" if index < num_chunks else "backward"
        chosen = np.flatnonzero(blocks.classes == index)
        data = _rectangles(blocks.ranks[chosen], blocks.left[chosen], blocks.right[chosen], rows)
        name = f'class="{direction}-{index % num_chunks}"'
        parts.append(path(data, fill=colour, stroke=outline, width=0.6, extra=name))
    chosen = np.flatnonzero(blocks.split > blocks.left)
    data = _rectangles(blocks.ranks[chosen], blocks.left[chosen], blocks.split[chosen], rows)
    parts.append(path(data, fill=RECOMPUTE, stroke=outline, width=0.6, extra='class="recompute"'))
    return parts + _labels(blocks, schedule.sequence_splits, rows)


def _rectangles(ranks: Tenths, left: Tenths, right: Tenths, rows: Rows) -> str:
    """Path data: one closed rectangle a block."""
    return "".join(
        f"M{tenths(x)} {rows.y(rank)}h{tenths(width)}v{rows.ink}H{tenths(x)}z"
        for rank, x, width in zip(ranks.tolist(), left.tolist(), (right - left).tolist(), strict=True)
    )


def _labels(blocks: Blocks, sequence_splits: int, rows: Rows) -> list[str]:
    """Microbatch numbers in the blocks that are wide enough, all of one size: the largest that fits nearly all."""
    names = [
        str(unit) if sequence_splits == 1 else f"{unit // sequence_splits}.{unit % sequence_splits}"
        for unit in blocks.units.tolist()
    ]
    room = (blocks.right - blocks.split) / 10 - 1.5
    needed = np.array([text_width(name, 1) for name in names])
    sizes = [size for size in _LABEL_SIZES if size <= 0.75 * rows.ink]
    if not sizes:
        return []
    size = next((size for size in sizes if np.mean(needed * size <= room) > 0.95), sizes[-1])
    labels = [
        f'<text x="{tenths(int(blocks.split[index] + blocks.right[index]) // 2)}" '
        f'y="{number(rows.y(int(blocks.ranks[index])) + rows.ink / 2 + 0.36 * size)}">{names[index]}</text>'
        for index in np.flatnonzero(needed * size <= room).tolist()
    ]
    if not labels:
        return []
    return [f'<g font-size="{number(size)}" fill="{INK}" text-anchor="middle" class="microbatches">', *labels, "</g>"]
