"""The cluster of ``evenflow auto``: in a file, or described by options."""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from evenflow.asking import Metadata, asked, optional
from evenflow.cluster import Accelerator, Cluster, Link, parse_mesh
from evenflow.cluster.topology import usual_links
from evenflow.errors import InputError
from evenflow.language import _, joined
from evenflow.profiles.cluster_file import read_cluster_file
from evenflow.units import format_memory, parse_bandwidth, parse_memory, parse_time


def _of_link(option: str, metavar: str, help_text: str) -> Metadata:
    return asked(option=option, metavar=metavar, help=help_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The cluster that a command line describes: a cluster file, or the texts of seven options."""

    mesh: str | None = optional("--mesh", metavar="NxM", help="Nodes x devices in each node, such as 2x4.")
    memory: str | None = optional("--memory", metavar="SIZE", help="Memory of a device, such as 80GB.")
    intra_bandwidth: str | None = field(
        default=None,
        metadata=_of_link("--intra-bandwidth", "RATE", "Bandwidth of a device inside its node, such as 200GBps."),
    )
    inter_bandwidth: str | None = field(
        default=None,
        metadata=_of_link("--inter-bandwidth", "RATE", "Bandwidth of a device to other nodes, such as 25GBps."),
    )
    intra_latency: str | None = field(
        default=None, metadata=_of_link("--intra-latency", "TIME", "Latency of a message in a node, such as 5us.")
    )
    inter_latency: str | None = field(
        default=None,
        metadata=_of_link(
            "--inter-latency",
            "TIME",
            "Latency of one between nodes, such as 20us. What none of these options says is that of --accelerator.",
        ),
    )
    host_bandwidth: str | None = field(
        default=None,
        metadata=_of_link(
            "--host-bandwidth",
            "RATE",
            "Bandwidth of a device to its host's memory, such as 25GBps: activations may then wait there.  "
            "[default: they do not]",
        ),
    )
    file: Path | None = optional("--cluster", help="Cluster file instead of the seven options above.")

    @property
    def texts(self) -> dict[str, str]:
        """What is given of the seven, by option."""
        names = [described.name for described in fields(self) if described.name != "file"]
        given = {f"--{name.replace('_', '-')}": getattr(self, name) for name in names}
        return {option: text for option, text in given.items() if text is not None}

    def cluster(self, accelerator: Accelerator) -> Cluster:
        """Return the cluster; memory and links that are not stated are those of `accelerator`.

        Raises:
            InputError: options beside a file, or no mesh.
        """
        if self.file is not None:
            for option, value in self.texts.items():
                raise InputError(
                    value=value,
                    rule=_("must not be given beside --cluster"),
                    place=option,
                    remedy=_("leave one of the two out"),
                )
            return read_cluster_file(self.file, accelerator)
        if self.mesh is None:
            raise InputError(
                rule=_("must be given to describe a cluster"),
                place="--mesh",
                remedy=_("add it, or --cluster FILE"),
            )
        num_nodes, devices_per_node = parse_mesh(self.mesh, place="--mesh")
        intra, inter = usual_links(accelerator)
        memory, host = self.memory, self.host_bandwidth
        return Cluster(
            num_nodes=num_nodes,
            devices_per_node=devices_per_node,
            memory_bytes=accelerator.memory_bytes
            if memory is None
            else parse_memory(memory, place="--memory", needs_unit=True),
            intra=_link("intra", intra, self.intra_bandwidth, self.intra_latency),
            inter=_link("inter", inter, self.inter_bandwidth, self.inter_latency),
            host=None if host is None else Link(bytes_per_s=parse_bandwidth(host, place="--host-bandwidth")),
        )


def _link(name: str, usual: Link, bandwidth: str | None, latency: str | None) -> Link:
    """Return the ``intra`` or ``inter`` links: the usual ones with what the options change."""
    link = usual
    if bandwidth is not None:
        link = replace(link, bytes_per_s=parse_bandwidth(bandwidth, place=f"--{name}-bandwidth"))
    if latency is not None:
        link = replace(link, latency_ns=parse_time(latency, place=f"--{name}-latency"), start_ns=0)
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
