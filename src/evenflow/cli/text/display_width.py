"""How wide a text is on a terminal, where a Chinese character fills two cells, and lines of at most a width."""

import os
import re
import sys
import unicodedata

_OPENING = "([（《〈“‘「『【［"
_CLOSING = ")]，。、；：！？）》〉”’」』】］…—"
_WIDEST = 120
"""Cells of a line of text that can still be read."""
_PIECE = re.compile(r"\s+|[^\s\u2e80-\uffef]+|.")
"""Space, a word in Latin letters, or one character of a script that has no spaces."""


def output_width() -> int | None:
    """Return the columns of what the answer is printed to: ``COLUMNS``, or those of a terminal; None: any number.

    A file and a pipe have no width: all columns of a table go there.
    """
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):  # no terminal, or no file at all
        return None


def display_width(text: str) -> int:
    """Return the cells of a terminal that `text` fills.

    >>> display_width("stage 阶段")
    10
    """
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def text_width(most: int = _WIDEST) -> int:
    """Return how wide lines of text may be: as wide as what they are printed to, and at most so many cells."""
    return min(most, output_width() or most)


def fits_output(text: str) -> bool:
    """Return whether no line of `text` is wider than what it is printed to."""
    width = output_width()
    return width is None or max(map(display_width, text.splitlines()), default=0) <= width


def padded(text: str, width: int, *, left: bool = True) -> str:
    """Return `text` with spaces up to `width` cells, at the left or the right edge of them."""
    spaces = " " * (width - display_width(text))
    return text + spaces if left else spaces + text


def wrapped(text: str, width: int) -> list[str]:
    """Return `text` in lines of at most `width` cells, words and the punctuation at their ends kept together.

    >>> wrapped("每个阶段的层数，见 --layers。", 12)
    ['每个阶段的层', '数，见', '--layers。']
    """
    lines = [""]
    space = ""
    for piece in _unbreakable(text):
        if piece.isspace():
            space = " "
            continue
        if display_width(lines[-1] + space + piece) <= width or not lines[-1]:
            lines[-1] += (space if lines[-1] else "") + piece
        else:
            lines.append(piece)
        space = ""
    return lines


def _unbreakable(text: str) -> list[str]:
    """Return the pieces of `text` that a line may end behind, and the spaces between them."""
    pieces: list[str] = []
    for piece in _PIECE.findall(text):
        joins = pieces and not pieces[-1].isspace() and (piece in _CLOSING or pieces[-1][-1] in _OPENING)
        if joins and not piece.isspace():
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return pieces
