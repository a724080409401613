"""The memory curve as a picture inside a page: the shortest step over the memory of every rank, in stairs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from evenflow.draw.parts.axes import MEMORY_UNITS, show_time, time_unit
from evenflow.draw.parts.ladder import Frame, padded, ticks
from evenflow.draw.svg_elements import clean, number
from evenflow.language import _

_FRAME = Frame(width=720, height=260, left=78, right=24, top=26, bottom=44)
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = _FRAME
_STAIRS, _OPEN, _LIMIT = "#2f6fd6", "none", "#c2410c"
_GIGABYTE, _GB = MEMORY_UNITS[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A plan of the curve."""

    limit_bytes: int
    """The memory of every rank that the plan needs."""
    step_ns: int
    is_proven: bool
    """Whether no plan with so much memory is shorter, by proof."""
    timeline: int | None = None
    """Number of its timeline on the page; None where it has none."""
    change: str = ""
    """What makes the first plan of the page this one there, as the page's addresses write it; empty: nothing does."""


def memory_curve_svg(points: Sequence[CurvePoint], *, limit_bytes: int) -> str:
    """Return the curve as an ``<svg>`` element that takes the colour of the text around it, with words for every point.

    `points` come with rising memory and falling steps, at least one; `limit_bytes` is the limit of the plan shown.
    """
    return "\n".join(_Picture(points, limit_bytes).lines())


class _Picture:
    def __init__(self, points: Sequence[CurvePoint], limit_bytes: int) -> None:
        self._points, self._limit = points, limit_bytes
        memory = [*(point.limit_bytes for point in points), limit_bytes]
        steps = [point.step_ns for point in points]
        self._memory = padded(min(memory), max(memory))
        self._steps = padded(min(steps), max(steps))

    def _x(self, size_bytes: float) -> float:
        return _FRAME.x(size_bytes, self._memory)

    def _y(self, step_ns: float) -> float:
        low, high = self._steps
        return _HEIGHT - _BOTTOM - (step_ns - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    def lines(self) -> Iterator[str]:
        spoken = quoteattr(_("step over the memory of every rank"))
        yield (
            f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
            f'aria-label={spoken} font-size="12" fill="currentColor">'
        )
        yield from self._axes()
        yield from self._limit_line()
        yield f'<path d="{self._stairs()}" fill="none" stroke="{_STAIRS}" stroke-width="2"/>'
        yield from (self._dot(point) for point in self._points)
        yield "</svg>"

    def _axes(self) -> Iterator[str]:
        unit_ns, unit = time_unit(round(self._steps[1]))
        yield from _FRAME.axes(
            ((self._y(value), label) for value, label in ticks(self._steps, unit_ns)),
            ((self._x(value), label) for value, label in ticks(self._memory, _GIGABYTE)),
            up_name=_("step, {unit}", unit=unit),
            along_name=_("memory of every rank, {unit}", unit=_GB),
            name_y=14,
        )

    def _limit_line(self) -> Iterator[str]:
        x = self._x(self._limit)
        is_left = x > _WIDTH / 2
        yield (
            f'<path d="M{number(x)} {_TOP - 6}V{_HEIGHT - _BOTTOM}" stroke="{_LIMIT}" stroke-dasharray="4 3" '
            'stroke-width="1.5"/>'
        )
        anchor = ' text-anchor="end"' if is_left else ""
        place = f'x="{number(x - 6 if is_left else x + 6)}" y="{_TOP + 2}"'
        yield f'<text {place}{anchor} fill="{_LIMIT}">{clean(_("limit of this plan"))}</text>'

    def _stairs(self) -> str:
        first, *others = self._points
        parts = [f"M{number(self._x(first.limit_bytes))} {number(self._y(first.step_ns))}"]
        parts += [f"H{number(self._x(point.limit_bytes))}V{number(self._y(point.step_ns))}" for point in others]
        return "".join([*parts, f"H{_WIDTH - _RIGHT}"])

    def _dot(self, point: CurvePoint) -> str:
        size = f"{point.limit_bytes / _GIGABYTE:,.2f} {_GB}"
        words = _("{size} on every rank: {step}", size=size, step=show_time(point.step_ns))
        proof = "" if point.is_proven else _(" (the best found)")
        fill = _STAIRS if point.is_proven else _OPEN
        place = f'cx="{number(self._x(point.limit_bytes))}" cy="{number(self._y(point.step_ns))}"'
        address = "" if point.timeline is None else f"#plan={point.timeline}"
        if point.change and not address:
            address = f"#plan=0&if={point.change}"
        radius = 6 if address else 4
        dot = f'<circle {place} r="{radius}" fill="{fill}" stroke="{_STAIRS}" stroke-width="1.5" pointer-events="all">'
        dot = f"{dot}<title>{clean(words + proof)}</title></circle>"
        return f"<a href={quoteattr(address)}>{dot}</a>" if address else dot
