"""All configurations of a search as a picture inside a page: the step over memory, a dot each, and the proven bound."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from xml.sax.saxutils import quoteattr

from evenflow.draw.parts.axes import MEMORY_UNITS, show_memory, show_time, time_unit
from evenflow.draw.parts.ladder import Frame, factor_ticks, padded, ticks
from evenflow.draw.svg_elements import clean, number, text_width
from evenflow.language import _

_FRAME = Frame(width=900, height=330, left=78, right=24, top=52, bottom=44)
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = _FRAME
_SHADES = ("#2f6fd6", "#e07b39", "#1d8f6e", "#a64ac9", "#b8860b", "#d1476b", "#4b6a88", "#6b8e23")
"""Of degrees, the smallest first; beyond them they begin anew."""
_BOUND, _RECIPE, _LIMIT = "#2a9d5c", "#d1478c", "#d64545"
"""Colours that can be read on white and on black."""
_GIGABYTE, _GB = MEMORY_UNITS[1]
_DOT = 4
_ROOM = 0.12
"""Share of the axis of steps that stays empty at each of its ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationDot:
    """A configuration with the best plan known."""

    step_ns: int
    memory_bytes: int
    """Of its fullest rank."""
    degree: int
    """What it is coloured by."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations:
    """What a search looked at."""

    dots: tuple[ConfigurationDot, ...]
    """At least one."""
    degree_name: str
    """What the colours are."""
    chosen: ConfigurationDot
    recipe: ConfigurationDot | None = None
    """What somebody runs now."""
    bound_ns: int = 0
    """No configuration has a shorter step, by proof; 0 where nothing is proven."""
    limit_bytes: int | None = None
    note: str = ""
    """What has no dot, and why."""


def configurations_svg(shown: Configurations) -> str:
    """Return the picture as an ``<svg>`` element that takes the colour of the text around it, with words for every dot.

    Steps are on an axis of factors, and dots that would lie on each other are drawn once.
    """
    return "\n".join(_Picture(shown).lines())


class _Picture:
    def __init__(self, shown: Configurations) -> None:
        self._shown = shown
        everything = [*shown.dots, shown.chosen, *filter(None, [shown.recipe])]
        memory = [dot.memory_bytes for dot in everything] + [shown.limit_bytes or shown.chosen.memory_bytes]
        steps = [dot.step_ns for dot in everything] + [shown.bound_ns or shown.chosen.step_ns]
        self._memory = padded(min(memory), max(memory))
        room = max(max(steps) / max(min(steps), 1), 1.1) ** _ROOM  # the words of the bound stand below it
        self._steps = (max(min(steps), 1) / room, max(steps) * room)
        self._degrees = sorted({dot.degree for dot in everything})

    def lines(self) -> Iterator[str]:
        spoken = quoteattr(_("steps of all configurations over their memory"))
        yield (
            f'<svg class="curve configurations" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
            f'role="img" aria-label={spoken} font-size="12" fill="currentColor">'
        )
        yield from self._legend()
        yield from self._axes()
        if self._shown.limit_bytes is not None:
            x = number(self._x(self._shown.limit_bytes))
            yield f'<path d="M{x} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="{_LIMIT}" stroke-dasharray="4 3"/>'
            yield f'<text x="{x}" y="{_TOP - 4}" text-anchor="end" fill="{_LIMIT}">{clean(_("limit"))}</text>'
        if self._shown.bound_ns:
            yield from self._bound()
        yield from self._dots(self._shown.dots)
        yield from self._marked()
        yield "</svg>"

    def _x(self, size_bytes: float) -> float:
        return _FRAME.x(size_bytes, self._memory)

    def _y(self, step_ns: float) -> float:
        low, high = self._steps
        return _HEIGHT - _BOTTOM - log(step_ns / low) / log(high / low) * (_HEIGHT - _TOP - _BOTTOM)

    def _shade(self, degree: int) -> str:
        return _SHADES[self._degrees.index(degree) % len(_SHADES)]

    def _legend(self) -> Iterator[str]:
        x = float(_LEFT)
        yield f'<text x="{number(x)}" y="14">{clean(self._shown.degree_name)}</text>'
        x += text_width(self._shown.degree_name, 12) + 12
        for degree in self._degrees:
            yield f'<circle cx="{number(x)}" cy="10" r="{_DOT}" fill="{self._shade(degree)}"/>'
            yield f'<text x="{number(x + 8)}" y="14">{degree}</text>'
            x += text_width(str(degree), 12) + 26

    def _axes(self) -> Iterator[str]:
        unit_ns, unit = time_unit(round(self._steps[1]))
        yield from _FRAME.axes(
            ((self._y(value), label) for value, label in factor_ticks(self._steps, unit_ns)),
            ((self._x(value), label) for value, label in ticks(self._memory, _GIGABYTE)),
            up_name=_("step, {unit}", unit=unit),
            along_name=_("memory of the fullest rank, {unit}", unit=_GB),
            name_y=_TOP - 12,
        )

    def _bound(self) -> Iterator[str]:
        y = self._y(self._shown.bound_ns)
        words = _("no step is shorter (proven): {step}", step=show_time(self._shown.bound_ns))
        yield (
            f'<path class="bound" d="M{_LEFT} {number(y)}H{_WIDTH - _RIGHT}" stroke="{_BOUND}" stroke-width="1.5" '
            'stroke-dasharray="7 4"/>'
        )
        yield f'<text x="{_LEFT + 6}" y="{number(y + 15)}" fill="{_BOUND}">{clean(words)}</text>'

    def _dots(self, dots: Sequence[ConfigurationDot]) -> Iterator[str]:
        drawn = set()
        for dot in dots:
            place = (round(2 * self._x(dot.memory_bytes)), round(2 * self._y(dot.step_ns)), dot.degree)
            if place not in drawn:
                drawn.add(place)
                yield self._dot(dot, f'r="{_DOT}" fill="{self._shade(dot.degree)}" fill-opacity=".75"', dot.words)

    def _marked(self) -> Iterator[str]:
        named = [(self._shown.chosen, _("chosen"), "currentColor", "chosen")]
        if self._shown.recipe is not None:
            named.append((self._shown.recipe, _("yours"), _RECIPE, "recipe"))
        for dot, word, colour, kind in named:
            style = f'class="{kind}" r="{_DOT + 4}" fill="none" stroke="{colour}" stroke-width="2"'
            yield self._dot(dot, style, f"{word}: {dot.words}")
            x, y = self._x(dot.memory_bytes), self._y(dot.step_ns)
            is_left = x > _WIDTH / 2
            anchor = ' text-anchor="end"' if is_left else ""
            words = f"{word}: {show_time(dot.step_ns)}"
            place = f'x="{number(x - 14 if is_left else x + 14)}" y="{number(y - 8)}"'
            yield f'<text {place}{anchor} font-weight="600" fill="{colour}">{clean(words)}</text>'

    def _dot(self, dot: ConfigurationDot, style: str, words: str) -> str:
        values = f"{show_time(dot.step_ns)}, {show_memory(dot.memory_bytes, (_GIGABYTE, _GB))}"
        place = f'cx="{number(self._x(dot.memory_bytes))}" cy="{number(self._y(dot.step_ns))}"'
        return f'<circle {place} {style} pointer-events="all"><title>{clean(f"{words}: {values}")}</title></circle>'
