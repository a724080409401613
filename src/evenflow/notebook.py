"""Values that show themselves, in a notebook or as text: each asks here, and a room above says what it looks like."""

from collections.abc import Callable

Way = Callable[[object], str | None]
_ways: list[Way] = []
_texts: list[Way] = []


class InNotebook:
    """A value that notebooks show as HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """Return HTML for a notebook; None where nobody has said what the value looks like."""
        return _ways[-1](self) if _ways else None


def show_with(way: Way) -> None:
    """Register `way`, which turns values into HTML."""
    _ways.append(way)


def text_of(value: object) -> str | None:
    """Return the text that a value is printed as; None where nobody has said what it looks like."""
    return _texts[-1](value) if _texts else None


def print_with(way: Way) -> None:
    """Register `way`, which turns values into text."""
    _texts.append(way)
