"""Layers by their ids, as MindFormers writes them: ``"4"`` or ``"0-3"``, both ends included."""

import re
from collections.abc import Iterable, Sequence

from evenflow.fields import Fields
from evenflow.language import _

_SPEC = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def layer_ranges(ids: Iterable[int]) -> list[str]:
    """Return ascending ids as the fewest ranges.

    >>> layer_ranges([0, 1, 2, 5, 7, 8])
    ['0-2', '5', '7-8']
    """
    ranges: list[tuple[int, int]] = []
    for layer in ids:
        if ranges and layer == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], layer)
        else:
            ranges.append((layer, layer))
    return [f"{first}-{last}" if last > first else f"{first}" for first, last in ranges]


def range_ends(text: object) -> tuple[int, int] | None:
    """Return the first and the last id of a range; None for a text that is none.

    >>> range_ends("0-3"), range_ends(" 7 "), range_ends("3-0"), range_ends("all")
    ((0, 3), (7, 7), None, None)
    """
    match = _SPEC.fullmatch(str(text).strip())
    if match is None:
        return None
    first = int(match[1])
    last = int(match[2] or first)
    return (first, last) if first <= last else None


def layer_ids(fields: Fields, key: str, value: object) -> Sequence[range]:
    """Return the layers of `value`, a list of ranges in ascending order that stands under `key` or inside it.

    Raises:
        InputError: another value.
    """
    rule = _("must be a list of layers such as '5' or '0-3', in ascending order")
    if value is None:
        return ()
    if not isinstance(value, list):
        raise fields.error(key, rule)
    found: list[range] = []
    for each in value:
        ends = range_ends(each)
        if ends is None or (found and ends[0] < found[-1].stop):
            raise fields.error(key, rule)
        found.append(range(ends[0], ends[1] + 1))
    return found
