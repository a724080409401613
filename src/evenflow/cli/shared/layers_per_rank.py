"""``--layers-per-rank``: the layers that the user has decided."""

from collections.abc import Sequence

from evenflow.asking import asked
from evenflow.cli.shared.layer_counts import layers_by_chunk, parse_counts
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Cells, check_split

_OPTION = "--layers-per-rank"

KEPT_LAYERS = asked(
    option=_OPTION,
    is_multiple=True,
    metavar="N,N,…",
    help="Keep these layers of each rank and choose only what they recompute. Given once, they are dealt over the "
    "chunks of the rank in turn; or give it once for each chunk, in their order.",
)


def kept_by_chunks(
    texts: Sequence[str], *, num_layers: int, num_ranks: int, counts: Sequence[int], allow_empty: bool
) -> dict[int, Cells] | None:
    """Return layers by ``[chunk][rank]`` for each number of chunks that they can be dealt over; None without any."""
    if not texts:
        return None
    if len(texts) > 1:
        counts = [count for count in counts if count == len(texts)] or counts[:1]
    elif not allow_empty:
        fewest = min(parse_counts(texts[0], _OPTION))
        counts = [count for count in counts if count <= fewest] or counts[:1]
    return {
        count: layers
        for count in counts
        if (
            layers := kept_layers(
                texts, num_layers=num_layers, num_ranks=num_ranks, num_chunks=count, allow_empty=allow_empty
            )
        )
    }


def kept_layers(
    texts: Sequence[str], *, num_layers: int, num_ranks: int, num_chunks: int, allow_empty: bool
) -> Cells | None:
    """Return layers by ``[chunk][rank]``; None where the option was not given."""
    if not texts:
        return None
    layers = layers_by_chunk(texts, num_chunks=num_chunks, place=_OPTION)
    for text in texts:
        row = parse_counts(text, _OPTION)
        if len(row) != num_ranks:
            raise InputError(
                value=row,
                rule=_("must have a number for each of the {num_ranks} ranks", num_ranks=num_ranks),
                place=_OPTION,
            )
        if len(texts) < num_chunks and min(row) < num_chunks and not allow_empty:
            raise InputError(
                value=min(row),
                rule=_(
                    "must be at least the number of chunks ({num_chunks}), one layer for each", num_chunks=num_chunks
                ),
                place=_("{option}, rank {index}", option=_OPTION, index=row.index(min(row))),
                remedy=_("use fewer chunks, or leave --no-empty out"),
            )
    check_split(
        layers,
        num_layers=num_layers,
        num_ranks=num_ranks,
        num_chunks=num_chunks,
        min_layers=0 if allow_empty else 1,
        place=_OPTION,
    )
    return layers
