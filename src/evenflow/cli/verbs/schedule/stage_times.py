"""The times of equal stages, on the command line."""

from dataclasses import dataclass, field
from typing import Any

from evenflow.asking import Metadata, asked
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.ranges import MILLISECONDS
from evenflow.units import nanoseconds_from_milliseconds

_MILLISECONDS = MILLISECONDS.above_zero


def _time(option: str, help_text: str) -> Metadata:
    return asked(_MILLISECONDS, option=option, metavar="MS", shows_default=True, help=help_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Times of one microbatch (or part of it) on one stage, in milliseconds: an option for each field."""

    forward_ms: float = field(default=1.0, metadata=_time("--forward", "Forward time of one microbatch on one stage."))
    backward_ms: float = field(
        default=2.0, metadata=_time("--backward", "Backward time of one microbatch on one stage.")
    )
    weight_ms: float | None = field(
        default=None,
        metadata=_time(
            "--weight", "Part of the backward for the weights, which some schedules run on its own.  [default: half]"
        ),
    )

    def keywords(self) -> dict[str, Any]:
        """Return the times in nanoseconds, as keywords; raises InputError for one that breaks a rule."""
        forward_ns = _time_ns(self.forward_ms, option="--forward")
        backward_ns = _time_ns(self.backward_ms, option="--backward")
        weight_ns = None if self.weight_ms is None else _time_ns(self.weight_ms, option="--weight")
        if weight_ns is not None and weight_ns > backward_ns:
            rule = _("must not be longer than the backward, which it is a part of")
            raise InputError(value=self.weight_ms, rule=rule, place="--weight")
        return {"forward_ns": forward_ns, "backward_ns": backward_ns, "weight_ns": weight_ns}


def _time_ns(milliseconds: float, *, option: str) -> int:
    _MILLISECONDS.check(milliseconds, place=option)
    return max(1, nanoseconds_from_milliseconds(milliseconds))
