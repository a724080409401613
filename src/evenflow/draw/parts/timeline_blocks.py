"""The timeline: a row for each rank, a block for each action, a path for each colour."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evenflow.draw.palette import COPIES, ENCODERS, HIDDEN, OPERATIONS, PAPER, RECOMPUTE
from evenflow.draw.parts.axes import TimeScale
from evenflow.draw.svg_elements import number, path, tenths
from evenflow.simulate import EncodedStep, Timeline

MERGE_TENTHS = 3
"""Actions of a rank that start within the same third of a pixel or so are drawn as one block."""
_SEPARATED_TENTHS = 15
"""Blocks of one colour that touch are told apart by a white line where both are at least this wide."""

Tenths = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRows:
    """Rows of a timeline from the top down, `pitch` pixels from one to the next."""

    top: int
    pitch: int
    count: int
    has_copies: bool = False
    """Whether there is a line for each direction of copies under the blocks of a row."""

    @property
    def lane(self) -> int:
        """Pixels of the height of a line of copies."""
        return max(1, round(self.pitch / 9)) if self.has_copies else 0

    @property
    def ink(self) -> int:
        """Pixels of a block's height."""
        return self.pitch - max(1, round(self.pitch / 9)) - 2 * self.lane

    @property
    def bottom(self) -> int:
        """The pixel below the last row."""
        return self.top + self.count * self.pitch

    def y(self, rank: int) -> int:
        """Return the top of a row's blocks."""
        return self.top + rank * self.pitch


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Blocks:
    """Blocks rank by rank from left to right, in tenths of pixels; every array has shape [num_blocks]."""

    num_chunks: int
    sequence_splits: int
    is_merged: bool
    """Whether some actions were too short to have a block of their own."""
    ranks: Tenths
    classes: Tenths
    """``op * num_chunks + chunk``."""
    units: Tenths
    left: Tenths
    split: Tenths
    """Ends of recomputation inside a backward or input gradient; `left` where there is none."""
    right: Tenths


class Timed(Protocol):
    """Anything with a timeline: a `Simulation`, or a measured step."""

    @property
    def timeline(self) -> Timeline:
        """Start and end of every action."""

    @property
    def recompute_ns(self) -> NDArray[np.int64]:
        """Nanoseconds of recomputation at the beginning of every action, shape [num_actions]."""


def make_blocks(simulation: Timed, scale: TimeScale) -> Blocks:
    """Return the blocks of a simulation; actions too short to see are merged into the class that runs longest."""
    timeline = simulation.timeline
    schedule = timeline.schedule
    left, right = scale.tenths(timeline.start_ns), scale.tenths(timeline.end_ns)
    duration_ns = timeline.end_ns - timeline.start_ns

    cells = left // MERGE_TENTHS
    is_first = np.concatenate(([True], (np.diff(cells) != 0) | (np.diff(schedule.ranks) != 0)))
    firsts = np.flatnonzero(is_first)
    longest = np.lexsort((-duration_ns, np.cumsum(is_first)))[firsts]
    left, right = left[firsts], np.maximum.reduceat(right, firsts)
    share = simulation.recompute_ns[longest] / np.maximum(duration_ns[longest], 1)

    drawn = np.flatnonzero(right > left)
    left, right, longest, share = left[drawn], right[drawn], longest[drawn], share[drawn]
    chunks = schedule.stage_chunks[schedule.stages[longest]]
    return Blocks(
        num_chunks=schedule.num_chunks,
        sequence_splits=schedule.sequence_splits,
        is_merged=len(firsts) < schedule.num_actions,
        ranks=schedule.ranks[longest].astype(np.int64),
        classes=(schedule.num_chunks * schedule.ops[longest] + chunks).astype(np.int64),
        units=schedule.units[longest].astype(np.int64),
        left=left,
        split=left + np.rint(share * (right - left)).astype(np.int64),
        right=right,
    )


def draw_blocks(blocks: Blocks, rows: TimelineRows, *, num_shades: int) -> list[str]:
    """Draw the blocks as one path for each class, with recomputation on top of the backwards.

    `num_shades`, the number of chunks or more, is how many shades an operation has; pictures with one legend share it.
    """
    parts = []
    for index in np.unique(blocks.classes).tolist():
        op, chunk = divmod(index, blocks.num_chunks)
        op_name, shades = OPERATIONS[op]
        chosen = np.flatnonzero(blocks.classes == index)
        data = _bars(blocks.ranks[chosen], blocks.left[chosen], blocks.right[chosen], rows)
        name = f'class="{op_name.replace(" ", "-")}-{chunk}"'
        parts.append(path(data, stroke=shades(num_shades)[chunk], width=rows.ink, extra=name))
    chosen = np.flatnonzero(blocks.split > blocks.left)
    if len(chosen):
        data = _bars(blocks.ranks[chosen], blocks.left[chosen], blocks.split[chosen], rows)
        parts.append(path(data, stroke=RECOMPUTE, width=rows.ink, extra='class="recompute"'))
    parts.append(path(_separators(blocks, rows), stroke=PAPER, width=0.7))
    return parts


