"""What sets a rank apart from the others: a slower device, or memory that it has less of."""

from dataclasses import dataclass

from evenflow.language import _
from evenflow.ranges import MEMORY_BYTES, RANK_SPEED


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTraits:
    """Speed and memory of one rank."""

    speed: float = 1.0
    """Its work in a time, as a share of what the fastest rank does, for which the times of layers are."""
    reserved_bytes: int = 0
    """Bytes of the memory limit that it does not have, or that something else holds."""

    def __post_init__(self) -> None:
        RANK_SPEED.check(self.speed, place=_("the speed of a rank"))
        MEMORY_BYTES.check(self.reserved_bytes, place=_("the reserved memory of a rank"))
