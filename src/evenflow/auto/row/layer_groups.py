"""Joins neighbouring pieces of a model into layers; no torch in here.

pieces of a model  E | a m a m a m | n O      a, m: attention and feed-forward of a block; E, n, O: the ends
repetition             a m a m a m            of the period a m
layers             E |  am  am  am | nO       head, body, tail
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

from evenflow.auto.row.even_layers import Seam, even_layers

Span = tuple[int, int]
"""First piece, and the first one behind."""

_LIGHT = Fraction(1, 10)
"""The least share of an even layer's work that makes a layer of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of the model that is not cut."""

    key: Hashable
    """Key that is equal for pieces that are equal but for values."""
    flops: int
    is_trained: bool
    """A layer needs a piece with parameters to train."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Layers as spans of pieces; head and tail are too light to be layers of the body."""

    head: Span | None
    body: tuple[Span, ...]
    tail: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repetition:
    """Equal groups of pieces, one behind the other."""

    first: int
    period: int
    count: int

    @property
    def end(self) -> int:
        """The first piece behind it."""
        return self.first + self.period * self.count


def group_layers(pieces: Sequence[Piece], seams: Sequence[Seam], *, most_even_layers: int) -> Grouping:
    """Group pieces into equal layers where they repeat themselves, and into layers of even work elsewhere.

    The even layers are as large as if the whole model were cut into `most_even_layers` of them. At least one piece is
    to be trained; `seams` are those between neighbours.
    """
    return _Grouper(pieces=tuple(pieces), seams=tuple(seams), most_even_layers=most_even_layers).grouping()


@dataclass(frozen=True, kw_only=True)
class _Grouper:
    pieces: tuple[Piece, ...]
    seams: tuple[Seam, ...]
    most_even_layers: int

    @cached_property
    def before(self) -> list[int]:
        """The work of all pieces before each one, and of all."""
        return [0, *accumulate(piece.flops for piece in self.pieces)]

    @cached_property
    def even_flops(self) -> Fraction:
        return Fraction(self.before[-1], self.most_even_layers)

    def flops(self, span: Span) -> int:
        return self.before[span[1]] - self.before[span[0]]

    def is_trained(self, span: Span) -> bool:
        return any(piece.is_trained for piece in self.pieces[slice(*span)])

    def grouping(self) -> Grouping:
        found = sorted(self.repetitions((0, len(self.pieces))), key=lambda one: one.first)
        blocks = [list(self.repeated(one)) for one in found]
        # Elsewhere layers are no finer than blocks.
        even_flops = max([self.even_flops, *(Fraction(self.flops(layer)) for block in blocks for layer in block)])
        bounds = [0, *(place for one in found for place in (one.first, one.end)), len(self.pieces)]
        stretches = [list(self.even(span, even_flops)) for span in zip(bounds[::2], bounds[1::2], strict=True)]
        layers = stretches[0]
        for block, behind in zip(blocks, stretches[1:], strict=True):
            layers = [*layers, *block, *behind]
        layers = self.joined(layers, [self.is_trained(span) for span in layers])
        has_head = has_tail = False
        if found and len(layers) > 1:
            has_head = layers[0][1] == found[0].first and self.flops(layers[0]) <= self.flops(layers[1])
            has_tail = layers[-1][0] == found[-1].end and self.flops(layers[-1]) <= self.flops(layers[-2])
        return Grouping(
            head=layers[0] if has_head else None,
            body=tuple(layers[has_head : len(layers) - has_tail]),
            tail=layers[-1] if has_tail else None,
        )

    def joined(self, spans: Sequence[Span], fit: Sequence[bool]) -> list[Span]:
        """Join unfit spans, each to the neighbour across the worse of its seams, until every span has a fit one."""
        left = [(span, is_fit) for span, is_fit in zip(spans, fit, strict=True)]
        index = 0
        while index < len(left):
            (first, end), is_fit = left[index]
            if is_fit or len(left) == 1:
                index += 1
                continue
            behind = self.seams[first - 1].badness if index else (-1, -1)
            ahead = self.seams[end - 1].badness if index + 1 < len(left) else (-1, -1)
            index -= behind >= ahead
            (one, one_fit), (other, other_fit) = left[index : index + 2]
            left[index : index + 2] = [((one[0], other[1]), one_fit or other_fit)]
        return [span for span, _ in left]

    def repetitions(self, span: Span) -> Iterator[_Repetition]:
        """The repetition with the most work, then those on either side of it; of too little work none.

        Of those with equal work the one of the shortest period, whose cuts interrupt the fewest calls.
        """
        best = max(
            self.candidates(span),
            key=lambda one: (self.flops((one.first, one.end)), -one.period, -self.depth(one), -one.first),
            default=None,
        )
        if best is not None and self.flops((best.first, best.end)) >= self.even_flops:
            yield best
            yield from self.repetitions((span[0], best.first))
            yield from self.repetitions((best.end, span[1]))

    def candidates(self, span: Span) -> Iterator[_Repetition]:
        """All repetitions: for every period, in each run of pieces that equal those a period later, at any offset."""
        first, end = span
        for period in range(1, (end - first) // 2 + 1):
            start = first
            for place in range(first, end - period + 1):
                if place < end - period and self.pieces[place].key == self.pieces[place + period].key:
                    continue
                length = place - start + period
                count = length // period
                if count > 1 and self.is_trained((start, start + period)):
                    for offset in range(length % period + 1):
                        yield _Repetition(first=start + offset, period=period, count=count)
                start = place + 1

    def depth(self, one: _Repetition) -> int:
        places = range(one.first, one.end + 1, one.period)
        return sum(self.seams[place - 1].depth for place in places if 0 < place < len(self.pieces))

    def repeated(self, one: _Repetition) -> Iterator[Span]:
        """A layer for each group; where cuts inside of it interrupt no more calls than those between groups, one for
        each piece that is not light.
        """
        end = one.first + one.period
        around = self.seams[end - 1].depth
        inside = [place for place in range(one.first + 1, end) if self.seams[place - 1].depth <= around]
        pieces = list(pairwise([one.first, *inside, end]))
        least = _LIGHT * max(map(self.flops, pieces))
        fit = [self.is_trained(piece) and self.flops(piece) >= least for piece in pieces]
        for index in range(one.count):
            for first, last in self.joined(pieces, fit):
                yield first + index * one.period, last + index * one.period

    def even(self, span: Span, even_flops: Fraction) -> Iterator[Span]:
        """Layers of even work for pieces that do not repeat themselves, as many as their work is worth."""
        if span[0] == span[1]:
            return
        singles = [(place, place + 1) for place in range(*span)]
        pieces = self.joined(singles, [self.is_trained(one) for one in singles])
        worth = -(-self.flops(span) // even_flops) if even_flops else 0
        found = even_layers(
            [self.flops(piece) for piece in pieces],
            [self.seams[end - 1] for _, end in pieces[:-1]],
            num_layers=max(1, min(len(pieces), worth)),
        )
        layers = [(pieces[first][0], pieces[end - 1][1]) for first, end in found]
        yield from self.joined(layers, [self.flops(layer) >= _LIGHT * even_flops for layer in layers])
