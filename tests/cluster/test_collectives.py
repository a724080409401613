"""Ring collectives, worked out by hand."""

import pytest

from evenflow.cluster.cluster import Cluster, Link, Submesh
from evenflow.cluster.collectives import collective_ns
from evenflow.cluster.logical_mesh import logical_meshes, mesh_axis
from evenflow.cluster.mesh import MeshAxis

AXIS = MeshAxis(size=4, bandwidth_bytes_per_s=10**9, latency_ns=7)


@pytest.mark.parametrize(
    ("name", "ns"),
    [
        ("all-gather", 7 + 3000),  # 3/4 of 4000 bytes at a byte a nanosecond
        ("reduce-scatter", 7 + 3000),
        ("all-reduce", 7 + 6000),
        ("all-to-all", 7 + 750),
    ],
)
def test_rings_of_four(name: str, ns: int) -> None:
    assert collective_ns(AXIS, name, 4000) == ns


def test_rounded_up() -> None:
    assert collective_ns(AXIS, "all-gather", 3) == 7 + 3  # 2.25 bytes


def test_nothing_takes_no_time() -> None:
    assert collective_ns(AXIS, "all-reduce", 0) == 0
    assert collective_ns(mesh_axis(1, Link(bytes_per_s=1, latency_ns=5)), "all-reduce", 100) == 0


@pytest.mark.parametrize(
    ("submesh", "shapes"),
    [
        ((1, 1), [(1,)]),
        ((1, 2), [(2,)]),
        ((1, 8), [(8,), (2, 4)]),
        ((2, 8), [(2, 8), (4, 4)]),
        ((3, 1), [(3,)]),
    ],
)
def test_logical_meshes(submesh: tuple[int, int], shapes: list[tuple[int, ...]]) -> None:
    fast, slow = Link(bytes_per_s=100), Link(bytes_per_s=10)
    cluster = Cluster(num_nodes=4, devices_per_node=8, memory_bytes=1, intra=fast, inter=slow)
    meshes = logical_meshes(cluster, Submesh(*submesh), None)
    assert [mesh.shape for mesh in meshes] == shapes
    for mesh in meshes:
        assert mesh.num_devices == submesh[0] * submesh[1]
        outer = slow if submesh[0] > 1 else fast
        assert mesh.axes[0].bandwidth_bytes_per_s == outer.bytes_per_s
        if len(mesh.axes) == 2:
            assert mesh.axes[1].bandwidth_bytes_per_s == fast.bytes_per_s
