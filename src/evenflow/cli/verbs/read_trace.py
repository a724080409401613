"""The verb ``evenflow read-trace``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from evenflow.cli.shared import options
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.text.trace_text import trace_text
from evenflow.errors import InputError
from evenflow.export.results.trace_fields import trace_fields
from evenflow.language import _
from evenflow.profiles.layer_file import format_layer_file
from evenflow.profiles.traces import LayerNames, TraceProgress, read_traces
from evenflow.profiles.traces.trace_network import network_of_traces


@click.command("read-trace")
@click.argument("folder", metavar="FOLDER", type=options.FILE)
@click.option(
    "--layers",
    "layer_counts",
    type=options.LAYER_COUNT,
    multiple=True,
    required=True,
    help="Body layers of the model; with several --body, given once for each, in their order.",
)
@click.option(
    "--microbatches", type=options.MICROBATCH_COUNT, required=True, help="Microbatches of one step of the profiled run."
)
@click.option(
    "--head",
    multiple=True,
    metavar="NAME",
    help="Name of a layer of the head; several add up.  [default: those of Llama in MindFormers]",
)
@click.option("--body", multiple=True, metavar="NAME", help="Name of a layer of the body; several are several kinds.")
@click.option("--tail", multiple=True, metavar="NAME", help="Name of a layer of the tail; several add up.")
@options.JSON
@click.option(
    "--layer-file",
    type=options.FILE,
    metavar="FILE",
    help="Write a layer file with the times but without memory, for evenflow plan.",
)
@options.OVERWRITE
def read_trace(
    folder: Path,
    layer_counts: tuple[int, ...],
    microbatches: int,
    head: tuple[str, ...],
    body: tuple[str, ...],
    tail: tuple[str, ...],
    json_file: Path | None,
    layer_file: Path | None,
    overwrite: bool,
) -> int:
    """Print the time of head, body and tail from the timelines in FOLDER, one file for each pipeline stage.

    Reads Ascend's trace_view*.json (MindSpore, torch_npu), PyTorch's *.json and *.json.gz, and *.sqlite of Nsight
    Systems. A layer is a scope, module or range whose name contains NAME.

    \b
    Examples:
      evenflow read-trace examples/timelines/llama2_175b --layers 96 --microbatches 8 --layer-file llama.json
      evenflow read-trace traces/ --layers 32 --microbatches 8 --head Embedding --body DecoderLayer --tail Linear
    """
    default = LayerNames()
    names = LayerNames(head=head or default.head, body=body or default.body, tail=tail or default.tail)
    if len(layer_counts) not in (1, len(names.body)) or (layer_file and len(layer_counts) != len(names.body)):
        raise InputError(
            value=layer_counts,
            rule=_("must be given once for each of the {count} --body, in their order", count=len(names.body)),
            place="--layers",
        )
    outputs = Outputs({"--json": json_file, "--layer-file": layer_file}, inputs={"FOLDER": folder}, overwrite=overwrite)
    with _shown_bytes() as progress:
        times = read_traces(
            folder, num_microbatches=microbatches, num_layers=sum(layer_counts), names=names, progress=progress
        )
    outputs.write_json(lambda: trace_fields(times, layer_counts=layer_counts, num_microbatches=microbatches))
    outputs.write(
        "--layer-file",
        lambda: format_layer_file(network_of_traces(times, layer_counts, name=folder.resolve().name)),
    )
    outputs.say(trace_text(times, num_microbatches=microbatches))
    return 0


@contextmanager
def _shown_bytes() -> Iterator[TraceProgress | None]:
    """Give a callback that draws a bar of the bytes read, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress("reading", *columns, console=console, transient=True) as bar:
        task = bar.add_task("reading")
        yield lambda done, total: bar.update(task, completed=done, total=total)
