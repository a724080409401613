"""Microbatch numbers in the blocks of a timeline: all, all backwards, or every k-th backward; none is ever missing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.draw.palette import INK, PAPER
from evenflow.draw.parts.timeline_blocks import Blocks, TimelineRows
from evenflow.draw.svg_elements import number, tenths, text_width
from evenflow.schedule import Op

_SIZES = (11.0, 10.0, 9.0, 8.0)
"""Heights of numbers, in pixels; smaller ones cannot be read."""
_MOST_OF_ROW = 0.75
_STEPS = (2, 4, 5, 10, 8, 20, 16, 50, 100, 200, 500, 1000, 2000, 5000)
"""In the order in which they are tried; powers of two suit groups of microbatches that decimal steps do not."""
_INSIDE, _BETWEEN = 1.5, 8.0
"""Pixels that a number needs beside its digits: within its block, and from the next number where it may stand out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """Which blocks have a number, and how high the numbers are."""

    size: float
    only_backwards: bool = False
    """Whether only backwards (input gradients where they are split) have numbers."""
    every: int = 1
    """Only the microbatches 0, `every`, twice that and so on have numbers, which may stand out of their blocks."""

    @property
    def sentence(self) -> str:
        """The legend's sentence."""
        if self.every > 1:
            return f"numbers: every {self.every}{'nd' if self.every == 2 else 'th'} microbatch, on backwards"
        return "numbers: microbatches, on backwards" if self.only_backwards else "numbers: microbatches"


def numbering_words(numbering: Numbering | None) -> str:
    """Return the legend's sentence on the numbers."""
    return "no numbers: the blocks are too small" if numbering is None else numbering.sentence


def choose_numbering(panels: Sequence[tuple[Blocks, TimelineRows]]) -> Numbering | None:
    """Return the fullest numbering whose numbers all can be read in every panel; None where there is none."""
    ink = min(rows.ink for _, rows in panels)
    if any(blocks.is_merged for blocks, _ in panels):
        return None
    most = max(int(blocks.units.max(initial=0)) // blocks.sequence_splits for blocks, _ in panels)
    for numbering in _numberings([size for size in _SIZES if size <= _MOST_OF_ROW * ink]):
        if numbering.every <= max(most, 1) and all(_is_readable(blocks, numbering) for blocks, _ in panels):
            return numbering
    return None


def draw_numbers(blocks: Blocks, rows: TimelineRows, numbering: Numbering | None) -> list[str]:
    """Draw the numbers; those that may stand out of their blocks have a rim of paper."""
    if numbering is None:
        return []
    size = numbering.size
    drawn = [
        f'<text x="{tenths(int(blocks.split[index] + blocks.right[index]) // 2)}" '
        f'y="{number(rows.y(int(blocks.ranks[index])) + rows.ink / 2 + 0.36 * size)}">{_name(blocks, index)}</text>'
        for index in _numbered(blocks, numbering).tolist()
    ]
    rim = f' stroke="{PAPER}" stroke-width="3" paint-order="stroke"' if numbering.every > 1 else ""
    attributes = f'font-size="{number(size)}" fill="{INK}"{rim} text-anchor="middle" class="microbatches"'
    return [f"<g {attributes}>", *drawn, "</g>"]


def _numberings(sizes: Sequence[float]) -> Iterator[Numbering]:
    """Give the numberings from the fullest to the sparsest."""
    for only_backwards in (False, True):
        for size in sizes:
            yield Numbering(size=size, only_backwards=only_backwards)
    for every in _STEPS:
        for size in sizes[:-1] or sizes:
            yield Numbering(size=size, only_backwards=True, every=every)


def _is_readable(blocks: Blocks, numbering: Numbering) -> bool:
    chosen = _numbered(blocks, numbering)
    widths = np.array([text_width(_name(blocks, index), numbering.size) for index in chosen.tolist()])
    if numbering.every == 1:
        return bool((widths + _INSIDE <= (blocks.right - blocks.split)[chosen] / 10).all())
    centres = (blocks.split + blocks.right)[chosen] / 20
    apart = np.diff(centres) - (widths[:-1] + widths[1:]) / 2
    return bool((apart >= _BETWEEN)[np.diff(blocks.ranks[chosen]) == 0].all())


def _numbered(blocks: Blocks, numbering: Numbering) -> NDArray[np.int64]:
    """Return the indices of the blocks that have a number."""
    chosen = blocks.units % (numbering.every * blocks.sequence_splits if numbering.every > 1 else 1) == 0
    if numbering.only_backwards:
        ops = blocks.classes // blocks.num_chunks
        chosen = chosen & ((ops == Op.B) | (ops == Op.I))
    return np.flatnonzero(chosen)


def _name(blocks: Blocks, index: int) -> str:
    unit, splits = int(blocks.units[index]), blocks.sequence_splits
    return str(unit) if splits == 1 else f"{unit // splits}.{unit % splits}"
