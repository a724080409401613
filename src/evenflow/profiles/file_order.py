"""The order of files that are named by number."""

import re
from pathlib import Path


def by_number(path: Path | str) -> list[tuple[int, int | str]]:
    """Return a key that sorts by the numbers in a name.

    >>> sorted(["rank_10.log", "rank_2.log"], key=by_number)
    ['rank_2.log', 'rank_10.log']
    """
    pieces = re.split(r"([0-9]{1,18})", str(path))
    return [(0, int(piece)) if piece.isascii() and piece.isdigit() else (1, piece) for piece in pieces]