def draw_copies(timeline: Timeline, scale: TimeScale, rows: TimelineRows) -> list[str]:
    """Draw the copies to the host under the blocks of each rank, and under these the copies back."""
    graph, starts_ns, ends_ns = timeline.graph, timeline.copy_start_ns, timeline.copy_end_ns
    if graph.copied is None or starts_ns is None or ends_ns is None:
        return []
    parts = []
    for way, (name, colour) in enumerate(COPIES):
        ranks = timeline.schedule.ranks[graph.copied[way]].astype(np.int64)
        left, right = scale.tenths(starts_ns[way]), scale.tenths(ends_ns[way])
        drawn = np.flatnonzero(right > left)
        drawn = drawn[np.lexsort((left[drawn], ranks[drawn]))]
        data = _bars(ranks[drawn], left[drawn], right[drawn], rows, beneath=rows.ink + (way + 0.5) * rows.lane)
        parts.append(path(data, stroke=colour, width=rows.lane, extra=f'class="{_class_name(name)}"'))
    return parts


def draw_encoders(encoded: EncodedStep, scale: TimeScale, rows: TimelineRows) -> list[str]:
    """Draw what encoders do in bubbles, forwards and backwards; what they do before and behind is not in the picture.

    Parts that touch are one block.
    """
    parts = []
    for (name, colour), done in zip(ENCODERS, encoded.sides, strict=False):  # or forwards alone
        inside = np.flatnonzero((done.start_ns >= 0) & (done.end_ns <= encoded.pipeline_ns))
        if not len(inside):
            continue
        ranks, starts, ends = done.ranks[inside], done.start_ns[inside], done.end_ns[inside]
        begins = np.flatnonzero(np.append(True, (np.diff(ranks) != 0) | (starts[1:] != ends[:-1])))
        lasts = np.append(begins[1:], len(inside)) - 1
        data = _bars(ranks[begins], scale.tenths(starts[begins]), scale.tenths(ends[lasts]), rows)
        parts.append(path(data, stroke=colour, width=rows.ink, extra=f'class="{_class_name(name)}"'))
    return parts


def _class_name(name: str) -> str:
    return name.replace(" ", "-").replace("'", "")


def draw_pairs(timeline: Timeline, scale: TimeScale, rows: TimelineRows) -> list[str]:
    """Draw a line along the bottom of each pair, as long as its two parts would take longer one after the other."""
    if timeline.saved_ns is None:
        return []
    forwards = timeline.schedule.paired
    begins = timeline.start_ns[forwards]
    left, right = scale.tenths(begins), scale.tenths(begins + timeline.saved_ns)
    drawn = np.flatnonzero(right > left)
    if not len(drawn):
        return []
    height = max(1, round(rows.ink / 7))
    ranks = timeline.schedule.ranks[forwards[drawn]].astype(np.int64)
    data = _bars(ranks, left[drawn], right[drawn], rows, beneath=rows.ink - height / 2)
    return [path(data, stroke=HIDDEN[1], width=height, extra='class="hidden-exchange"')]


def _bars(ranks: Tenths, left: Tenths, right: Tenths, rows: TimelineRows, *, beneath: float | None = None) -> str:
    """Return path data: for each block a line along the middle of its row, to be stroked as high as a block.

    With `beneath` it is so many pixels below the top of the row.
    """
    middle = rows.ink / 2 if beneath is None else beneath
    pieces = []
    row, at = -1, 0
    for rank, start, end in zip(ranks.tolist(), left.tolist(), right.tolist(), strict=True):
        if rank != row:
            pieces.append(f"M{tenths(start)} {number(rows.y(rank) + middle)}")
        elif start != at:
            pieces.append(f"m{tenths(start - at)} 0")
        pieces.append(f"h{tenths(end - start)}")
        row, at = rank, end
    return "".join(pieces)


def _separators(blocks: Blocks, rows: TimelineRows) -> str:
    """Path data: a line where two blocks of one colour touch."""
    wide = blocks.right - blocks.left >= _SEPARATED_TENTHS
    touching = (np.diff(blocks.ranks) == 0) & (np.diff(blocks.classes) == 0) & (blocks.right[:-1] == blocks.left[1:])
    plain = blocks.split[1:] == blocks.left[1:]  # recomputation, darker, separates by itself
    chosen = np.flatnonzero(touching & plain & wide[:-1] & wide[1:]) + 1
    return "".join(
        f"M{tenths(x)} {rows.y(rank)}v{rows.ink}"
        for rank, x in zip(blocks.ranks[chosen].tolist(), blocks.left[chosen].tolist(), strict=True)
    )
