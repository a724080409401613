"""A cluster in a file, YAML or JSON (by the ending ``.json``).

name: two-nodes              optional; else the name of the file
mesh: 2x8                    nodes x devices in each
memory: 80GB                 of one device
intra_bandwidth: 200GBps     of one device to others of its node
inter_bandwidth: 25GBps      of one device to other nodes
intra_latency: 5us           of one message; optional, else 0
inter_latency: 20us
peak: 312TFLOPS              of one device; optional
"""

from pathlib import Path

from evenflow.cluster import Cluster, Link, parse_mesh
from evenflow.fields import Fields, as_fields, load_json, read_text
from evenflow.profiles.yaml_file import load_yaml
from evenflow.units import parse_bandwidth, parse_flops, parse_memory, parse_time

_REQUIRED = ("mesh", "memory", "intra_bandwidth", "inter_bandwidth")
_OPTIONAL = ("name", "intra_latency", "inter_latency", "peak")


def read_cluster_file(path: Path | str) -> Cluster:
    """Return the cluster in a file; raises `InputError` as `parse_cluster_file` does."""
    return parse_cluster_file(read_text(path), place=str(path))


def parse_cluster_file(text: str, *, place: str) -> Cluster:
    """Return the cluster in the text of a file; `place` names the file in messages and tells JSON from YAML.

    Raises:
        InputError: a field that is unknown, missing or of a wrong form, or a cluster that makes no sense.
    """
    is_json = place.lower().endswith(".json")
    fields = as_fields(load_json(text, file=place), file=place) if is_json else load_yaml(text, file=place)
    fields.check_known((*_REQUIRED, *_OPTIONAL))
    num_nodes, devices_per_node = parse_mesh(fields.quantity("mesh"), place=fields.place("mesh"))
    with fields.at():
        return Cluster(
            name=fields.text("name") if "name" in fields else Path(place).stem,
            num_nodes=num_nodes,
            devices_per_node=devices_per_node,
            memory_bytes=parse_memory(fields.quantity("memory"), place=fields.place("memory")),
            intra=_link(fields, "intra"),
            inter=_link(fields, "inter"),
            peak_flops=parse_flops(fields.quantity("peak"), place=fields.place("peak")) if "peak" in fields else None,
        )


def _link(fields: Fields, reach: str) -> Link:
    """Return the links within a node (`reach` ``intra``) or between nodes (``inter``)."""
    bandwidth, latency = f"{reach}_bandwidth", f"{reach}_latency"
    return Link(
        bytes_per_s=parse_bandwidth(fields.quantity(bandwidth), place=fields.place(bandwidth)),
        latency_ns=parse_time(fields.quantity(latency), place=fields.place(latency)) if latency in fields else 0,
    )
