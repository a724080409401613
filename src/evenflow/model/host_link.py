"""The link over which a rank moves activations to the host's memory and back."""

from dataclasses import dataclass

from evenflow.language import _
from evenflow.ranges import AHEAD, BEHIND, BUFFERS, BYTES_PER_S, SHARERS


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLink:
    """What moving activations costs, and when they are fetched back.

    Copies take the link in the order in which the rank's actions ask for them. What an action's forward has made leaves
    behind it and has left when the `behind` next actions have ended: the action after these waits for it. The fetch for
    a backward begins no earlier than the action `ahead` of it, when the memory is free, and the backward waits for it.
    What comes back so soon that it would not be away during any action stays.

    Where more would be on the device than there are `buffers`, fetches begin later, those with the most time left
    first, and then copies to the host are waited for earlier, those of the first forwards first.
    """

    bytes_per_s: int
    """Bytes that a device moves in a second in one direction, while no other device uses the link."""
    one_engine: bool = False
    """Whether one copy engine serves both directions, one copy at a time (Ascend), instead of one for each (NVIDIA)."""
    sharers: int = 1
    """Devices that share the link, each of which is taken to have an equal part of it at all times; a rank may have
    another number of them (see `RankTraits`).
    """
    buffers: int | None = None
    """Most microbatches of which what moves is on the device at a time, as far as later fetches and earlier waits for
    copies to the host are enough for that; None: any number.
    """
    ahead: int = 1
    """Actions of the rank before a backward, at whose beginning its fetch may begin; 0: at its own."""
    behind: int = 1
    """Actions of the rank behind a forward, during which what it made leaves."""

    def __post_init__(self) -> None:
        BYTES_PER_S.check(self.bytes_per_s, place=_("the bandwidth to the host"))
        SHARERS.check(self.sharers, place=_("the devices that share the link to the host"))
        if self.buffers is not None:
            BUFFERS.check(self.buffers, place=_("the buffers for what comes from the host"))
        AHEAD.check(self.ahead, place=_("the actions by which a fetch is ahead"))
        BEHIND.check(self.behind, place=_("the actions behind a forward during which what it made leaves"))

    def ns_per_byte(self, sharers: int | None = None) -> float:
        """Return the time of a byte on a device's part of the link, among other `sharers` where they are given.

        A copy takes a whole number of nanoseconds, rounded up.
        """
        return (sharers or self.sharers) * 1e9 / self.bytes_per_s
