"""The forms in which MindFormers takes a count of first layers for every cell. [MindFormers: LayerSetting]

true, false            every layer, or none
[2, true, 0]           of each rank, dealt out over its chunks in turn, as far as they have layers
[[1, true], false]     of each cell, or of a whole chunk; at most its layers
"""

from collections.abc import Mapping, Sequence

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model import Cells, cells


def counts_by_cell(fields: Fields, key: str, layers: Cells) -> Cells:
    """Return the counts under `key` for cells that hold `layers`, ``[chunk][rank]``; zeros for an absent key.

    Raises:
        InputError: a value of none of the forms, or for other numbers of chunks and ranks.
    """
    return _counts(fields.values.get(key, False), fields, key, layers)


def pattern_counts(fields: Fields, key: str, layers: Cells) -> tuple[Cells, tuple[str, ...]]:
    """Return the counts under `key` and the patterns of operators that they are for; none for MindFormers' own.

    A list of patterns is for every layer, and a mapping gives each pattern its counts.

    Raises:
        InputError: as `counts_by_cell` does, and patterns with different counts, which are several kinds of layers.
    """
    value = fields.values.get(key, False)
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return layers, tuple(value)
    if not isinstance(value, Mapping):
        return _counts(value, fields, key, layers), ()
    tables = {_counts(each, fields, key, layers) for each in value.values()}
    if len(tables) > 1:
        raise InputError(
            value=value,
            rule=_("must have the same counts for every pattern, since a plan has one kind of layers for all of them"),
            place=fields.place(key),
        )
    return next(iter(tables), _none(layers)), tuple(map(str, value))


def counts_by_pattern(fields: Fields, key: str, layers: Cells) -> dict[str, Cells]:
    """Return the counts under each pattern of the mapping under `key`; raises InputError as `counts_by_cell` does."""
    value = fields.values[key]
    assert isinstance(value, Mapping)
    return {str(pattern): _counts(counts, fields, key, layers) for pattern, counts in value.items()}


def _counts(value: object, fields: Fields, key: str, layers: Cells) -> Cells:
    if value is None or value == 0 or isinstance(value, bool):
        return layers if value else _none(layers)
    num_chunks, num_ranks = len(layers), len(layers[0])
    is_flat = isinstance(value, list) and all(map(_is_count, value))  # also a list of words alone
    if isinstance(value, list) and is_flat and len(value) == num_ranks:
        return _dealt(value, layers)
    if isinstance(value, list) and not is_flat and len(value) == num_chunks:
        rows = [_row(row, held) for row, held in zip(value, layers, strict=True)]
        if all(row is not None for row in rows):
            return cells([row for row in rows if row is not None])
    rule = _(
        "must be true, false, a count for each of the {num_ranks} ranks, or a list of these for each of the "
        "{num_chunks} chunks",
        num_ranks=num_ranks,
        num_chunks=num_chunks,
    )
    raise InputError(value=value, rule=rule, place=fields.place(key))


def _row(row: object, held: Sequence[int]) -> list[int] | None:
    """Return the counts of one chunk, whose cells hold `held` layers; None for something else."""
    if isinstance(row, bool):
        return [each if row else 0 for each in held]
    if isinstance(row, list) and len(row) == len(held) and all(map(_is_count, row)):
        return [_limited(count, each) for count, each in zip(row, held, strict=True)]
    return None


def _dealt(counts: Sequence[int], layers: Cells) -> Cells:
    """Return the counts of every rank dealt out over its chunks, one layer to each that has one left in turn."""
    dealt = [[0] * len(counts) for _ in layers]
    for rank, count in enumerate(counts):
        held = [row[rank] for row in layers]
        left = _limited(count, sum(held))
        while left:
            for chunk, each in enumerate(held):
                if left and dealt[chunk][rank] < each:
                    dealt[chunk][rank] += 1
                    left -= 1
    return cells(dealt)


def _limited(count: int, most: int) -> int:
    return most if count is True else min(count, most)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _none(layers: Cells) -> Cells:
    return cells([[0] * len(row) for row in layers])
