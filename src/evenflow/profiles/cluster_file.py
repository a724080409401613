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

from evenflow.cluster.cluster import Cluster, Link, parse_mesh
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, load_json, read_text
from evenflow.profiles.yaml_file import load_yaml
from evenflow.units import parse_bandwidth, parse_flops, parse_memory, parse_time

_REQUIRED = ("mesh", "memory", "intra_bandwidth", "inter_bandwidth")
_OPTIONAL = ("name", "intra_latency", "inter_latency", "peak")


def read_cluster_file(path: Path | str) -> Cluster:
    """The cluster of a file.

    Raises:
        InputError: a file that cannot be read, a field that is unknown, missing or of a wrong form, or a cluster that
            makes no sense.
    """
    file = str(path)
    text = read_text(path)
    json = file.lower().endswith(".json")
    fields = as_fields(load_json(text, file=file), file=file) if json else load_yaml(text, file=file)
    fields.check_known((*_REQUIRED, *_OPTIONAL))
    num_nodes, devices_per_node = parse_mesh(_text(fields, "mesh"), place=fields.place("mesh"))
    try:
        return Cluster(
            name=fields.text("name") if "name" in fields else Path(path).stem,
            num_nodes=num_nodes,
            devices_per_node=devices_per_node,
            memory_bytes=parse_memory(_text(fields, "memory"), place=fields.place("memory")),
            intra=_link(fields, "intra"),
            inter=_link(fields, "inter"),
            peak_flops=parse_flops(_text(fields, "peak"), place=fields.place("peak")) if "peak" in fields else None,
        )
    except InputError as error:
        if error.place.startswith(file):
            raise
        place = f"{file}: {error.place}"
        raise InputError(value=error.value, rule=error.rule, place=place, remedy=error.remedy) from None


def _link(fields: Fields, which: str) -> Link:
    """One kind of link."""
    bandwidth, latency = f"{which}_bandwidth", f"{which}_latency"
    return Link(
        bytes_per_s=parse_bandwidth(_text(fields, bandwidth), place=fields.place(bandwidth)),
        latency_ns=parse_time(_text(fields, latency), place=fields.place(latency)) if latency in fields else 0,
    )


def _text(fields: Fields, key: str) -> str:
    """A quantity with its unit; a bare number is read as its text, and the parser of the unit judges it."""
    value = fields.required(key)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else fields.text(key)
