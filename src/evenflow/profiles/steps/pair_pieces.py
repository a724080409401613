"""Pieces of a forward and of a backward that run beside each other, as DualPipe has them, joined to the two.

1F1B    |--------------------------------------------------------|
          attn(F) mlp(B) dispatch(F) mlp(W) … combine(F) attn(B) …
"""

from collections.abc import Sequence

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.steps.action_names import PATTERN_OPTION, ActionName, is_pair
from evenflow.profiles.steps.rank_ranges import NamedRange
from evenflow.profiles.traces.formats.launches import LaunchScope
from evenflow.schedule import Op


def joined_pieces(pieces: Sequence[NamedRange], scopes: Sequence[LaunchScope], *, place: str) -> list[NamedRange]:
    """Return the forward and the backward of each pair from its pieces, which are within a range of the pair.

    Pieces of weight gradients are of the backward. Raises InputError for a piece outside of every pair: nothing tells
    how many actions such pieces are.
    """
    pairs = sorted((scope.start_ns, scope.end_ns) for scope in scopes if is_pair(scope.name))
    joined: list[NamedRange] = []
    number_in_pairs = 0
    for number, (start_ns, end_ns) in enumerate(pairs):
        inside = [piece for piece in pieces if start_ns <= piece.host_ns < end_ns]
        number_in_pairs += len(inside)
        for op, own in (
            (Op.F, [piece for piece in inside if piece.name.op == Op.F]),
            (Op.B, [piece for piece in inside if piece.name.op != Op.F]),
        ):
            if own:
                joined.append(
                    NamedRange(
                        ActionName(op=op, microbatch=number, is_piece=True),
                        min(piece.start_ns for piece in own),
                        max(piece.end_ns for piece in own),
                        start_ns,
                        sum(piece.own_ns for piece in own),
                    )
                )
    if number_in_pairs != len(pieces):
        raise InputError(
            value=len(pieces) - number_in_pairs,
            rule=_("must have a range such as 1F1B around the pieces of one forward and one backward"),
            place=place,
            remedy=_("say with {option} REGEX which ranges are whole actions", option=PATTERN_OPTION),
        )
    return joined
