"""The verb ``evenflow auto``."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evenflow.cli.shared import options
from evenflow.cli.shared.output_files import check_outputs, write_text
from evenflow.cli.shared.torch_extra import torch_extra
from evenflow.cli.status import INFEASIBLE
from evenflow.cli.text.auto_text import auto_text, shortage_text
from evenflow.cli.verbs.profile import config_path, model_name, shown_part
from evenflow.errors import InputError
from evenflow.export.results.json_text import format_object
from evenflow.fields import Fields, as_fields, load_json
from evenflow.torch_model.optimizers import OPTIMIZERS
from evenflow.units import parse_bandwidth, parse_memory, parse_time

if TYPE_CHECKING:
    from evenflow.auto.planner import AutoPlan
    from evenflow.cluster.cluster import Cluster, Link

MOST_PROCESSES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoSetting:
    """What was asked for beside model and cluster."""

    sequence: int
    microbatch: int
    num_microbatches: int
    accelerator: str
    efficiency: float
    dtype: str
    optimizer: str
    schedule: str
    time_limit_s: float

    def fields(self) -> dict[str, object]:
        """For the JSON file, what its plan does not have."""
        return {
            "sequence": self.sequence,
            "microbatch": self.microbatch,
            "accelerator": self.accelerator,
            "efficiency": self.efficiency,
            "dtype": self.dtype,
            "optimizer": self.optimizer,
        }


@click.command()
@click.option(
    "--model", required=True, metavar="CONFIG.json", help="A decoder's configuration, or the folder it is in."
)
@click.option("--mesh", metavar="NxM", help="Nodes x devices in each, such as 2x4.")
@click.option("--memory", metavar="SIZE", help="Memory of a device, such as 80GB.")
@click.option("--intra-bandwidth", metavar="RATE", help="Of a device to others of its node, such as 200GBps.")
@click.option("--inter-bandwidth", metavar="RATE", help="Of a device to other nodes, such as 25GBps.")
@click.option("--intra-latency", metavar="TIME", help="Of a message or collective in a node, such as 5us.")
@click.option("--inter-latency", metavar="TIME", help="Of one between nodes, such as 20us.")
@click.option(
    "--cluster", "cluster_file", type=options.FILE, metavar="FILE", help="A cluster file instead of the six above."
)
@options.MICROBATCHES
@click.option("--seq", "sequence", type=options.COUNT, default=4096, show_default=True, help="Tokens of a sequence.")
@click.option(
    "--microbatch",
    type=options.COUNT,
    help="Sequences of a microbatch, on all devices of a stage together.  [default: one for each device of the mesh]",
)
@click.option(
    "--accelerator", default="a100", show_default=True, metavar="NAME", help="a100, h100, h200, b200, mi300x or 910b."
)
@click.option(
    "--efficiency", type=float, default=0.7, show_default=True, metavar="SHARE", help="Of its peak that is reached."
)
@click.option("--dtype", type=click.Choice(["bf16", "fp16", "fp32"]), default="bf16", show_default=True)
@click.option(
    "--optimizer",
    type=click.Choice(list(OPTIMIZERS)),
    default="adam",
    show_default=True,
    help="What training keeps for a parameter, as in `evenflow profile`.",
)
@click.option(
    "--schedule",
    type=click.Choice(["1f1b", "eager-1f1b", "f-then-b"]),
    default="1f1b",
    show_default=True,
    help="That stages are chosen for; the refinement tries others.",
)
@options.TIME_LIMIT
@click.option(
    "-o", "--output", "layer_file", type=options.FILE, metavar="FILE", help="Write the layers, as their devices have "
    "them, as a layer file."
)  # fmt: skip
@options.JSON
@click.option("--svg", "svg_file", type=options.FILE, metavar="FILE", help="Draw mesh, timeline and memory.")
def auto(
    model: str,
    mesh: str | None,
    memory: str | None,
    intra_bandwidth: str | None,
    inter_bandwidth: str | None,
    intra_latency: str | None,
    inter_latency: str | None,
    cluster_file: Path | None,
    microbatches: int,
    sequence: int,
    microbatch: int | None,
    accelerator: str,
    efficiency: float,
    dtype: str,
    optimizer: str,
    schedule: str,
    time_limit: float,
    layer_file: Path | None,
    json_file: Path | None,
    svg_file: Path | None,
) -> int:
    """Plan both levels of parallelism: stages on parts of a cluster, and in each the sharding of every operator.

    Operators of each kind of layer are sharded by an integer program on every submesh; stages and submeshes follow by
    dynamic programming; the exact solver refines the pipeline. The JSON file is also a plan file: with the layer file
    it goes to `evenflow simulate`. --time-limit bounds each integer program and the refinement, in seconds.

    Exit status: 0 a plan, 2 bad input, 3 the model does not fit, 130 interrupted.

    \b
    Examples:
      evenflow auto --model examples/configs/llama3_70b.json --mesh 4x8 --memory 80GB --microbatches 16 \\
        --intra-bandwidth 200GBps --inter-bandwidth 25GBps --json auto_plan.json --svg auto.svg
      evenflow auto --model config.json --cluster examples/cluster_2x8.yaml --microbatches 32 -o layers.json
    """
    started = time.monotonic()
    path = config_path(model)
    check_outputs(
        {"--output": layer_file, "--json": json_file, "--svg": svg_file},
        inputs={"--model": Path(path), "--cluster": cluster_file},
    )
    described = {
        "--mesh": mesh,
        "--memory": memory,
        "--intra-bandwidth": intra_bandwidth,
        "--inter-bandwidth": inter_bandwidth,
        "--intra-latency": intra_latency,
        "--inter-latency": inter_latency,
    }
    cluster = _cluster(described, cluster_file)
    setting = AutoSetting(
        sequence=sequence,
        microbatch=microbatch or cluster.num_devices,
        num_microbatches=microbatches,
        accelerator=accelerator,
        efficiency=efficiency,
        dtype=dtype,
        optimizer=optimizer,
        schedule=schedule,
        time_limit_s=time_limit,
    )
    text, place = options.read_text(path)
    config = as_fields(load_json(text, file=place), file=place)
    with shown_part() as progress:
        found = _planned(config, model_name(path, place), cluster, setting, progress)
    return _answer(
        found,
        setting,
        seconds=time.monotonic() - started,
        layer_file=layer_file,
        json_file=json_file,
        svg_file=svg_file,
    )


def _cluster(described: dict[str, str | None], file: Path | None) -> "Cluster":
    """The cluster of a file, or of the options, by name."""
    from evenflow.cluster.cluster import Cluster, Link, parse_mesh
    from evenflow.profiles.cluster_file import read_cluster_file

    given = {option: value for option, value in described.items() if value is not None}
    if file is not None:
        if given:
            option, value = next(iter(given.items()))
            raise InputError(
                value=value, rule="the cluster is in a file or in options", place=option, remedy="leave out --cluster"
            )
        return read_cluster_file(file)
    for option in ("--mesh", "--memory"):
        if option not in given:
            raise InputError(
                value=None, rule="a cluster has a mesh and a memory", place=option, remedy="give it, or --cluster FILE"
            )
    num_nodes, devices_per_node = parse_mesh(given["--mesh"], place="--mesh")
    for which, where, needed in (
        ("intra", "inside a node", devices_per_node > 1),
        ("inter", "between nodes", num_nodes > 1),
    ):
        if needed and f"--{which}-bandwidth" not in given:
            raise InputError(
                value=None,
                rule=f"a mesh of {num_nodes}x{devices_per_node} has links {where}",
                place=f"--{which}-bandwidth",
                remedy="give their bandwidth, such as 200GBps",
            )
    return Cluster(
        num_nodes=num_nodes,
        devices_per_node=devices_per_node,
        memory_bytes=parse_memory(given["--memory"], place="--memory"),
        intra=_link("intra", given) or _link("inter", given) or Link(bytes_per_s=1),
        inter=_link("inter", given) or _link("intra", given) or Link(bytes_per_s=1),
    )


def _link(which: str, given: dict[str, str]) -> "Link | None":
    """None without a bandwidth: the cluster has no such links, and any others stand for them."""
    from evenflow.cluster.cluster import Link

    bandwidth, latency = f"--{which}-bandwidth", f"--{which}-latency"
    if bandwidth not in given:
        return None
    return Link(
        bytes_per_s=parse_bandwidth(given[bandwidth], place=bandwidth),
        latency_ns=parse_time(given.get(latency, "0s"), place=latency),
    )


def _planned(
    config: Fields, name: str, cluster: "Cluster", setting: AutoSetting, progress: Callable[[str], None]
) -> "AutoPlan":
    """The plan of the model in `config`."""
    with torch_extra("two-level planning", place="evenflow auto"):
        import evenflow.torch_model.training_row  # noqa: F401 - it imports both
        from evenflow.auto.config_planner import plan_config
    return plan_config(
        config,
        cluster,
        sequence=setting.sequence,
        microbatch=setting.microbatch,
        num_microbatches=setting.num_microbatches,
        accelerator=setting.accelerator,
        efficiency=setting.efficiency,
        dtype=setting.dtype,
        optimizer=setting.optimizer,
        schedule=setting.schedule,
        time_limit_s=setting.time_limit_s,
        processes=min(MOST_PROCESSES, os.cpu_count() or 1),
        name=name,
        progress=progress,
    )


def _answer(
    found: "AutoPlan",
    setting: AutoSetting,
    *,
    seconds: float,
    layer_file: Path | None,
    json_file: Path | None,
    svg_file: Path | None,
) -> int:
    """Write the files and print the answer."""
    from evenflow.export.layer_writer import format_layer_file
    from evenflow.export.results.auto_fields import auto_fields

    written = []
    if json_file is not None:
        fields = auto_fields(found, setting=setting.fields(), seconds=seconds)
        write_text(json_file, format_object(fields), option="--json")
        written.append(json_file)
    if found.two_level is None:
        click.echo(shortage_text(found), err=True)
        return INFEASIBLE
    if layer_file is not None:
        network = replace(found.simulation.network, name=found.row.name)
        write_text(layer_file, format_layer_file(network), option="--output")
        written.append(layer_file)
    if svg_file is not None:
        from evenflow.draw.two_level import two_level_svg

        title = f"{found.row.name} on {found.cluster.num_nodes}x{found.cluster.devices_per_node} devices"
        picture = two_level_svg(found.simulation, found.cluster, found.stages, title=title)
        write_text(svg_file, picture, option="--svg")
        written.append(svg_file)
    click.echo(auto_text(found, microbatch=setting.microbatch, sequence=setting.sequence, seconds=seconds))
    if written:
        click.echo("\nwrote " + ", ".join(map(str, written)))
    return 0
