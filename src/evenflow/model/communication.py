"""What the messages between stages cost, which may depend on where the network is cut."""

from dataclasses import dataclass

from evenflow.language import _
from evenflow.model.network import Network
from evenflow.ranges import BYTES_PER_S, TIME_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """The time of one point-to-point transfer between neighbouring stages on different ranks."""

    latency_ns: int = 0
    """Part of the time that does not depend on the size of the message."""
    transfer_ns: int = 0
    """Part of the time that its bytes take, where the network does not say how many it has."""
    bytes_per_s: int | None = None
    """Bandwidth, for messages whose bytes the network says; None: they take `transfer_ns` like the others."""
    one_at_a_time: bool = False
    """Whether a rank sends one message at a time, in the order in which its actions end: the next transfer begins when
    the one before is done. Otherwise messages do not wait for each other.
    """

    def __post_init__(self) -> None:
        TIME_NS.check(self.latency_ns, place=_("the latency of a message"))
        TIME_NS.check(self.transfer_ns, place=_("the transfer of a message, its size by the bandwidth"))
        if self.bytes_per_s is not None:
            BYTES_PER_S.check(self.bytes_per_s, place=_("the bandwidth of messages"))

    @property
    def message_ns(self) -> int:
        """Time from the end of the sending action to the earliest start of the receiving one."""
        return self.latency_ns + self.transfer_ns

    def message_of_ns(self, size_bytes: int | None) -> int:
        """Return the same of a message of `size_bytes`; None: the network does not say how many."""
        if size_bytes is None or self.bytes_per_s is None:
            return self.message_ns
        return self.latency_ns - (-(10**9) * size_bytes // self.bytes_per_s)  # rounded up

    def border_times_ns(self, network: Network) -> tuple[int, ...] | None:
        """Return the time of what a stage sends on that ends at each border of the layers, [num_layers + 1].

        None where every message takes `message_ns`, wherever the network is cut.
        """
        if self.bytes_per_s is None or network.boundaries is None:
            return None
        return tuple(map(self.message_of_ns, network.boundaries))
