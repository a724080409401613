"""``--recompute-segments``: layers that are computed again in groups, of which only the first input is kept."""

from dataclasses import dataclass
from typing import Any

from evenflow.asking import optional
from evenflow.cli.shared.numbers import as_number
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import WHOLE, Network, with_segments
from evenflow.ranges import LAYERS

_SEGMENTS = "--recompute-segments"
_ALL = "all"


def _lengths(text: str) -> tuple[int, ...]:
    """Return the lengths of segments in a list of numbers and ``all``."""
    lengths = []
    for word in (word.strip() for word in text.split(",")):
        number: Any = WHOLE if word.lower() == _ALL else as_number(word, LAYERS)
        if number != WHOLE and (number not in LAYERS or number < 2):
            rule = _("must be integers from 2 on with commas between them, or {all}", all=_ALL)
            raise InputError(value=word, rule=rule, place=_SEGMENTS)
        lengths.append(int(number))
    return tuple(dict.fromkeys(lengths))


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentOptions:
    """The lengths of segments as given."""

    recompute_segments: tuple[int, ...] | None = optional(
        _SEGMENTS,
        read=_lengths,
        metavar=f"N,…|{_ALL}",
        help="Also compute layers again in segments of N layers, of which only the input of the first is kept; "
        f"{_ALL} is all that a stage computes again so. Beside the kinds that the layers offer.",
    )

    def applied(self, network: Network) -> Network:
        """Return the network whose layers may be computed again in these segments.

        Raises:
            InputError: layers that cannot, or lengths that are none.
        """
        if self.recompute_segments is None:
            return network
        try:
            return with_segments(network, self.recompute_segments)
        except InputError as error:
            raise InputError(value=error.value, rule=error.rule, place=_SEGMENTS, remedy=error.remedy) from None
