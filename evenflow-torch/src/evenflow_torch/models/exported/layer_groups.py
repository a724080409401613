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

from evenflow_torch.models.exported.even_layers import Seam, even_layers

Span = tuple[int, int]
"""The first piece of a stretch, and the first one after it."""

EVEN_LAYERS_PER_DEVICE = 4
"""Layers per device of a model that does not repeat itself: enough for even stages, few enough to solve each."""

_LIGHT = Fraction(1, 10)
"""The least share of an even layer's work that makes a layer of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPiece:
    """A stretch of the model between two neighbouring places where it can be cut."""

    key: Hashable
    """Key that is equal for pieces that are equal but for values."""
    flops: int
    is_trained: bool
    """A layer needs a piece with parameters to train."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """The layers, as spans of pieces; head and tail are too light to count as layers of the body."""

    head: Span | None
    body: tuple[Span, ...]
    tail: Span | None

    @property
    def spans(self) -> list[Span]:
        """Head, body and tail in order."""
        return [span for span in (self.head, *self.body, self.tail) if span is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repetition:
    """Equal groups of pieces that follow one another, such as the blocks of a transformer."""

    first: int
    period: int
    count: int

    @property
    def end(self) -> int:
        """The index of the first piece after the repetition."""
        return self.first + self.period * self.count


def group_layers(pieces: Sequence[GraphPiece], seams: Sequence[Seam], *, most_even_layers: int) -> Grouping:
    """Group pieces into equal layers where they repeat, and into layers of even work elsewhere.

    The even layers are as large as if the whole model were cut into `most_even_layers` of them. At least one piece is
    to be trained; `seams` are those between neighbours.
    """
    return _Grouper(pieces=tuple(pieces), seams=tuple(seams), most_even_layers=most_even_layers).grouping()


def group_blocks(pieces: Sequence[GraphPiece], seams: Sequence[Seam], *, num_layers: int) -> Grouping | None:
    """Return so many equal layers, those with the most work, whatever comes before and after them; None if none are."""
    span = 0, len(pieces)
    grouper = _Grouper(pieces=tuple(pieces), seams=tuple(seams), most_even_layers=1)
    best = max(
        (run for run in grouper.candidates(span) if run.count == num_layers),
        key=grouper.worth,
        default=None,
    )
    if best is None:
        return None
    return Grouping(
        head=(0, best.first) if best.first else None,
        body=tuple((place, place + best.period) for place in range(best.first, best.end, best.period)),
        tail=(best.end, len(pieces)) if best.end < len(pieces) else None,
    )


@dataclass(frozen=True, kw_only=True)
class _Grouper:
    pieces: tuple[GraphPiece, ...]
    seams: tuple[Seam, ...]
    most_even_layers: int

    @cached_property
    def before(self) -> list[int]:
        """Prefix sums of the work of pieces: before each piece, and of all."""
        return [0, *accumulate(piece.flops for piece in self.pieces)]

    @cached_property
    def even_flops(self) -> Fraction:
        return Fraction(self.before[-1], self.most_even_layers)

    def flops(self, span: Span) -> int:
        return self.before[span[1]] - self.before[span[0]]

    def is_trained(self, span: Span) -> bool:
        return any(piece.is_trained for piece in self.pieces[slice(*span)])

    def grouping(self) -> Grouping:
        repetitions = sorted(self.repetitions((0, len(self.pieces))), key=lambda run: run.first)
        blocks = [list(self.repeated(repetition)) for repetition in repetitions]
        # Elsewhere layers are no finer than blocks.
        even_flops = max([self.even_flops, *(Fraction(self.flops(layer)) for block in blocks for layer in block)])
        bounds = [0, *(place for run in repetitions for place in (run.first, run.end)), len(self.pieces)]
        stretches = [list(self.even(span, even_flops)) for span in zip(bounds[::2], bounds[1::2], strict=True)]
        layers = stretches[0]
        for block, behind in zip(blocks, stretches[1:], strict=True):
            layers = [*layers, *block, *behind]
        layers = self.joined(layers, [self.is_trained(span) for span in layers])
        has_head = has_tail = False
        if repetitions and len(layers) > 1:
            has_head = layers[0][1] == repetitions[0].first and self.flops(layers[0]) <= self.flops(layers[1])
            has_tail = layers[-1][0] == repetitions[-1].end and self.flops(layers[-1]) <= self.flops(layers[-2])
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
            (before, before_fit), (after, after_fit) = left[index : index + 2]
            left[index : index + 2] = [((before[0], after[1]), before_fit or after_fit)]
        return [span for span, _ in left]

    def repetitions(self, span: Span) -> Iterator[_Repetition]:
        """Yield the repetition with the most work, then those on either side of it, but none with too little work.

        Of those with equal work the one of the shortest period, whose cuts interrupt the fewest calls.
        """
        best = max(self.candidates(span), key=self.worth, default=None)
        if best is not None and self.flops((best.first, best.end)) >= self.even_flops:
            yield best
            yield from self.repetitions((span[0], best.first))
            yield from self.repetitions((best.end, span[1]))

    def candidates(self, span: Span) -> Iterator[_Repetition]:
        """Yield all repetitions: of every period, at every offset in each run of pieces that repeat after it."""
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

    def worth(self, repetition: _Repetition) -> tuple[int, ...]:
        """Return a key that is largest for the repetition to take."""
        work = self.flops((repetition.first, repetition.end))
        return work, -repetition.period, -self.depth(repetition), -repetition.first

    def depth(self, repetition: _Repetition) -> int:
        places = range(repetition.first, repetition.end + 1, repetition.period)
        return sum(self.seams[place - 1].depth for place in places if 0 < place < len(self.pieces))

    def repeated(self, repetition: _Repetition) -> Iterator[Span]:
        """Yield the layers of a repetition: one for each group, or several where a group has good cuts inside.

        Cuts inside are good if they interrupt no more calls than those between groups; then each piece that is not
        light is a layer.
        """
        end = repetition.first + repetition.period
        around = self.seams[end - 1].depth
        inside = [place for place in range(repetition.first + 1, end) if self.seams[place - 1].depth <= around]
        pieces = list(pairwise([repetition.first, *inside, end]))
        least = _LIGHT * max(map(self.flops, pieces))
        fit = [self.is_trained(piece) and self.flops(piece) >= least for piece in pieces]
        for index in range(repetition.count):
            for first, last in self.joined(pieces, fit):
                yield first + index * repetition.period, last + index * repetition.period

    def even(self, span: Span, even_flops: Fraction) -> Iterator[Span]:
        """Yield layers of even work for pieces that do not repeat; the more work, the more layers."""
        if span[0] == span[1]:
            return
        singles = [(place, place + 1) for place in range(*span)]
        pieces = self.joined(singles, [self.is_trained(single) for single in singles])
        worth = -(-self.flops(span) // even_flops) if even_flops else 0
        evened = even_layers(
            [self.flops(piece) for piece in pieces],
            [self.seams[end - 1] for _, end in pieces[:-1]],
            num_layers=max(1, min(len(pieces), worth)),
        )
        layers = [(pieces[first][0], pieces[end - 1][1]) for first, end in evened]
        yield from self.joined(layers, [self.flops(layer) >= _LIGHT * even_flops for layer in layers])
