"""The time of a collective, the one formula behind operator shardings, analytic stages and predictions."""

from enum import StrEnum

from evenflow.cluster.mesh import MeshAxis

NANOSECONDS_PER_SECOND = 1_000_000_000


class Collective(StrEnum):
    """An operation in which the devices of a mesh axis exchange parts of a tensor."""

    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_REDUCE = "all-reduce"
    ALL_TO_ALL = "all-to-all"
    SEND = "send"
    """Each device sends its part to one other, and gets that one's or another's."""
    RING = "ring"
    """Parts go once around: in n - 1 steps each device sends what it has to the next one."""


def collective_ns(axis: MeshAxis, collective: Collective, size_bytes: int) -> int:
    """Return the nanoseconds of a collective over the n devices of `axis`, rounded up; nothing takes no time.

    It begins with one latency, in which its devices find each other. `size_bytes` is what each device holds of the
    unsplit tensor: what an all-gather ends with, a reduce-scatter and an all-reduce begin with, and the split input
    times n of an all-to-all. In a ring a device sends (n - 1) / n of it in n - 1 messages, twice for an all-reduce; of
    an all-to-all 1 / n of that, and its messages go at once. [Thakur et al., IJHPCA 19(1), 2005] An all-reduce goes
    over a double binary tree where that is faster, a chain inside each domain: fewer messages follow each other, and
    all of the tensor is sent up and down [Sanders et al., Parallel Computing 35(12), 2009; NCCL,
    `src/graph/tuning.cc`]; a switch that adds up spares its devices half of the traffic. A send is one message of a
    part, which may go between domains, and a ring n - 1 of them, each of which begins on its own.
    """
    if axis.size == 1 or not size_bytes:
        return 0
    if collective in (Collective.SEND, Collective.RING):
        furthest_ns = axis.latency_ns if axis.domains == 1 else max(axis.latency_ns, axis.domain_latency_ns)
        send_ns = axis.start_ns + furthest_ns + _bytes_ns(axis, size_bytes, axis.size)
        return send_ns * (axis.size - 1 if collective is Collective.RING else 1)
    start_ns = axis.start_ns + axis.latency_ns
    ring_ns = _messages_ns(axis, axis.size - 1, axis.domains - 1)
    if collective is Collective.ALL_TO_ALL:
        latency_ns = axis.latency_ns if axis.domains == 1 else axis.domain_latency_ns
        return start_ns + latency_ns + _bytes_ns(axis, size_bytes * (axis.size - 1), axis.size**2)
    if collective is not Collective.ALL_REDUCE:
        return start_ns + ring_ns + _bytes_ns(axis, size_bytes * (axis.size - 1), axis.size)
    members, depth = -(-axis.size // axis.domains), (axis.domains - 1).bit_length()
    ways = [
        2 * ring_ns + _bytes_ns(axis, 2 * size_bytes * (axis.size - 1), axis.size),
        2 * _messages_ns(axis, members - 1 + depth, depth) + _bytes_ns(axis, 2 * size_bytes, 1),
    ]
    if axis.switch_reduces and axis.domains == 1:
        ways.append(2 * axis.latency_ns + _bytes_ns(axis, size_bytes, 1))
    return start_ns + min(ways)


def _messages_ns(axis: MeshAxis, count: int, between_domains: int) -> int:
    """Return the time of `count` messages in a row beside their bytes, some of them between domains."""
    return (count - between_domains) * axis.latency_ns + between_domains * axis.domain_latency_ns


def _bytes_ns(axis: MeshAxis, sent: int, parts: int) -> int:
    """Return the time in which a device sends `sent` / `parts` bytes, rounded up."""
    return -(-sent * NANOSECONDS_PER_SECOND // (parts * axis.bandwidth_bytes_per_s))
