"""The key to the colours, laid out from left to right in a line of its own above the plot."""

from collections.abc import Collection, Iterable

from evenflow.draw.palette import (
    ACTIVATION_FILL,
    COPIES,
    ENCODERS,
    HAIRLINE,
    HELD_LINE,
    HIDDEN,
    INK,
    LIMIT,
    MUTED,
    OPERATIONS,
    OVER_FILL,
    PAPER,
    RECOMPUTE,
    STATIC_FILL,
)
from evenflow.draw.svg_elements import path, rect, text, text_width
from evenflow.schedule import Op

_MOST_SWATCHES = 12
_SIZE = 12
_SWATCH = (18, 13)


class _Line:
    """A legend that grows from left to right."""

    def __init__(self, x: float, y: int) -> None:
        self.x = x
        self.y = y
        self.parts: list[str] = []

    def swatch(self, fill: str, stroke: str = "", content: str = "") -> None:
        width, height = _SWATCH
        self.parts.append(rect(self.x, self.y - height + 2, width, height, fill=fill, stroke=stroke))
        if content:
            self.parts.append(text(self.x + width / 2, self.y - 0.5, content, size=10, anchor="middle"))
        self.x += width + 2

    def stroke(self, colour: str, extra: str = "") -> None:
        self.parts.append(path(f"M{self.x:.0f} {self.y - 4}h22", stroke=colour, width=1.5, extra=extra))
        self.x += 24

    def label(self, content: str, fill: str = INK) -> None:
        if self.parts:
            self.x += 4
        self.parts.append(text(self.x, self.y, content, size=_SIZE, fill=fill))
        self.x += text_width(content, _SIZE) + 6

    def gap(self) -> None:
        self.x += 16


def timeline_legend(
    x: float,
    y: int,
    *,
    ops: Collection[Op],
    num_chunks: int,
    recomputes: bool,
    numbers: str,
    copies: bool = False,
    pairs: bool = False,
    encoders: bool = False,
) -> list[str]:
    """Draw the shades of operations by chunk, recomputation, copies, what pairs hide and what encoders do in bubbles
    where there are any, idle time, and what the numbers say.
    """
    line = _Line(x, y)
    for label, shades_of in (OPERATIONS[op] for op in sorted(ops)):
        shades = shades_of(num_chunks)
        if num_chunks == 1:
            line.swatch(shades[0])
            line.label(label)
        else:
            line.label(f"{label}, chunk")
            for chunk in _spread(num_chunks):
                line.swatch(shades[chunk], content=str(chunk))
        line.gap()
    if recomputes:
        line.swatch(RECOMPUTE)
        line.label("recompute, inside the backward" if Op.B in ops else "recompute, inside the input gradient")
        line.gap()
    for label, colour in (
        *(COPIES if copies else ()),
        *((HIDDEN,) if pairs else ()),
        *(ENCODERS if encoders else ()),
    ):
        line.swatch(colour)
        line.label(label)
        line.gap()
    line.swatch(PAPER, stroke=HAIRLINE)
    line.label("idle")
    line.gap()
    line.label(numbers, fill=MUTED)
    return line.parts


def memory_legend(x: float, y: int, *, limit: str, over: bool, curves: bool = True) -> list[str]:
    """Draw the parts of memory, its curve where there are `curves`, and the limit (its label; empty for none)."""
    line = _Line(x, y)
    line.swatch(STATIC_FILL)
    line.label("parameters and constant")
    line.gap()
    line.swatch(ACTIVATION_FILL)
    line.label("activations")
    line.gap()
    if curves:
        line.stroke(HELD_LINE)
        line.label("held")
        line.gap()
    if limit:
        line.stroke(LIMIT, extra=DASHES)
        line.label(limit, fill=LIMIT)
        line.gap()
    if over:
        line.swatch(OVER_FILL)
        line.label("over the limit", fill=LIMIT)
    return line.parts


DASHES = 'stroke-dasharray="5 3"'
"""Attributes of the dashed line of the limit."""


def _spread(count: int) -> Iterable[int]:
    """Return up to `_MOST_SWATCHES` chunks, first and last among them."""
    if count <= _MOST_SWATCHES:
        return range(count)
    return [index * (count - 1) // (_MOST_SWATCHES - 1) for index in range(_MOST_SWATCHES)]
