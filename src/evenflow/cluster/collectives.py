"""The time of a ring collective, the one formula behind operator shardings and analytic stages."""

from enum import StrEnum

from evenflow.cluster.mesh import MeshAxis

NANOSECONDS_PER_SECOND = 1_000_000_000


class Collective(StrEnum):
    """An operation in which the devices of a mesh axis exchange parts of a tensor."""

    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_REDUCE = "all-reduce"
    ALL_TO_ALL = "all-to-all"


def collective_ns(axis: MeshAxis, collective: Collective, size_bytes: int) -> int:
    """Return the nanoseconds of a collective over the n devices of `axis`, rounded up; nothing takes no time.

    `size_bytes` is what each device holds of the unsplit tensor: what an all-gather ends with, a reduce-scatter and an
    all-reduce begin with, and the split input times n of an all-to-all. A device sends (n - 1) / n of it, twice for an
    all-reduce, and 1 / n of that for an all-to-all; a collective starts with one latency. [Thakur et al., IJHPCA 19(1),
    2005]
    """
    if axis.size == 1 or not size_bytes:
        return 0
    parts = axis.size**2 if collective is Collective.ALL_TO_ALL else axis.size
    rounds = 2 if collective is Collective.ALL_REDUCE else 1
    sent = rounds * size_bytes * (axis.size - 1) * NANOSECONDS_PER_SECOND
    return axis.latency_ns - (-sent // (parts * axis.bandwidth_bytes_per_s))
