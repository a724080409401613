"""The logical meshes that a submesh of the cluster is tried as. [Alpa, §5.2]

    1x8    one axis of 8, or 2 x 4, all on the links of a node
    2x8    2 x 8: the outer axis between nodes, the inner one inside; 4 x 4 and 8 x 2, the outer one between nodes too

With three axes also

    1x8    2 x 2 x 2
    2x8    2 x 2 x 4 and 2 x 4 x 2: the outer axis between nodes, the others inside

Of two axes on equal links the order does not matter, and two axes can split one dimension, so few shapes hold what
larger lists would.
"""

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.cluster import Cluster, Link, Submesh
from evenflow.cluster.mesh import Mesh, MeshAxis
from evenflow.ranges import MESH_AXES

FEWEST_AXES, MOST_AXES = int(MESH_AXES.least), int(MESH_AXES.most)
"""Axes of a logical mesh that may be asked for."""


def mesh_axis(size: int, link: Link, *, domains: int = 1) -> MeshAxis:
    """Return a mesh axis of `size` devices on a kind of link, in a number of nodes."""
    return MeshAxis(
        size=size,
        bandwidth_bytes_per_s=link.bytes_per_s,
        latency_ns=link.latency_ns,
        start_ns=link.start_ns,
        domains=domains,
        domain_latency_ns=link.latency_ns,
    )


def logical_meshes(
    cluster: Cluster, submesh: Submesh, accelerator: Accelerator | None, *, most_axes: int = FEWEST_AXES
) -> tuple[Mesh, ...]:
    """Slowest axis first; the devices of the submesh in order, the last axis varying fastest.

    The most promising come first: one axis for each kind of link, then two equal factors, then other ones.
    """
    nodes, width = submesh
    pairs = _pairs(width)
    if nodes == 1:
        shapes: list[tuple[int, ...]] = [(width,), *(pair for pair in pairs if pair[0] <= pair[1])]
        triples = [(outer, *pair) for outer, inner in pairs for pair in _pairs(inner)]
    elif width == 1:
        shapes, triples = [(nodes,)], []
    else:
        shapes = [(nodes, width), *((nodes * outer, inner) for outer, inner in pairs)]
        triples = [(nodes, *pair) for pair in pairs]
    if most_axes > FEWEST_AXES:
        shapes += triples
    return tuple(Mesh(axes=_axes(cluster, nodes, shape), accelerator=accelerator) for shape in shapes)


def _axes(cluster: Cluster, nodes: int, shape: tuple[int, ...]) -> tuple[MeshAxis, ...]:
    """Return the axes of a shape, whose first one is between nodes where there are several."""
    if nodes == 1:
        return tuple(mesh_axis(size, cluster.intra) for size in shape)
    return (mesh_axis(shape[0], cluster.inter, domains=nodes), *(mesh_axis(size, cluster.intra) for size in shape[1:]))


def _pairs(size: int) -> list[tuple[int, int]]:
    """Return the pairs of factors above one, the most equal first, the smaller of two as the outer one first."""
    pairs = [(outer, size // outer) for outer in range(2, size) if size % outer == 0]
    return sorted(pairs, key=lambda pair: (abs(pair[0] - pair[1]), pair))
