"""The time of a ring collective, the one formula behind operator shardings and analytic stages."""

from evenflow.cluster.mesh import MeshAxis

NANOSECONDS_PER_SECOND = 1_000_000_000
_ROUNDS = {"all-gather": 1, "reduce-scatter": 1, "all-reduce": 2, "all-to-all": 1}


def collective_ns(axis: MeshAxis, name: str, size_bytes: int) -> int:
    """Nanoseconds of a collective over the n devices of `axis`, rounded up; nothing takes no time.

    `size_bytes` is what each device holds of the unsplit tensor: what an all-gather ends with, a reduce-scatter and an
    all-reduce begin with, and the split input times n of an all-to-all. A device sends (n - 1) / n of it, twice for an
    all-reduce, and 1 / n of that for an all-to-all; a collective starts with one latency. [Thakur et al., IJHPCA 19(1),
    2005]
    """
    if axis.size == 1 or not size_bytes:
        return 0
    parts = axis.size**2 if name == "all-to-all" else axis.size
    sent = _ROUNDS[name] * size_bytes * (axis.size - 1) * NANOSECONDS_PER_SECOND
    return axis.latency_ns - (-sent // (parts * axis.bandwidth_bytes_per_s))
