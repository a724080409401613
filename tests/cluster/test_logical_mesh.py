import pytest

from evenflow.cluster.cluster import Cluster, Link, Submesh
from evenflow.cluster.logical_mesh import logical_meshes


@pytest.mark.parametrize(
    ("submesh", "shapes"),
    [
        ((1, 1), [(1,)]),
        ((1, 2), [(2,)]),
        ((1, 8), [(8,), (2, 4)]),
        ((2, 8), [(2, 8), (4, 4), (8, 2)]),
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
        assert all(axis.bandwidth_bytes_per_s == fast.bytes_per_s for axis in mesh.axes[1:])


@pytest.mark.parametrize(
    ("submesh", "shapes"),
    [
        ((1, 4), []),
        ((1, 8), [(2, 2, 2)]),
        ((1, 12), [(3, 2, 2), (2, 2, 3), (2, 3, 2)]),
        ((2, 8), [(2, 2, 4), (2, 4, 2)]),
        ((3, 1), []),
    ],
)
def test_three_axes(submesh: tuple[int, int], shapes: list[tuple[int, ...]]) -> None:
    """All orders, since plain plans use each axis for something else."""
    fast, slow = Link(bytes_per_s=100), Link(bytes_per_s=10)
    cluster = Cluster(num_nodes=4, devices_per_node=submesh[1], memory_bytes=1, intra=fast, inter=slow)
    few, many = (logical_meshes(cluster, Submesh(*submesh), None, most_axes=most) for most in (2, 3))
    assert many[: len(few)] == few
    assert sorted(mesh.shape for mesh in many[len(few) :]) == sorted(shapes)
    for mesh in many[len(few) :]:
        assert mesh.num_devices == submesh[0] * submesh[1]
        assert (mesh.axes[0].domains, mesh.axes[1].domains, mesh.axes[2].domains) == (submesh[0], 1, 1)
