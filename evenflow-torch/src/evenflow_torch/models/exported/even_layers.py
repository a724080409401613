"""Groups a row of pieces into layers of even work with little data crossing between them. [Alpa, §5.2]"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

_TOLERANCE = 1.1
"""Factor by which the heaviest layer may exceed the lightest possible heaviest one, so that less crosses."""


_Best = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seam:
    """The place between two neighbouring pieces of a model, as a place to cut."""

    depth: int
    """Number of calls of modules that a cut interrupts."""
    size_bytes: int
    """Bytes that cross."""

    @property
    def badness(self) -> tuple[int, int]:
        """A key that orders seams: the worse ones interrupt more calls, or, of equally many, let more bytes cross."""
        return self.depth, self.size_bytes


def even_layers(flops: Sequence[int], seams: Sequence[Seam], *, num_layers: int) -> list[tuple[int, int]]:
    """Return the first and end piece of each layer, in order; `seams` are those between neighbouring pieces.

    The heaviest layer is as light as possible, but for a tolerance. Within it the fewest bytes cross in all; then the
    fewest calls are interrupted; then the squares of the work are least. There are as many pieces as layers, or more.
    """
    before = [0, *accumulate(flops)]
    cap = _TOLERANCE * _lightest_heaviest(before, num_layers)
    # A row for each number of layers, with a column for the pieces up to each: the three sums, and where the last
    # layer begins.
    rows: list[list[_Best | None]] = [[(0, 0, 0, 0), *([None] * len(flops))]]
    for _ in range(num_layers):
        rows.append([_best_last(rows[-1], before, seams, end, cap) for end in range(len(before))])
    layers: list[tuple[int, int]] = []
    end = len(flops)
    for row in reversed(rows[1:]):
        best = row[end]
        assert best is not None
        layers.insert(0, (best[3], end))
        end = best[3]
    return layers


def _best_last(
    row: Sequence[_Best | None], before: Sequence[int], seams: Sequence[Seam], end: int, cap: float
) -> _Best | None:
    """Return the best cutting of the pieces up to `end`: a last layer after the best cuttings in `row`."""
    options = []
    for start in range(end - 1, -1, -1):
        work = before[end] - before[start]
        if work > cap:
            break
        best = row[start]
        if best is not None:
            size, depth = (seams[start - 1].size_bytes, seams[start - 1].depth) if start else (0, 0)
            options.append((best[0] + size, best[1] + depth, best[2] + work**2, start))
    return min(options, default=None)


def _lightest_heaviest(before: Sequence[int], num_layers: int) -> int:
    """Return the least possible work of the heaviest of `num_layers` layers; `before` holds prefix sums of work."""

    def suffices(most: int) -> bool:
        start = 0
        for _ in range(num_layers):
            start = bisect_right(before, before[start] + most) - 1
        return start == len(before) - 1

    return bisect_left(range(before[-1] + 1), True, key=suffices)
