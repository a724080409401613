"""Where the devices of a group lie, and the links that its collectives run over."""

import math
from dataclasses import dataclass

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.collectives import Collective
from evenflow.cluster.mesh import MeshAxis


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Devices first, first + stride, ... of a training; groups of every stride tile the devices."""

    size: int
    stride: int = 1

    @property
    def span(self) -> int:
        """Devices from the first to the last, both counted, and the rest of the last stride."""
        return self.size * self.stride


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Equal fast domains (nodes, or racks with a switch) in a network; device ``domain * domain_devices + place``."""

    accelerator: Accelerator
    domain_devices: int

    def members_inside(self, group: Group) -> int:
        """Members of a group that lie in one fast domain."""
        if group.span <= self.domain_devices:
            return group.size
        return max(1, min(group.size, self.domain_devices // group.stride))

    def axis(self, group: Group, collective: Collective) -> MeshAxis:
        """Return the group as `collective_ns` takes it: its bandwidth for this collective, and its latency.

        Inside a domain a ring runs at the links' rate. Across domains each member has a network card of its own, and as
        many rings run as a domain has members, so the links see what the cards of all of them carry. Of an all-to-all
        a device sends what is for its own domain over the links, and the rest over its card.
        """
        device, reached = self.accelerator, self.accelerator.reached
        link = device.link_bytes_per_s * reached.link_share
        network = device.network_bytes_per_s * reached.network_share
        inside = self.members_inside(group)
        bandwidth = link
        if inside < group.size:
            if collective is Collective.ALL_TO_ALL:
                sent = (group.size - 1) / max((inside - 1) / link, (group.size - inside) / network)
                bandwidth = sent
            else:
                bandwidth = min(link, inside * network)
        latency = reached.latency_ns * (1 + math.log2(group.size)) / 2 if group.size > 1 else 0.0
        return MeshAxis(size=group.size, bandwidth_bytes_per_s=max(1, round(bandwidth)), latency_ns=round(latency))

    def message_ns(self, size_bytes: float, stride: int) -> int:
        """Nanoseconds of a message to the device `stride` further."""
        device, reached = self.accelerator, self.accelerator.reached
        is_inside = stride < self.domain_devices
        rate = (
            device.link_bytes_per_s * reached.link_share
            if is_inside
            else (device.network_bytes_per_s * reached.network_share)
        )
        return round(reached.latency_ns + size_bytes / rate * 1e9)
