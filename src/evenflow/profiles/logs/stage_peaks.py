"""Peaks of stages, whichever program logged them."""

from collections.abc import Mapping
from enum import Enum

from evenflow.errors import InputError
from evenflow.language import _

_MOST_NAMED = 10


class PeakKind(Enum):
    """The two peaks that a log gives; the value is the first word of MindSpore's line."""

    ACTUAL = "Actual"
    """With fragments: what the device must hold."""
    USED = "Used"
    """Without fragments: what the tensors take."""

    @property
    def line(self) -> str:
        """The beginning of MindSpore's line."""
        return f"{self.value} peak memory usage"


def peaks_in_order(peaks: Mapping[int, int], *, place: str) -> tuple[int, ...]:
    """Return the peaks of stages 0 to the last one seen, all of which must be there."""
    last = max(peaks)
    missing = [stage for stage in range(last) if stage not in peaks]
    if missing:
        names = ", ".join(map(str, missing[:_MOST_NAMED])) + (", …" if len(missing) > _MOST_NAMED else "")
        raise InputError(
            rule=_("must have a peak of every stage from 0 to {last}, and has none of {names}", last=last, names=names),
            place=place,
            remedy=_("run the missing stages"),
        )
    return tuple(peaks[stage] for stage in range(last + 1))
