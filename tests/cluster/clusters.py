"""Small clusters with slow links between nodes."""

from evenflow.cluster.cluster import Cluster, Link


def mesh(num_nodes: int, devices_per_node: int, **other: object) -> Cluster:
    values = {"memory_bytes": 100, "intra": Link(bytes_per_s=200), "inter": Link(bytes_per_s=25), **other}
    return Cluster(num_nodes=num_nodes, devices_per_node=devices_per_node, **values)
