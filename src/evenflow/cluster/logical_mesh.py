"""The logical meshes that a submesh of the cluster is tried as. [Alpa, §5.2]

    1x8    one axis of 8, or 2 x 4, all on the links of a node
    2x8    2 x 8: the outer axis between nodes, the inner one inside; or 4 x 4, the outer one also between nodes

Of two axes on equal links the order does not matter, and two axes can split one dimension, so few shapes hold what
larger lists would.
"""

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.cluster import Cluster, Link, Submesh
from evenflow.cluster.mesh import Mesh, MeshAxis


def mesh_axis(size: int, link: Link, *, domains: int = 1) -> MeshAxis:
    """Return an axis of `size` devices on a kind of link, in so many nodes."""
    return MeshAxis(
        size=size,
        bandwidth_bytes_per_s=link.bytes_per_s,
        latency_ns=link.latency_ns,
        start_ns=link.start_ns,
        domains=domains,
        domain_latency_ns=link.latency_ns,
    )


def logical_meshes(cluster: Cluster, submesh: Submesh, accelerator: Accelerator | None) -> tuple[Mesh, ...]:
    """Slowest axis first; the devices of the submesh in order, the last axis varying fastest."""
    nodes, width = submesh
    outer = next(size for size in range(int(width**0.5), 0, -1) if width % size == 0)
    inside = [(width,)] if outer == 1 else [(width,), (outer, width // outer)]
    if nodes == 1:
        shapes = [tuple(mesh_axis(size, cluster.intra) for size in shape) for shape in inside]
    elif width == 1:
        shapes = [(mesh_axis(nodes, cluster.inter, domains=nodes),)]
    else:
        pairs = [(nodes * shape[0], shape[1]) if len(shape) == 2 else (nodes, *shape) for shape in inside]
        shapes = [
            (mesh_axis(first, cluster.inter, domains=nodes), mesh_axis(second, cluster.intra))
            for first, second in pairs
        ]
    return tuple(Mesh(axes=axes, accelerator=accelerator) for axes in shapes)
