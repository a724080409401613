"""A user's own cut of the layers: dealt out over the chunks, and checked."""

from collections.abc import Sequence

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.plan import Cells, cells


def deal_layers(per_rank: Sequence[int], *, num_chunks: int) -> Cells:
    """Return the layers of every rank dealt over its chunks in turn. [uneven VPP talk, layers of each device]

    >>> deal_layers([5, 3], num_chunks=2)
    ((3, 2), (2, 1))
    """
    return cells([[-(-(count - chunk) // num_chunks) for count in per_rank] for chunk in range(num_chunks)])


def check_split(
    layers: Cells, *, num_layers: int, num_ranks: int, num_chunks: int, min_layers: int, place: str = "layers"
) -> None:
    """Raise InputError unless `layers` ``[chunk][rank]`` has these sizes, `min_layers` per cell and `num_layers`."""
    if len(layers) != num_chunks or any(len(row) != num_ranks for row in layers):
        raise InputError(
            value=[list(row) for row in layers],
            rule=_(
                "must have a row for each chunk and a number for each rank, {num_chunks} x {num_ranks}",
                num_chunks=num_chunks,
                num_ranks=num_ranks,
            ),
            place=place,
        )
    for chunk, row in enumerate(layers):
        for rank, count in enumerate(row):
            if count < min_layers:
                raise InputError(
                    value=count,
                    rule=_("must hold at least one layer") if min_layers else _("must not be negative"),
                    place=_("{place}, chunk {chunk}, rank {rank}", place=place, chunk=chunk, rank=rank),
                    remedy=_("do not forbid empty cells") if count == 0 else "",
                )
    total = sum(map(sum, layers))
    if total != num_layers:
        raise InputError(
            value=total,
            rule=_("must add up to the {num_layers} layers of the network", num_layers=num_layers),
            place=place,
        )
