"""The cluster of ``evenflow auto``: in a file, or described by options."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from evenflow.cli.shared.options import FILE
from evenflow.cluster import Cluster, Link, parse_mesh
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.cluster_file import read_cluster_file
from evenflow.units import parse_bandwidth, parse_memory, parse_time

_DESCRIBED = (
    click.option("--mesh", metavar="NxM", help="Nodes x devices in each node, such as 2x4."),
    click.option("--memory", metavar="SIZE", help="Memory of a device, such as 80GB."),
    click.option("--intra-bandwidth", metavar="RATE", help="Bandwidth of a device inside its node, such as 200GBps."),
    click.option("--inter-bandwidth", metavar="RATE", help="Bandwidth of a device to other nodes, such as 25GBps."),
    click.option("--intra-latency", metavar="TIME", help="Latency of a message in a node, such as 5us."),
    click.option("--inter-latency", metavar="TIME", help="Latency of a message between nodes, such as 20us."),
)
_NAMES = ("mesh", "memory", "intra_bandwidth", "inter_bandwidth", "intra_latency", "inter_latency")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """A cluster file, or what was given of the six options instead."""

    file: Path | None
    given: dict[str, str]
    """Value by option."""

    def cluster(self) -> Cluster:
        """Return the cluster; raises InputError for options beside a file, and for missing ones."""
        if self.file is not None:
            if self.given:
                option, value = next(iter(self.given.items()))
                raise InputError(
                    value=value,
                    rule=_("must not be given beside --cluster"),
                    place=option,
                    remedy=_("leave one of the two out"),
                )
            return read_cluster_file(self.file)
        for option in ("--mesh", "--memory"):
            if option not in self.given:
                raise InputError(
                    value=None,
                    rule=_("must be given to describe a cluster"),
                    place=option,
                    remedy=_("add it, or --cluster FILE"),
                )
        num_nodes, devices_per_node = parse_mesh(self.given["--mesh"], place="--mesh")
        intra, inter = self._link("intra"), self._link("inter")
        mesh = f"{num_nodes}x{devices_per_node}"
        for link, rule, option in (
            (
                intra or devices_per_node == 1,
                _("must be given for a mesh of {mesh}, which has links inside a node", mesh=mesh),
                "--intra-bandwidth",
            ),
            (
                inter or num_nodes == 1,
                _("must be given for a mesh of {mesh}, which has links between nodes", mesh=mesh),
                "--inter-bandwidth",
            ),
        ):
            if not link:
                raise InputError(
                    value=None,
                    rule=rule,
                    place=option,
                    remedy=_("write for example 200GBps"),
                )
        # A cluster without such links has any others in their place.
        return Cluster(
            num_nodes=num_nodes,
            devices_per_node=devices_per_node,
            memory_bytes=parse_memory(self.given["--memory"], place="--memory"),
            intra=intra or inter or Link(bytes_per_s=1),
            inter=inter or intra or Link(bytes_per_s=1),
        )

    def _link(self, name: str) -> Link | None:
        """Return the links of that name; None where no bandwidth was given."""
        bandwidth, latency = f"--{name}-bandwidth", f"--{name}-latency"
        if bandwidth not in self.given:
            return None
        return Link(
            bytes_per_s=parse_bandwidth(self.given[bandwidth], place=bandwidth),
            latency_ns=parse_time(self.given.get(latency, "0s"), place=latency),
        )


def cluster_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command, which gets them as `described`."""

    @functools.wraps(command)
    def with_cluster(*, cluster_file: Path | None, **keywords: Any) -> int:
        texts = {f"--{name.replace('_', '-')}": keywords.pop(name) for name in _NAMES}
        given = {option: text for option, text in texts.items() if text is not None}
        return command(described=ClusterOptions(file=cluster_file, given=given), **keywords)

    file = click.option(
        "--cluster", "cluster_file", type=FILE, metavar="FILE", help="Cluster file instead of the six options above."
    )
    for option in (file, *reversed(_DESCRIBED)):
        with_cluster = option(with_cluster)
    return with_cluster
