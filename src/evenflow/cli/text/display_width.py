"""How wide a text is on a terminal, where a Chinese character fills two cells, and lines of at most a width."""

import re
import unicodedata

_OPENING = "([（《〈“‘「『【［"
_CLOSING = ")]，。、；：！？）》〉”’」』】］…—"
_PIECE = re.compile(r"\s+|[^\s\u2e80-\uffef]+|.")
"""Space, a word in Latin letters, or one character of a script that has no spaces."""


def display_width(text: str) -> int:
    """Return the cells of a terminal that `text` fills.

    >>> display_width("stage 阶段")
    10
    """
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


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
