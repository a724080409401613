"""Predicted against measured steps as a picture: a point for each run, a colour for each source."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import cycle

from benchmarks.published.guesses import Guess
from evenflow.draw.palette import HAIRLINE, INK, MUTED
from evenflow.draw.svg_elements import document, group, number, path, rect, text, text_width

_COLOURS = ("#2f6fb2", "#c56426", "#2a8a57", "#8a4fa8", "#b8860b", "#c2407a", "#1f9aa8", "#6b5b4b",
            "#3a3f47", "#7a9a1f", "#d98880", "#4a6b00")  # fmt: skip
_WIDTH, _PLOT, _LEFT, _TOP = 900, 560, 84, 108
_RADIUS = 2.6
_WITHIN = 0.2
"""The dashed lines stand for errors of this size."""


def scatter_svg(guesses: Sequence[Guess], *, title: str) -> str:
    """Return the picture as the text of an SVG file: both axes logarithmic, the diagonal for a perfect prediction.

    Raises:
        ValueError: no step was both predicted and measured.
    """
    points = [(guess.run.source, error.measured, error.predicted) for guess in guesses if (error := guess.time)]
    values = [value for _, *both in points for value in both]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    scale = _Scale(low=low, decades=high - low)
    sources = Counter(source for source, _, _ in points)
    colours = dict(zip(sources, cycle(_COLOURS), strict=False))
    dots: list[str] = []
    for source, _count in sources.most_common():  # small sources above large ones
        data = "".join(scale.dot(measured, predicted) for of, measured, predicted in points if of == source)
        extra = 'stroke-linecap="round" stroke-opacity="0.6"'
        dots.append(path(data, stroke=colours[source], width=2 * _RADIUS, extra=extra))
    parts = [
        text(_LEFT, 42, title, size=20, bold=True),
        text(
            _LEFT, 68, f"{len(points):,} runs; dashed: {100 * _WITHIN:.0f} % too long or too short", size=13, fill=MUTED
        ),
        *group("axes", scale.axes()),
        *group("lines", [scale.diagonal(1, INK), *(scale.diagonal(1 + side, MUTED) for side in (_WITHIN, -_WITHIN))]),
        *group("runs", dots),
        *group("legend", _legend(sources, colours)),
    ]
    return document(width=_WIDTH, height=_TOP + _PLOT + 64, label=title, parts=parts)


class _Scale:
    """Seconds as pixels, alike along both axes."""

    def __init__(self, *, low: int, decades: int) -> None:
        self.low, self.decades = low, decades

    def x(self, seconds: float) -> float:
        return _LEFT + _PLOT * (math.log10(seconds) - self.low) / self.decades

    def y(self, seconds: float) -> float:
        return _TOP + _PLOT - (self.x(seconds) - _LEFT)

    def dot(self, measured: float, predicted: float) -> str:
        return f"M{number(self.x(measured))} {number(self.y(predicted))}h0"

    def diagonal(self, factor: float, colour: str) -> str:
        """Draw the line of predictions that are `factor` times what was measured, inside the plot."""
        first, last = 10.0**self.low, 10.0 ** (self.low + self.decades)
        start, end = max(first, first / factor), min(last, last / factor)
        ends = [f"{number(self.x(seconds))} {number(self.y(seconds * factor))}" for seconds in (start, end)]
        return path("M" + "L".join(ends), stroke=colour, extra="" if factor == 1 else 'stroke-dasharray="5 4"')

    def axes(self) -> list[str]:
        """Draw frame, grid and labels."""
        parts, grid = [], ""
        for power in range(self.low, self.low + self.decades + 1):
            x, y = self.x(10.0**power), self.y(10.0**power)
            grid += f"M{number(x)} {_TOP}v{_PLOT}M{_LEFT} {number(y)}h{_PLOT}"
            label = f"{10.0**power:,.10g} s"
            parts.append(text(x, _TOP + _PLOT + 20, label, size=12, fill=MUTED, anchor="middle"))
            parts.append(text(_LEFT - 8, y + 4, label, size=12, fill=MUTED, anchor="end"))
        middle = _LEFT + _PLOT / 2
        return [
            path(grid, stroke=HAIRLINE),
            rect(_LEFT, _TOP, _PLOT, _PLOT, fill="none", stroke=MUTED),
            *parts,
            text(middle, _TOP + _PLOT + 46, "measured step", size=13, anchor="middle"),
            text(_LEFT, _TOP - 8, "predicted step", size=13),
        ]


def _legend(sources: Mapping[str, int], colours: Mapping[str, str]) -> list[str]:
    left = _LEFT + _PLOT + 32
    parts = []
    for index, (source, count) in enumerate(sources.items()):
        y = _TOP + 16 + 24 * index
        parts.append(path(f"M{left} {y - 4}h0", stroke=colours[source], width=9, extra='stroke-linecap="round"'))
        parts.append(text(left + 14, y, source, size=13))
        parts.append(text(left + 22 + text_width(source, 13), y, f"{count}", size=13, fill=MUTED))
    return parts
