"""Cross-mesh resharding: how the output of one stage becomes the input of the next, on other devices, split otherwise.

    stage on devices 0, 1              stage on devices 4, 5, 6, 7
    [ rows 0-3 ]  [ rows 4-7 ]   ->    all rows on each

Sent directly, every row crosses the slow link once for each receiver that needs it. Where several receivers of a node
need the same, they can receive a part each and gather the rest from one another on the node's fast links: then what
a node needs enters it once. [Alpa, §6: local all-gather] Both plans are made, and the cheaper one is taken.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenflow.cluster.cluster import Cluster
from evenflow.cluster.layout import Box, TensorLayout, split, volume
from evenflow.errors import InputError
from evenflow.language import _


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxMessage:
    """A box of the tensor from one device to another; from a device to itself it is a copy."""

    sender: int
    receiver: int
    box: Box


@dataclass(frozen=True, kw_only=True)
class ReshardingPlan:
    """Messages between the stages, then messages among the receivers."""

    sender: TensorLayout
    receiver: TensorLayout
    cluster: Cluster
    transfers: tuple[BoxMessage, ...]
    """Each sender has the box in its own part."""
    gathers: tuple[BoxMessage, ...]
    """Each sender has received the box before."""

    @cached_property
    def cost_ns(self) -> int:
        """Time of both phases: of each, that of the device with the most to send or to receive."""
        return _phase_ns(self, self.transfers) + _phase_ns(self, self.gathers)

    @cached_property
    def slow_bytes(self) -> int:
        """Bytes that cross between nodes."""
        node = self.cluster.node_of
        return sum(
            self.sender.bytes_of(message.box)
            for message in (*self.transfers, *self.gathers)
            if node(message.sender) != node(message.receiver)
        )


def plan_resharding(sender: TensorLayout, receiver: TensorLayout, cluster: Cluster) -> ReshardingPlan:
    """The cheaper of the direct and the gathering plan; every element that a receiver needs reaches it once.

    Raises InputError if the layouts are not of the same tensor, or use devices that the cluster does not have.
    """
    if (sender.shape, sender.item_bytes) != (receiver.shape, receiver.item_bytes):
        raise InputError(
            value=f"{sender.shape} of {sender.item_bytes} bytes, {receiver.shape} of {receiver.item_bytes} bytes",
            rule=_("must be layouts of one tensor"),
            place=_("sender and receiver of a resharding"),
        )
    beyond = [device for device in (*sender.devices, *receiver.devices) if not 0 <= device < cluster.num_devices]
    if beyond:
        raise InputError(
            value=beyond[0],
            rule=_("must be below {num_devices}, the devices of the cluster", num_devices=cluster.num_devices),
            place=_("a device of a resharding"),
        )
    plans = [_plan(sender, receiver, cluster, gather=gather) for gather in (False, True)]
    return min(plans, key=lambda plan: (plan.cost_ns, plan.slow_bytes))


def _plan(sender: TensorLayout, receiver: TensorLayout, cluster: Cluster, *, gather: bool) -> ReshardingPlan:
    source = _Senders(sender, cluster)
    transfers: list[BoxMessage] = []
    gathers: list[BoxMessage] = []
    for replicas in _replicas(receiver, cluster) if gather else [[device] for device in receiver.devices]:
        box = receiver.boxes[replicas[0]]
        if not volume(box):
            continue
        for part, device in zip(split(box, len(replicas)), replicas, strict=False):
            transfers += source.messages(part, device)
            gathers += [BoxMessage(sender=device, receiver=other, box=part) for other in replicas if other != device]
    return ReshardingPlan(
        sender=sender, receiver=receiver, cluster=cluster, transfers=tuple(transfers), gathers=tuple(gathers)
    )


def _replicas(layout: TensorLayout, cluster: Cluster) -> Iterable[list[int]]:
    """Devices of one node that hold the same box."""
    groups: dict[tuple[int, Box], list[int]] = defaultdict(list)
    for device in layout.devices:
        groups[cluster.node_of(device), layout.boxes[device]].append(device)
    return groups.values()


class _Senders:
    """Chooses the sender of each box: the receiver itself, else a near device, else the one that has sent the least."""

    def __init__(self, sender: TensorLayout, cluster: Cluster) -> None:
        self.sender = sender
        self.cluster = cluster
        self.sent = dict.fromkeys(sender.devices, 0)
        self.holders: dict[Box, list[int]] = defaultdict(list)
        self.known: dict[Box, list[tuple[Box, list[int]]]] = {}
        for device, box in sender.boxes.items():
            self.holders[box].append(device)
        bounds = np.array(list(self.holders), dtype=np.int64).reshape(len(self.holders), len(sender.shape), 2)
        self.begins, self.ends = bounds[..., 0], bounds[..., 1]

    def messages(self, box: Box, receiver: int) -> Iterator[BoxMessage]:
        """Messages that bring `box` together at `receiver`; boxes of senders are equal or disjoint."""
        near = self.cluster.node_of(receiver)
        for common, devices in self._parts(box):
            device = min(
                devices,
                key=lambda owner: (owner != receiver, self.cluster.node_of(owner) != near, self.sent[owner], owner),
            )
            if device != receiver:
                self.sent[device] += self.sender.bytes_of(common)
            yield BoxMessage(sender=device, receiver=receiver, box=common)

    def _parts(self, box: Box) -> list[tuple[Box, list[int]]]:
        """The parts of a box, each with the devices that have it; receivers that need the same are told at once."""
        if box not in self.known:
            wanted = np.array(box, dtype=np.int64).reshape(-1, 2)
            begins, ends = np.maximum(self.begins, wanted[:, 0]), np.minimum(self.ends, wanted[:, 1])
            every = list(self.holders.values())
            self.known[box] = [
                (tuple(zip(begins[device].tolist(), ends[device].tolist(), strict=True)), every[device])
                for device in np.flatnonzero((begins < ends).all(axis=1)).tolist()
            ]
        return self.known[box]


def _phase_ns(plan: ReshardingPlan, messages: Sequence[BoxMessage]) -> int:
    """Return the time of messages that start together; those of one device share its links."""
    busy: dict[tuple[int, bool], int] = defaultdict(int)
    latency: dict[tuple[int, bool], int] = defaultdict(int)
    for message in messages:
        if message.sender == message.receiver:
            continue
        link = plan.cluster.link_between(message.sender, message.receiver)
        for end in ((message.sender, True), (message.receiver, False)):
            busy[end] += link.transfer_ns(plan.sender.bytes_of(message.box)) - link.message_ns
            latency[end] = max(latency[end], link.message_ns)
    return max((busy[end] + latency[end] for end in busy), default=0)
