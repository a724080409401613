"""The verb ``evenflow read-trace``."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from evenflow.asking import Metadata, asked, asked_as, optional
from evenflow.cli.shared import options
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.standard_streams import filtered, live_console
from evenflow.cli.text.trace_text import trace_text
from evenflow.errors import InputError
from evenflow.export.results.trace_fields import trace_fields
from evenflow.language import _
from evenflow.profiles.layer_file import format_layer_file
from evenflow.profiles.traces import LayerNames, TraceProgress, read_traces
from evenflow.profiles.traces.trace_network import network_of_traces
from evenflow.questions import NUM_MICROBATCHES
from evenflow.ranges import LAYERS


def _layers_of(role: str, help_text: str) -> Metadata:
    return asked(option=f"--{role}", is_multiple=True, metavar="NAME", help=help_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTraceOptions:
    """What ``evenflow read-trace`` is asked for: an option for each field."""

    layer_counts: tuple[int, ...] = field(
        metadata=asked(
            LAYERS,
            option="--layers",
            is_multiple=True,
            help="Body layers of the model; with several --body, given once for each, in their order.",
        )
    )
    microbatches: int = field(metadata=asked_as(NUM_MICROBATCHES, help="Microbatches of one step of the profiled run."))
    head: tuple[str, ...] = field(
        default=(),
        metadata=_layers_of(
            "head", "Name of a layer of the head; several add up.  [default: those of Llama in MindFormers]"
        ),
    )
    body: tuple[str, ...] = field(
        default=(), metadata=_layers_of("body", "Name of a layer of the body; several are several kinds.")
    )
    tail: tuple[str, ...] = field(
        default=(), metadata=_layers_of("tail", "Name of a layer of the tail; several add up.")
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    layer_file: Path | None = optional(
        "--layer-file", is_written=True, help="Write a layer file with the times but without memory, for evenflow plan."
    )
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)

    def names(self) -> LayerNames:
        """Return the names of the layers; raises InputError for `layer_counts` that do not go with them."""
        usual = LayerNames()
        names = LayerNames(head=self.head or usual.head, body=self.body or usual.body, tail=self.tail or usual.tail)
        counts = len(self.layer_counts)
        if counts not in (1, len(names.body)) or (self.layer_file and counts != len(names.body)):
            raise InputError(
                value=self.layer_counts,
                rule=_("must be given once for each of the {count} --body, in their order", count=len(names.body)),
                place="--layers",
            )
        return names


@click.command("read-trace")
@click.argument("folder", metavar="FOLDER", type=options.FILE)
@options_as("request", ReadTraceOptions)
def read_trace(folder: Path, request: ReadTraceOptions) -> int:
    """Print the time of head, body and tail from the timelines in FOLDER, one file for each pipeline stage.

    Reads Ascend's trace_view*.json (MindSpore, torch_npu), also in rank_*/ASCEND_PROFILER_OUTPUT of FOLDER, PyTorch's
    *.json and *.json.gz, and *.sqlite of Nsight Systems. A layer is a scope, module or range whose name contains NAME.

    \b
    Examples:
      evenflow read-trace examples/timelines/llama2_175b --layers 96 --microbatches 8 --layer-file llama.json
      evenflow read-trace traces/ --layers 32 --microbatches 8 --head Embedding --body DecoderLayer --tail Linear
    """
    names, counts, microbatches = request.names(), request.layer_counts, request.microbatches
    outputs = Outputs(paths_of(request), inputs={"FOLDER": folder}, overwrite=request.overwrite)
    with _shown_bytes() as progress:
        times = read_traces(
            folder, num_microbatches=microbatches, num_layers=sum(counts), names=names, progress=progress
        )
    outputs.write_json(lambda: trace_fields(times, layer_counts=counts, num_microbatches=microbatches))
    outputs.write(
        "--layer-file", lambda: format_layer_file(network_of_traces(times, counts, name=folder.resolve().name))
    )
    outputs.say(trace_text(times, num_microbatches=microbatches))
    return 0


@contextmanager
def _shown_bytes() -> Iterator[TraceProgress | None]:
    """Give a callback that draws a bar of the bytes read, on a terminal only."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console = live_console()
    if not console.is_terminal:
        yield None
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with filtered(Progress("reading", *columns, console=console, transient=True)) as bar:
        task = bar.add_task("reading")
        yield lambda done, total: bar.update(task, completed=done, total=total)
