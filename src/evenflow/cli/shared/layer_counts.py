"""Numbers of layers on the command line."""

from collections.abc import Sequence

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Cells, cells, deal_layers


def parse_counts(text: str, place: str) -> list[int]:
    """Return the counts of a text such as ``8,8,7``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise InputError(
            value=text, rule=_("must be counts, separated by commas"), place=place, remedy=_("write for example 8,8,7")
        )
    return [int(part) for part in parts]


def layers_by_chunk(texts: Sequence[str], *, num_chunks: int, place: str) -> Cells:
    """Return layers ``[chunk][rank]`` of an option that was given once, to deal over the chunks, or once for each."""
    rows = [parse_counts(text, place) for text in texts]
    if len(rows) == num_chunks:
        return cells(rows)
    if len(rows) != 1:
        rule = (
            _("must be given once, or once for each of the {num_chunks} chunks", num_chunks=num_chunks)
            if num_chunks > 1
            else _("must be given once")
        )
        raise InputError(value=len(rows), rule=rule, place=place)
    return deal_layers(rows[0], num_chunks=num_chunks)
