"""Offsets and recompute lists by cell ``[chunk][rank]``, as MindFormers counts them. [SAPP guide, Step 5]

A cell holds ``L // cells + offset`` layers. The recompute lists are cumulative: with S = max(select - full, 0) and
C = max(comm - full, 0) of a cell, min(S, C) of its layers are under `both`, and what is left of S or C is under
`select` or `comm`.
"""

from collections.abc import Callable, Sequence

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import BOTH, COMM, FULL, SELECT, Cells, cells

RECOMPUTE_LISTS = ("recompute", "select_recompute", "select_comm_recompute")
"""Keys of the cumulative lists, in the order in which `exclusive_counts` takes them."""

_Table = Sequence[Sequence[int]]
CellName = Callable[[int, int], str]
"""What a chunk and a rank are called in messages."""


def layers_by_cell(offset: _Table, *, num_layers: int, place: str, cell: CellName) -> Cells:
    """Return the layers of every cell, from the offsets.

    `place` names the offsets in messages, and `cell` one of them.

    Raises:
        InputError: offsets that do not sum to the layers that are left over, or a cell with less than none.
    """
    num_chunks, num_ranks = len(offset), len(offset[0])
    per_cell, left_over = divmod(num_layers, num_chunks * num_ranks)
    total = sum(map(sum, offset))
    if total != left_over:
        raise InputError(
            value=total,
            rule=_(
                "must sum to {left_over}, because {num_layers} layers on {num_ranks} ranks x {num_chunks} chunks are "
                "{each} in each cell and {left_over} over",
                left_over=left_over,
                num_layers=num_layers,
                num_ranks=num_ranks,
                num_chunks=num_chunks,
                each=per_cell,
            ),
            place=place,
        )
    for chunk, row in enumerate(offset):
        for rank, extra in enumerate(row):
            if per_cell + extra < 0:
                raise InputError(
                    value=extra,
                    rule=_(
                        "must be {least} or more, because the cell has {count} layers before its offset is added",
                        least=-per_cell,
                        count=per_cell,
                    ),
                    place=f"{place}, {cell(chunk, rank)}",
                )
    return cells([[per_cell + extra for extra in row] for row in offset])


def check_counts(counts: _Table, layers: Cells, *, place: str, cell: CellName) -> None:
    """Refuse a count below zero or above the layers of its cell."""
    for chunk, row in enumerate(counts):
        for rank, count in enumerate(row):
            if not 0 <= count <= layers[chunk][rank]:
                raise InputError(
                    value=count,
                    rule=_("must be from 0 to the {layers} layers of its cell", layers=layers[chunk][rank]),
                    place=f"{place}, {cell(chunk, rank)}",
                )


def exclusive_counts(full: _Table, select: _Table, comm: _Table) -> dict[str, Cells]:
    """Return the layers under exactly one kind, from the cumulative lists; kinds that no layer has are left out."""
    tables: dict[str, list[list[int]]] = {kind: [[0] * len(row) for row in full] for kind in (FULL, BOTH, SELECT, COMM)}
    for chunk, row in enumerate(full):
        for rank, fully in enumerate(row):
            beyond_select, beyond_comm = max(select[chunk][rank] - fully, 0), max(comm[chunk][rank] - fully, 0)
            both = min(beyond_select, beyond_comm)
            counts = {FULL: fully, BOTH: both, SELECT: beyond_select - both, COMM: beyond_comm - both}
            for kind, count in counts.items():
                tables[kind][chunk][rank] = count
    return {kind: cells(table) for kind, table in tables.items() if any(map(any, table))}
