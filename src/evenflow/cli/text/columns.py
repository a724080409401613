"""The columns of a table, as many as there is room for."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from evenflow.cli.text.display_width import display_width, padded, wrapped
from evenflow.language import _

_BETWEEN = "  "
_LEAST_TEXT = 16
"""Cells that a column of text needs to go on below itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column: its title, then a cell for each row."""

    cells: Sequence[str]
    is_left: bool
    """Whether cells are flush left; else they are flush right."""

    @property
    def width(self) -> int:
        """Cells of a terminal that the column fills."""
        return max(map(display_width, self.cells))


def fitted_columns(columns: Sequence[Column], limit: int | None, *, leaving: Sequence[Column]) -> str:
    """Return a table of at most `limit` cells, as far as that can be, without those of the columns `leaving` that are
    too many; None: no limit.
    """
    shown, away = list(columns), list(leaving)
    while limit is not None and away and _width(shown) > limit:
        shown.remove(away.pop(0))
    table = _wrapping(shown, limit)
    gone = [column.cells[0] for column in columns if column not in shown]
    if not gone or limit is None:
        return table
    note = _("(left out at {width} columns: {names})", width=limit, names=", ".join(filter(None, gone)))
    return "\n".join([table, *wrapped(note, limit)])


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + len(_BETWEEN) * (len(columns) - 1)


def _wrapping(columns: Sequence[Column], limit: int | None) -> str:
    """Return the table; where it is too wide, the last column goes on below itself if it is one of text."""
    last, room = columns[-1], 0
    if limit is not None and _width(columns) > limit and last.is_left:
        room = limit - (_width(columns) - last.width)
    lines = []
    for row in zip(*(column.cells for column in columns), strict=True):
        texts = [padded(text, column.width, left=column.is_left) for text, column in zip(row, columns, strict=True)]
        if room >= _LEAST_TEXT:
            begin = "".join(text + _BETWEEN for text in texts[:-1])
            below = zip_longest([begin], wrapped(row[-1], room), fillvalue=" " * display_width(begin))
            lines += [(start + text).rstrip() for start, text in below]
        else:
            lines.append(_BETWEEN.join(texts).rstrip())
    return "\n".join(lines)
