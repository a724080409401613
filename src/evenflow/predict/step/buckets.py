"""Exchanges of gradients and parameters in buckets: the time of each, and when all of them are done."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evenflow.cluster import Collective
from evenflow.cluster.collectives import collective_ns
from evenflow.cluster.topology import DeviceGroup, Topology
from evenflow.predict.parameters import Parameters, shares
from evenflow.predict.passes import SINGLE
from evenflow.predict.training import Sharding, Training

_BUCKET = 40_000_000
_BUCKET_OF_DEVICE = 1_000_000
"""Parameters whose gradients are reduced together, at least and for each device of the group, so that rings of many
devices have enough to send. [Megatron-LM, `DistributedDataParallelConfig.bucket_size`]"""
_ROUNDED_NS = 2
"""By how much a time may have been rounded up."""
Exchange = tuple[Collective, int]
"""What is done with parameters, and the bytes of each."""


def gather_of(training: Training) -> Exchange | None:
    """Return how updated parameters are gathered once a step, and their bytes; None if they are not."""
    degrees = training.degrees
    every_pass = degrees.sharding is Sharding.PARAMETERS and degrees.pipeline == 1
    if degrees.sharding is Sharding.NOTHING or every_pass:
        return None
    return Collective.ALL_GATHER, SINGLE if training.precision == "fp32" else training.software.gathered_bytes


def reduction_of(training: Training) -> Exchange | None:
    """Return how gradients are reduced once a step, and their bytes; None if they are not."""
    degrees = training.degrees
    if degrees.sharding in (Sharding.GRADIENTS, Sharding.PARAMETERS) and degrees.pipeline == 1:
        return None
    collective = Collective.ALL_REDUCE if degrees.sharding is Sharding.NOTHING else Collective.REDUCE_SCATTER
    return collective, training.software.reduced_bytes


def in_buckets(
    training: Training, topology: Topology, parameters: Parameters, exchange: Exchange | None
) -> Iterator[tuple[int, float]]:
    """Return the numbers of equal buckets, and the time of one bucket's collective."""
    if exchange is None:
        return
    collective, item_bytes = exchange
    for group, count in shares(training, parameters):
        if group.size > 1:
            buckets = math.ceil(count / _bucket(group))
            size = round(item_bytes * count / buckets)
            yield buckets, collective_ns(topology.axis(group, collective), collective, size)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal exchanges, each of an equal part of a pass."""

    begin_ns: float
    """When the pass begins."""
    end_ns: float
    count: int
    each_ns: float
    """Time of one exchange."""

    @property
    def total_ns(self) -> float:
        """Time of all of them."""
        return self.count * self.each_ns

    @property
    def part_ns(self) -> float:
        """Time of the part of the pass that an exchange belongs to."""
        return (self.end_ns - self.begin_ns) / self.count


def last_reduced_ns(every: Iterable[Buckets]) -> float:
    """Return when the last exchange ends, if each begins after its part of the pass and after the exchange before it.

    Of equal exchanges one after the other either the first decides when the last one ends, or the last one itself.
    """
    end_ns = 0.0
    for buckets in every:
        end_ns = max(end_ns, buckets.begin_ns + buckets.part_ns) + buckets.total_ns
        end_ns = max(end_ns, buckets.end_ns + buckets.each_ns)
    return end_ns


def longest_wait_ns(every: Iterable[Buckets]) -> float:
    """Return how long a pass waits for exchanges that start at time 0, where each part needs its own.

    Of equal exchanges the first or the last one is waited for longest.
    """
    done_ns = wait_ns = 0.0
    for buckets in every:
        wait_ns = max(wait_ns, done_ns + buckets.each_ns - buckets.begin_ns)
        done_ns += buckets.total_ns
        wait_ns = max(wait_ns, done_ns - (buckets.end_ns - buckets.part_ns))
    return wait_ns


def least_bucket_ns(training: Training, topology: Topology, parameters: Parameters, exchange: Exchange | None) -> float:
    """Return a lower bound on the time of a bucket of these parameters or more: the longest of any group.

    Buckets are equal, so that each is more than half full where there are several.
    """
    if exchange is None:
        return 0.0
    collective, item_bytes = exchange
    times = [
        collective_ns(topology.axis(group, collective), collective, int(item_bytes * min(count, _bucket(group) / 2)))
        for group, count in shares(training, parameters)
        if group.size > 1
    ]
    return float(max(times, default=0.0))


def in_full_buckets_ns(
    training: Training, topology: Topology, parameters: Parameters, exchange: Exchange | None
) -> float:
    """Return the time of these parameters in full buckets, a lower bound: smaller buckets take longer per parameter."""
    if exchange is None:
        return 0.0
    collective, item_bytes = exchange
    total = 0.0
    for group, count in shares(training, parameters):
        if group.size > 1:
            bucket = _bucket(group)
            full_ns = collective_ns(topology.axis(group, collective), collective, item_bytes * bucket)
            total += count / bucket * (full_ns - _ROUNDED_NS)
    return total


def _bucket(group: DeviceGroup) -> int:
    """Return how many parameters a full bucket has."""
    return max(_BUCKET, _BUCKET_OF_DEVICE * group.size)
