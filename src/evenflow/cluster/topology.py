"""Where the devices of a group lie, and the links that its collectives run over."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.cluster import Link
from evenflow.cluster.collectives import Collective
from evenflow.cluster.mesh import MeshAxis

Members = NDArray[np.int64]
_MESSAGE = 1 / 6
"""Time of a message in a fast domain, as a share of what a collective takes to begin: measured all-reduces of A100
nodes take 40, 60 and 100 us on 2, 4 and 8 devices beside their bytes, which is 30 us and 5 us for each message."""
_NETWORK_MESSAGE = 1 / 3
"""The same between domains; the tables by which NCCL chooses have more than twice the latency there."""
_STREAMED = 1.8
"""How much more of the network transfers reach that keep it busy than collectives for which a step waits, and which
wait for the slowest device: kernels that pass on tokens reach 43.5 of the 50 GB/s of a card, 0.87 of it, where steps
take as long as with 0.48. [DeepEP V1, on 32 H800: 58 GB/s, a fourth of which stays on its node] So do all-to-alls of
large messages, in which no device waits for what another one passes on."""
_MOST = 0.96
"""Most of a card that is reached: 46 to 48 of 50 GB/s in tests of NCCL. [NVIDIA/nccl-tests, issue 290]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGroup:
    """Devices first, first + stride, ... of a training; groups of every stride tile the devices.

    With several parts these are the members of the first one; the others have as many, each `part_stride` further.
    """

    size: int
    """Members of all parts."""
    stride: int = 1
    parts: int = 1
    part_stride: int = 0

    @property
    def span(self) -> int:
        """Devices from the first to the last of a part, both counted, and the rest of the last stride."""
        return self.size // self.parts * self.stride

    @property
    def members(self) -> Members:
        """The members of the first group, shape [size]."""
        inside = np.arange(self.size // self.parts) * self.stride
        return (np.arange(self.parts)[:, np.newaxis] * self.part_stride + inside).reshape(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpread:
    """How the groups of a training lie in fast domains; the numbers are those of the worst group."""

    domains: int
    """Domains that a group reaches into."""
    fewest: int
    """Members in the domain that has the fewest of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Equal fast domains (nodes, or racks with a switch) in a network; device ``domain * domain_devices + place``."""

    accelerator: Accelerator
    domain_devices: int

    @classmethod
    def of(
        cls, accelerator: Accelerator, domain_devices: int | None = None, *, network_bytes_per_s: float | None = None
    ) -> "Topology":
        """Return domains of as many devices, by default of as many as the accelerator's links connect.

        With `network_bytes_per_s` a device has this of the network, instead of what is usual for the accelerator.
        """
        if network_bytes_per_s is not None:
            accelerator = replace(accelerator, network_bytes_per_s=network_bytes_per_s)
        return cls(accelerator=accelerator, domain_devices=domain_devices or accelerator.link_devices)

    @property
    def placed_devices(self) -> int:
        """Devices of a domain that a training is given: of a rack of 72 those of a power of two, 64.

        Degrees are powers of two for the most part, and what is left are spares.
        """
        return self.domain_devices if self.domain_devices <= 8 else 2 ** (self.domain_devices.bit_length() - 1)

    def spread(self, group: DeviceGroup) -> GroupSpread:
        """Return how the groups lie in domains."""
        return _spread(group, self.placed_devices)

    def axis(
        self,
        group: DeviceGroup,
        collective: Collective,
        *,
        copies: int = 0,
        groups: tuple[int, int] = (1, 1),
        is_streamed: bool = False,
    ) -> MeshAxis:
        """Return the group as `collective_ns` takes it: its bandwidth for this collective, and its latencies.

        Inside a domain a ring runs at the links' rate. Across domains each member has a network card of its own, and as
        many rings run as the domain with the fewest members has, so the links see what the cards of all of them carry.
        Of an all-to-all a device sends what is for its own domain over the links, and the rest over its card, at once.
        With `copies`, each number goes to as many members, but once to each of their domains, where the links spread
        it, and once to each of them, also where they are the place of several copies. [DeepSeek-V3, arXiv:2412.19437,
        section 3.2.2; DeepEP] `groups`: the equal groups that members are in, and to how many of these the copies of a
        number go at most. `is_streamed`: collectives of this kind follow each other all the time, as those of fully
        sharded training do and exchanges of tokens.
        """
        device, reached = self.accelerator, self.accelerator.reached
        link, network = self.rates(is_streamed=is_streamed)
        spread = self.spread(group)
        bandwidth = link
        if collective is Collective.ALL_TO_ALL:
            inside, outside = spread.fewest - 1.0, float(group.size - spread.fewest)
            if copies:
                inside = (group.size - 1) * _once(1 / group.size, copies, groups)
                outside *= _once(spread.fewest / group.size, copies, groups)
            if inside or outside:
                bandwidth = (group.size - 1) / max(inside / link, outside / network)
        elif spread.domains > 1:
            bandwidth = min(link, spread.fewest * network)
        return MeshAxis(
            size=group.size,
            bandwidth_bytes_per_s=max(1, round(bandwidth)),
            start_ns=round(reached.latency_ns) - round(reached.latency_ns * _MESSAGE),
            latency_ns=round(reached.latency_ns * _MESSAGE),
            domains=spread.domains,
            domain_latency_ns=round(reached.latency_ns * _NETWORK_MESSAGE),
            switch_reduces=device.switch_reduces,
        )

    def message_ns(self, size_bytes: float, *, sender: int, receiver: int, count: int) -> float:
        """Nanoseconds of messages from `count` devices, `sender` and those after it, to as many from `receiver` on.

        All are sent at once; it is the time of the slowest.
        """
        link, network = self.rates()
        places = np.arange(count)
        domain = self.placed_devices
        is_inside = bool(((sender + places) // domain == (receiver + places) // domain).all())
        return self.accelerator.reached.latency_ns + size_bytes / (link if is_inside else network) * 1e9

    def rates(self, *, is_streamed: bool = False) -> tuple[float, float]:
        """Bytes per second that one device reaches inside of a domain, and across: more in a stream of transfers."""
        device, reached = self.accelerator, self.accelerator.reached
        link, share = device.link_bytes_per_s * reached.link_share, reached.network_share
        if is_streamed:
            share = max(share, min(_STREAMED * share, _MOST))
        return link, min(link, device.network_bytes_per_s * share)


def _once(share: float, copies: int, groups: tuple[int, int]) -> float:
    """Return the part of the copies that is really sent to a `share` of all members, where one copy serves all there.

    Where loads are equal, a number misses that part of the members with the same chance for every copy. Its copies go
    to some of the groups, all of which are chosen with the same chance. [DeepSeek-V3, arXiv:2412.19437, section 2.1.2]
    """
    count, chosen = groups
    held = max(1, round(share * count))
    of_each = share * count / held
    ways = math.comb(count, chosen)
    sent = 0.0
    for hit in range(max(0, chosen - (count - held)), min(held, chosen) + 1):
        chance = math.comb(held, hit) * math.comb(count - held, chosen - hit) / ways
        sent += chance * (1 - max(0.0, 1 - hit * of_each / chosen) ** copies)
    return min(1.0, sent / (share * copies))


def usual_links(accelerator: Accelerator) -> tuple[Link, Link]:
    """Return the links inside a node and between nodes, as collectives on this accelerator reach them."""
    link, network = Topology.of(accelerator).rates()
    begin_ns = round(accelerator.reached.latency_ns)

    def usual(rate: float, share: float) -> Link:
        """A message of its own takes as long to begin as a collective, the first of its latencies included."""
        latency_ns = round(begin_ns * share)
        return Link(bytes_per_s=max(1, round(rate)), latency_ns=latency_ns, start_ns=begin_ns - latency_ns)

    return usual(link, _MESSAGE), usual(network, _NETWORK_MESSAGE)


@lru_cache(maxsize=4096)
def _spread(group: DeviceGroup, domain: int) -> GroupSpread:
    """Return the spread over domains of `domain` devices, from every different place where a group can begin."""
    if group.size == 1 or (group.parts == 1 and domain % group.span == 0):
        return GroupSpread(domains=1, fewest=group.size)
    members = group.members
    begins = np.arange(0, math.lcm(group.span, domain), group.span)
    firsts = {int(begin + offset) % domain for begin in begins for offset in (0, group.stride - 1)}
    counts = [np.unique((first + members) // domain, return_counts=True)[1] for first in firsts]
    return GroupSpread(domains=max(map(len, counts)), fewest=min(int(count.min()) for count in counts))
