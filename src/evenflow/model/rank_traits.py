"""What sets a rank apart from the others: a slower device, memory that it has less of, or slow or busy links."""

from dataclasses import dataclass

from evenflow.language import _
from evenflow.ranges import MEMORY_BYTES, RANK_SPEED, SHARERS, TIME_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTraits:
    """Speed, memory and links of one rank."""

    speed: float = 1.0
    """Its work in a time, as a share of what the fastest rank does, for which the times of layers are."""
    reserved_bytes: int = 0
    """Bytes of the memory limit that it does not have, or that something else holds."""
    link_ns: int = 0
    """What every message between it and the next rank takes longer, in both directions; behind the last rank comes the
    first. The link is busy for that time.
    """

    host_sharers: int | None = None
    """Devices that share its link to the host; None: as many as of other ranks."""

    def __post_init__(self) -> None:
        RANK_SPEED.check(self.speed, place=_("the speed of a rank"))
        MEMORY_BYTES.check(self.reserved_bytes, place=_("the reserved memory of a rank"))
        TIME_NS.check(self.link_ns, place=_("the link of a rank"))
        if self.host_sharers is not None:
            SHARERS.check(self.host_sharers, place=_("the devices that share the link to the host"))
