"""A cluster in a file, YAML or JSON (by the ending ``.json``).

name: two-nodes              optional; else the name of the file
mesh: 2x8                    nodes x devices in each
memory: 80GB                 of one device
link: {bandwidth: 200GBps, latency: 5us}      of one device to others of its node, and of one message
network: {bandwidth: 25GBps, latency: 20us}   of one device to other nodes; of one card beside `cards_per_node`
peak: 312TFLOPS              of one device; optional
host_bandwidth: 25GBps       of one device to its host's memory; optional: then activations may wait there

``intra_bandwidth``, ``intra_latency``, ``inter_bandwidth`` and ``inter_latency`` say the same as `link` and `network`.
What is not stated is that of the accelerator, where one is given.
"""

from dataclasses import replace
from pathlib import Path

from evenflow.cluster import Accelerator, Cluster, Link, parse_mesh
from evenflow.cluster.topology import usual_links
from evenflow.fields import Fields, read_text
from evenflow.language import _
from evenflow.profiles.accelerator_file import card_share
from evenflow.profiles.yaml_file import load_object, section
from evenflow.units import parse_bandwidth, parse_flops, parse_memory, parse_time

_SECTIONS = {"intra": "link", "inter": "network"}
"""What a kind of link is called as a section of the file."""
_CARDS = "cards_per_node"
_FIELDS = (
    "mesh", "memory", "intra_bandwidth", "inter_bandwidth", "name", "intra_latency", "inter_latency", "peak",
    "host_bandwidth",
    *_SECTIONS.values(),
)  # fmt: skip


def read_cluster_file(path: Path | str, accelerator: Accelerator | None = None) -> Cluster:
    """Return the cluster in a file; raises `InputError` as `parse_cluster_file` does."""
    return parse_cluster_file(read_text(path), place=str(path), accelerator=accelerator)


def parse_cluster_file(text: str, *, place: str, accelerator: Accelerator | None = None) -> Cluster:
    """Return the cluster in the text of a file; `place` names the file in messages and tells JSON from YAML.

    Memory and links that the file does not state are those that `accelerator` has and reaches.

    Raises:
        InputError: a field that is unknown, missing or of a wrong form, or a cluster that makes no sense.
    """
    fields = load_object(text, file=place)
    fields.check_known(_FIELDS)
    num_nodes, devices_per_node = parse_mesh(fields.quantity("mesh"), place=fields.place("mesh"))
    usual_intra, usual_inter = usual_links(accelerator) if accelerator else (None, None)
    with fields.at():
        return Cluster(
            name=fields.text("name") if "name" in fields else Path(place).stem,
            num_nodes=num_nodes,
            devices_per_node=devices_per_node,
            memory_bytes=(
                accelerator.memory_bytes
                if accelerator and "memory" not in fields
                else parse_memory(fields.quantity("memory"), place=fields.place("memory"))
            ),
            intra=_link(fields, "intra", devices_per_node, usual_intra),
            inter=_link(fields, "inter", devices_per_node, usual_inter),
            peak_flops=parse_flops(fields.quantity("peak"), place=fields.place("peak")) if "peak" in fields else None,
            host=Link(
                bytes_per_s=parse_bandwidth(fields.quantity("host_bandwidth"), place=fields.place("host_bandwidth"))
            )
            if "host_bandwidth" in fields
            else None,
        )


def _link(fields: Fields, reach: str, devices_per_node: int, usual: Link | None) -> Link:
    """Return the links within a node (`reach` ``intra``) or between nodes (``inter``)."""
    bandwidth, latency, name = f"{reach}_bandwidth", f"{reach}_latency", _SECTIONS[reach]
    share = 1.0
    if name in fields:
        for key in (bandwidth, latency):
            if key in fields:
                raise fields.error(
                    key, _("must not be given beside {name}", name=name), remedy=_("keep one of the two")
                )
        fields, bandwidth, latency = section(fields, name), "bandwidth", "latency"
        fields.check_known((bandwidth, latency, *([_CARDS] if reach == "inter" else [])))
        share = card_share(fields, devices_per_node)
    if usual and bandwidth not in fields and _CARDS not in fields:
        bytes_per_s = usual.bytes_per_s
    else:
        stated = parse_bandwidth(fields.quantity(bandwidth), place=fields.place(bandwidth))
        bytes_per_s = max(1, round(stated * share))
    if usual and latency not in fields:
        return replace(usual, bytes_per_s=bytes_per_s)
    latency_ns = parse_time(fields.quantity(latency), place=fields.place(latency)) if latency in fields else 0
    return Link(bytes_per_s=bytes_per_s, latency_ns=latency_ns)
