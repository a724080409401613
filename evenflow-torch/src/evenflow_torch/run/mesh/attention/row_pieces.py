"""Which rows of the query a device has, and which of them attend to which keys; no tensors in here.

contiguous    device i of n has the i-th of n equal parts
mirrored      of each part the second half is that of its mirror image, n - 1 - i: with a causal mask, whose keys
              grow with the row, all devices then have as many keys
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSpan:
    """Neighbouring positions: where they begin and end in the sequence, and where they lie on the device."""

    begin: int
    end: int
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPiece:
    """Rows, as places on the device, that attend to keys, as places in what the device has of these."""

    rows: slice
    keys: slice
    first_key: int
    """The place of the first key in the sequence."""
    is_causal: bool = False
    """As many rows as keys, at the same positions."""


def first_half(length: int) -> int:
    """Return how many of a device's rows stay with it when the others are exchanged."""
    return length - length // 2


def spans_of(device: int, num_devices: int, length: int, *, is_mirrored: bool) -> tuple[RowSpan, ...]:
    """Return the positions that a device has; `length` are those of each device."""
    own = device * length
    if not is_mirrored:
        return (RowSpan(begin=own, end=own + length, at=0),)
    half, other = first_half(length), (num_devices - 1 - device) * length
    return (
        RowSpan(begin=own, end=own + half, at=0),
        RowSpan(begin=other + half, end=other + length, at=half),
    )


def pieces(rows: tuple[RowSpan, ...], keys: tuple[RowSpan, ...], *, is_causal: bool) -> Iterator[RowPiece]:
    """Yield the pieces of attention to compute, each of them full or a triangle on the diagonal."""
    for row in rows:
        for key in keys:
            last = min(key.end, row.begin) if is_causal else key.end
            if last > key.begin and row.end > row.begin:
                yield RowPiece(
                    rows=_places(row, row.begin, row.end),
                    keys=_places(key, key.begin, last),
                    first_key=key.begin,
                )
            begin, end = max(row.begin, key.begin), min(row.end, key.end)
            if is_causal and end > begin:
                yield RowPiece(
                    rows=_places(row, begin, end), keys=_places(key, begin, end), first_key=begin, is_causal=True
                )


def _places(span: RowSpan, begin: int, end: int) -> slice:
    return slice(span.at + begin - span.begin, span.at + end - span.begin)
