"""The cluster of ``evenflow auto``: in a file, or described by options."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from evenflow.cli.shared.options import FILE
from evenflow.cluster import Accelerator, Cluster, Link, parse_mesh
from evenflow.cluster.topology import usual_links
from evenflow.errors import InputError
from evenflow.language import _, joined
from evenflow.profiles.cluster_file import read_cluster_file
from evenflow.units import format_memory, parse_bandwidth, parse_memory, parse_time

_DESCRIBED = (
    click.option("--mesh", metavar="NxM", help="Nodes x devices in each node, such as 2x4."),
    click.option("--memory", metavar="SIZE", help="Memory of a device, such as 80GB."),
    click.option("--intra-bandwidth", metavar="RATE", help="Bandwidth of a device inside its node, such as 200GBps."),
    click.option("--inter-bandwidth", metavar="RATE", help="Bandwidth of a device to other nodes, such as 25GBps."),
    click.option("--intra-latency", metavar="TIME", help="Latency of a message in a node, such as 5us."),
    click.option(
        "--inter-latency",
        metavar="TIME",
        help="Latency of one between nodes, such as 20us. What none of these options says is that of --accelerator.",
    ),
    click.option(
        "--host-bandwidth",
        metavar="RATE",
        help="Bandwidth of a device to its host's memory, such as 25GBps: activations may then wait there.  "
        "[default: they do not]",
    ),
)
_NAMES = ("mesh", "memory", "intra_bandwidth", "inter_bandwidth", "intra_latency", "inter_latency", "host_bandwidth")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The cluster that a command line describes: a cluster file, or the texts of seven options."""

    file: Path | None
    texts: dict[str, str]
    """Value by option."""

    def cluster(self, accelerator: Accelerator) -> Cluster:
        """Return the cluster; memory and links that are not stated are those of `accelerator`.

        Raises:
            InputError: options beside a file, or no mesh.
        """
        if self.file is not None:
            if self.texts:
                option, value = next(iter(self.texts.items()))
                raise InputError(
                    value=value,
                    rule=_("must not be given beside --cluster"),
                    place=option,
                    remedy=_("leave one of the two out"),
                )
            return read_cluster_file(self.file, accelerator)
        if "--mesh" not in self.texts:
            raise InputError(
                rule=_("must be given to describe a cluster"),
                place="--mesh",
                remedy=_("add it, or --cluster FILE"),
            )
        num_nodes, devices_per_node = parse_mesh(self.texts["--mesh"], place="--mesh")
        intra, inter = usual_links(accelerator)
        memory, host = "--memory", "--host-bandwidth"
        return Cluster(
            num_nodes=num_nodes,
            devices_per_node=devices_per_node,
            memory_bytes=(
                parse_memory(self.texts[memory], place=memory) if memory in self.texts else accelerator.memory_bytes
            ),
            intra=self._link("intra", intra),
            inter=self._link("inter", inter),
            host=Link(bytes_per_s=parse_bandwidth(self.texts[host], place=host)) if host in self.texts else None,
        )

    def _link(self, name: str, usual: Link) -> Link:
        """Return the ``intra`` or ``inter`` links: the usual ones with what the options change."""
        bandwidth, latency = f"--{name}-bandwidth", f"--{name}-latency"
        link = usual
        if bandwidth in self.texts:
            link = replace(link, bytes_per_s=parse_bandwidth(self.texts[bandwidth], place=bandwidth))
        if latency in self.texts:
            link = replace(link, latency_ns=parse_time(self.texts[latency], place=latency), start_ns=0)
        return link


def taken_notes(cluster: Cluster, accelerator: Accelerator) -> tuple[str, ...]:
    """Return a sentence on what was taken from the accelerator's data sheet; none where everything was stated."""
    intra, inter = usual_links(accelerator)
    taken = [
        *(
            [_("memory {size}", size=format_memory(cluster.memory_bytes))]
            * (cluster.memory_bytes == accelerator.memory_bytes)
        ),
        *_taken_link(_("links inside a node"), cluster.intra, intra, has_any=cluster.devices_per_node > 1),
        *_taken_link(_("links between nodes"), cluster.inter, inter, has_any=cluster.num_nodes > 1),
    ]
    return (_("as {name} has them: {taken}", name=accelerator.name, taken=joined(taken)),) if taken else ()


def _taken_link(title: str, link: Link, usual: Link, *, has_any: bool) -> list[str]:
    if not has_any:
        return []
    values = {"title": title, "rate": link.bytes_per_s / 1e9, "latency": link.message_ns / 1000}
    same_rate = link.bytes_per_s == usual.bytes_per_s
    same_latency = (link.start_ns, link.latency_ns) == (usual.start_ns, usual.latency_ns)
    if same_rate and same_latency:
        return [_("{title} {rate:,.1f} GB/s, latency {latency:,.1f} us", **values)]
    if same_rate:
        return [_("{title} {rate:,.1f} GB/s", **values)]
    return [_("{title} latency {latency:,.1f} us", **values)] if same_latency else []


def cluster_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command, which gets them as `described`."""

    @functools.wraps(command)
    def with_cluster(*, cluster_file: Path | None, **keywords: Any) -> int:
        texts = {f"--{name.replace('_', '-')}": keywords.pop(name) for name in _NAMES}
        text_of_option = {option: text for option, text in texts.items() if text is not None}
        return command(described=ClusterOptions(file=cluster_file, texts=text_of_option), **keywords)

    file = click.option(
        "--cluster", "cluster_file", type=FILE, metavar="FILE", help="Cluster file instead of the seven options above."
    )
    for option in (file, *reversed(_DESCRIBED)):
        with_cluster = option(with_cluster)
    return with_cluster
