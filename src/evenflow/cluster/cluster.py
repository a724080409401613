"""The cluster: nodes x devices, fast links inside a node, slow ones between; its submeshes, and where they lie."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evenflow.errors import InputError
from evenflow.language import _

_MESH = re.compile(r"\s*([0-9]+)\s*[x×]\s*([0-9]+)\s*")
_MOST_DEVICES = 1_000_000
_MOST_TRIED = 100
"""Devices of a node up to which it is known that choices of divisors fill nodes (`submeshes`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The connection of two devices."""

    bytes_per_s: int
    """Bandwidth of one device, in each direction."""
    latency_ns: int = 0
    """Time of one message without its bytes."""
    start_ns: int = 0
    """Time that a collective or a message takes to begin, beside the latency of each of its messages."""

    def transfer_ns(self, size_bytes: int) -> int:
        """Time of one message: its latency, and size over bandwidth, rounded up; nothing takes no time."""
        return self.message_ns - (-size_bytes * 1_000_000_000 // self.bytes_per_s) if size_bytes else 0

    @property
    def message_ns(self) -> int:
        """Latency of a single message, without the time of its bytes."""
        return self.start_ns + self.latency_ns


class Submesh(NamedTuple):
    """A shape of a part of the cluster: devices of one node, or whole nodes."""

    num_nodes: int
    devices_per_node: int

    @property
    def num_devices(self) -> int:
        """Devices in all."""
        return self.num_nodes * self.devices_per_node

    def __str__(self) -> str:
        return f"{self.num_nodes}x{self.devices_per_node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """`num_nodes` equal nodes of `devices_per_node` equal devices; device ``node * devices_per_node + place``."""

    num_nodes: int
    devices_per_node: int
    memory_bytes: int
    """Memory of one device."""
    intra: Link
    """The link between devices of one node."""
    inter: Link
    """The link between devices of different nodes."""
    peak_flops: float | None = None
    """Floating-point operations a second of one device at its peak, where known."""
    host: Link | None = None
    """The link of one device to its host's memory; None: nothing is sent there."""
    name: str = "cluster"

    def __post_init__(self) -> None:
        self._check("nodes", self.num_nodes, _("must be at least 1"), holds=self.num_nodes >= 1)
        self._check(
            _("devices per node"), self.devices_per_node, _("must be at least 1"), holds=self.devices_per_node >= 1
        )
        is_countable = self.num_devices <= _MOST_DEVICES
        self._check(
            "mesh", self.num_devices, _("must be at most {limit:,} devices", limit=_MOST_DEVICES), holds=is_countable
        )
        self._check("memory", self.memory_bytes, _("must be above zero"), holds=self.memory_bytes > 0)
        for field, link in (("intra", self.intra), ("inter", self.inter)):
            self._check(f"{field}-bandwidth", link.bytes_per_s, _("must be above zero"), holds=link.bytes_per_s > 0)
            latency_ns = min(link.latency_ns, link.start_ns)
            self._check(f"{field}-latency", latency_ns, _("must be zero or more"), holds=latency_ns >= 0)
        if self.host is not None:
            bandwidth = self.host.bytes_per_s
            self._check("host-bandwidth", bandwidth, _("must be above zero"), holds=bandwidth > 0)
        if self.num_nodes > 1 and self.devices_per_node > 1 and self.inter.bytes_per_s > self.intra.bytes_per_s:
            raise InputError(
                value=f"{self.inter.bytes_per_s / 1e9:g} GB/s",
                rule=_("must be at most the {limit:g} GB/s inside a node", limit=self.intra.bytes_per_s / 1e9),
                place=_("{name}, inter-bandwidth", name=self.name),
                remedy=_("exchange the two bandwidths, or let the mesh have the fast axis as its second number"),
            )
        if self.peak_flops is not None:
            self._check(
                "peak", self.peak_flops, _("must be above zero and finite"), holds=0 < self.peak_flops < float("inf")
            )

    def _check(self, field: str, value: object, rule: str, *, holds: bool) -> None:
        if not holds:
            raise InputError(
                value=value,
                rule=rule,
                place=f"{self.name}, {field}",
            )

    @property
    def num_devices(self) -> int:
        """Devices in all."""
        return self.num_nodes * self.devices_per_node

    def node_of(self, device: int) -> int:
        """The node of a device."""
        return device // self.devices_per_node

    def link_between(self, device: int, other: int) -> Link:
        """Return the link between two different devices."""
        return self.intra if self.node_of(device) == self.node_of(other) else self.inter


def parse_mesh(text: str, *, place: str = "mesh") -> tuple[int, int]:
    """Return the nodes, and the devices of each, of a mesh such as ``2x4``.

    >>> parse_mesh("2x4")
    (2, 4)
    """
    match = _MESH.fullmatch(text)
    if match is None or not (int(match[1]) and int(match[2])):
        raise InputError(
            value=text,
            rule=_("must be the number of nodes, x, and the number of devices in each, both above zero"),
            place=place,
            remedy=_("write for example 2x4 for two nodes of four devices"),
        )
    return int(match[1]), int(match[2])


def submeshes(cluster: Cluster) -> tuple[Submesh, ...]:
    """The shapes a stage may have, from small to large, each with another number of devices.

    Inside a node every number of devices that divides it; then whole nodes. For nodes of 2**k devices these are the
    shapes of [Alpa, §5.2]. *Any choice of them with as many devices as the cluster has can be laid out* (`assign`):

    - Whole nodes lie anywhere. Of the rest, some shapes fill one node exactly, as long as there are two nodes or more
      of them (the last node is filled by what is left); put these into a node of their own, and go on with the others.
    - That some always do is true of nodes of up to 100 devices with at most two different prime factors: the tests try
      every choice without such a subset. It is not of 30, where no subset of 15 + 10 + 10 + 6 + 6 + 6 + 6 + 1 is 30.
    - For other nodes a chain of divisors is used, such as 1, 2, 6 for 30. Put the larger ones first, one after the
      other: the sizes before a stage are multiples of its own, which divides the node, so it does not cross its end.

    >>> [str(shape) for shape in submeshes(Cluster(num_nodes=3, devices_per_node=6, memory_bytes=1,
    ...     intra=Link(bytes_per_s=2), inter=Link(bytes_per_s=1)))]
    ['1x1', '1x2', '1x3', '1x6', '2x6', '3x6']
    """
    width = cluster.devices_per_node
    parts = [size for size in range(1, width) if width % size == 0]
    if width > _MOST_TRIED or len(_prime_factors(width)) > 2:
        parts = [1]
        for prime, power in _prime_factors(width).items():
            for _place in range(power):
                parts.append(parts[-1] * prime)
        parts.pop()
    return (
        *(Submesh(1, size) for size in parts),
        *(Submesh(nodes, width) for nodes in range(1, cluster.num_nodes + 1)),
    )


def _prime_factors(number: int) -> dict[int, int]:
    """Return the power of every prime in a number, smallest first."""
    powers: dict[int, int] = {}
    prime = 2
    while number > 1:
        if number % prime:
            prime = prime + 1 if prime * prime <= number else number
            continue
        powers[prime] = powers.get(prime, 0) + 1
        number //= prime
    return powers


def assign(cluster: Cluster, shapes: Sequence[Submesh]) -> tuple[range, ...]:
    """The devices of every stage, consecutive and disjoint; a stage inside a node does not cross to the next one.

    Stages lie in the order of the pipeline where each then begins at a multiple of its size (whole nodes: at a node),
    so that neighbours are near; else node after node is filled, with larger ones first where that goes up. This always
    works (see `submeshes`; devices that are left over count as stages of one device).

    Raises ValueError for shapes that are not `submeshes` of the cluster or have more devices than it.
    """
    allowed = submeshes(cluster)
    total = sum(shape.num_devices for shape in shapes)
    if total > cluster.num_devices or any(shape not in allowed for shape in shapes):
        raise ValueError(f"{[str(shape) for shape in shapes]} are no submeshes of {cluster.name}")
    return _in_order(cluster, shapes) or _packed(cluster, shapes)


def _in_order(cluster: Cluster, shapes: Sequence[Submesh]) -> tuple[range, ...] | None:
    """Devices of every stage, one stage after the other, or None if one would not begin where it may."""
    places = []
    begin = 0
    for shape in shapes:
        if begin % min(shape.num_devices, cluster.devices_per_node):
            return None
        places.append(range(begin, begin + shape.num_devices))
        begin += shape.num_devices
    return tuple(places)


def _packed(cluster: Cluster, shapes: Sequence[Submesh]) -> tuple[range, ...]:
    """Devices of every stage: whole nodes first, then one node after the other filled exactly."""
    width, begin = cluster.devices_per_node, 0
    places: dict[int, range] = {}
    waiting: dict[int, list[int]] = {}
    for stage, shape in enumerate(shapes):
        if shape.num_devices >= width:
            places[stage] = range(begin, begin + shape.num_devices)
            begin += shape.num_devices
        else:
            waiting.setdefault(shape.num_devices, []).append(stage)
    unused = cluster.num_devices - sum(shape.num_devices for shape in shapes)
    waiting.setdefault(1, []).extend(len(shapes) + unused_index for unused_index in range(unused))
    while begin < cluster.num_devices:
        for size in _filling(width, {size: len(stages) for size, stages in waiting.items()}):
            places[waiting[size].pop(0)] = range(begin, begin + size)
            begin += size
    return tuple(places[stage] for stage in range(len(shapes)))


def _filling(width: int, counts: Mapping[int, int]) -> list[int]:
    """Return sizes that add up to `width`, with as many large ones as there are, largest first."""
    sizes = sorted(counts, reverse=True)
    dead: set[tuple[int, int]] = set()

    def fill(place: int, room: int) -> list[int] | None:
        if room == 0:
            return []
        if place == len(sizes) or (place, room) in dead:
            return None
        size = sizes[place]
        for count in range(min(counts[size], room // size), -1, -1):
            rest = fill(place + 1, room - count * size)
            if rest is not None:
                return [size] * count + rest
        dead.add((place, room))
        return None

    filling = fill(0, width)
    assert filling is not None  # by the argument of `submeshes`
    return filling
