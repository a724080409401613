"""Ring collectives, worked out by hand."""

import pytest

from evenflow.cluster.cluster import Link
from evenflow.cluster.collectives import Collective, collective_ns
from evenflow.cluster.logical_mesh import mesh_axis
from evenflow.cluster.mesh import MeshAxis

AXIS = MeshAxis(size=4, bandwidth_bytes_per_s=10**9, latency_ns=7)


@pytest.mark.parametrize(
    ("name", "ns"),
    [
        (Collective.ALL_GATHER, 7 + 3000),  # 3/4 of 4000 bytes at a byte a nanosecond
        (Collective.REDUCE_SCATTER, 7 + 3000),
        (Collective.ALL_REDUCE, 7 + 6000),
        (Collective.ALL_TO_ALL, 7 + 750),
    ],
)
def test_rings_of_four(name: Collective, ns: int) -> None:
    assert collective_ns(AXIS, name, 4000) == ns


def test_rounded_up() -> None:
    assert collective_ns(AXIS, Collective.ALL_GATHER, 3) == 7 + 3  # 2.25 bytes


def test_nothing_takes_no_time() -> None:
    assert collective_ns(AXIS, Collective.ALL_REDUCE, 0) == 0
    assert collective_ns(mesh_axis(1, Link(bytes_per_s=1, latency_ns=5)), Collective.ALL_REDUCE, 100) == 0
