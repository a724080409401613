"""The verb ``evenflow read-trace``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from evenflow.cli.shared import options
from evenflow.cli.shared.output_files import check_outputs, write_text
from evenflow.cli.text.tables import aligned
from evenflow.errors import InputError
from evenflow.export.layer_writer import format_layer_file
from evenflow.export.results.json_text import format_object
from evenflow.export.results.trace_fields import trace_fields
from evenflow.profiles.layer_entry import MOST_LAYERS, PLAIN_BACKWARD_RATIO
from evenflow.profiles.traces import BlockTime, LayerNames, Spread, TraceProgress, TraceTimes, read_traces
from evenflow.profiles.traces.trace_network import network_of_traces
from evenflow.units import milliseconds

_LAYERS = click.IntRange(min=1, max=MOST_LAYERS)


@click.command("read-trace")
@click.argument("folder", metavar="FOLDER", type=options.FILE)
@click.option(
    "--layers",
    "layer_counts",
    type=_LAYERS,
    multiple=True,
    required=True,
    help="Body layers of the model; with several --body, once for each, in their order.",
)
@click.option("--microbatches", type=options.COUNT, required=True, help="Microbatches of a step of the profiled run.")
@click.option("--head", multiple=True, metavar="NAME", help="Layer of the head; several add up.  [default: llama's]")
@click.option("--body", multiple=True, metavar="NAME", help="Layer of the body; several are several kinds.")
@click.option("--tail", multiple=True, metavar="NAME", help="Layer of the tail; several add up.")
@options.JSON
@click.option(
    "--layer-file",
    type=options.FILE,
    metavar="FILE",
    help="Write a layer file with the times, for evenflow plan; it has no memory.",
)
def read_trace(
    folder: Path,
    layer_counts: tuple[int, ...],
    microbatches: int,
    head: tuple[str, ...],
    body: tuple[str, ...],
    tail: tuple[str, ...],
    json_file: Path | None,
    layer_file: Path | None,
) -> int:
    """Print the time of head, body and tail from the timelines in FOLDER, one file a pipeline stage.

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
            rule=f"--layers once for each of the {len(names.body)} --body, in their order",
            place="--layers",
        )
    check_outputs({"--json": json_file, "--layer-file": layer_file}, inputs={"FOLDER": folder})
    with _shown_bytes() as progress:
        times = read_traces(
            folder, num_microbatches=microbatches, num_layers=sum(layer_counts), names=names, progress=progress
        )
    written = []
    if json_file is not None:
        fields = trace_fields(times, layer_counts=layer_counts, num_microbatches=microbatches)
        write_text(json_file, format_object(fields), option="--json")
        written.append(str(json_file))
    if layer_file is not None:
        network = network_of_traces(times, layer_counts, name=folder.resolve().name)
        write_text(layer_file, format_layer_file(network), option="--layer-file")
        written.append(str(layer_file))
    paragraphs = [_file_table(times, microbatches), _time_table(times)]
    paragraphs += [f"note: {note}" for note in times.notes]
    if written:
        paragraphs.append("wrote " + ", ".join(written))
    click.echo("\n\n".join(paragraphs))
    return 0


@contextmanager
def _shown_bytes() -> Iterator[TraceProgress | None]:
    """A bar of the bytes read, on a terminal."""
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


def _blocks(times: TraceTimes) -> list[tuple[str, BlockTime]]:
    """Head, bodies and tail, those that were found, with their role."""
    ends = [[("head", times.head)], [("tail", times.tail)]]
    head, tail = [[(role, block) for role, block in end if block is not None] for end in ends]
    return [*head, *(("body", block) for block in times.bodies), *tail]


def _file_table(times: TraceTimes, microbatches: int) -> str:
    """What was counted of each file."""
    rows = [
        [
            Path(file.file).name,
            "-" if file.num_layers is None else str(file.num_layers),
            f"{file.counted_steps} of {file.num_steps}",
            file.steps_from,
        ]
        for file in times.files
    ]
    sources = ", ".join(dict.fromkeys(file.source for file in times.files))
    table = aligned(["file", "body layers", "steps counted", "told by"], rows, left={0, 3})
    plural = "es" if microbatches > 1 else ""
    return f"{sources}; {microbatches} microbatch{plural} a step\n\n{table}"


def _time_table(times: TraceTimes) -> str:
    """The times of one layer for one microbatch, with their spread."""
    rows = []
    for role, block in _blocks(times):
        for phase, time_ns, spread in (
            ("forward", block.forward_ns, block.forward_spread),
            ("backward", block.backward_ns, block.backward_spread),
        ):
            if time_ns is None or spread is None:
                mean, spreads = block.known_backward_ns, ["-", "-", "-"]
                origin = f"{PLAIN_BACKWARD_RATIO:g} x forward, not in the traces"
            else:
                mean, spreads = time_ns, [_ms(value) for value in _values(spread)]
                origin = f"measured, {_counted(block)}"
            rows.append([role, block.name, phase, _ms(mean), *spreads, origin])
    header = ["", "layer", "", "ms", "least", "median", "most", "from"]
    return "one layer, one microbatch\n" + aligned(header, rows, left={0, 1, 2, 7})


def _counted(block: BlockTime) -> str:
    """Where a time comes from."""
    layers = f"{len(block.scopes)} scope{'s' if len(block.scopes) > 1 else ''}"
    return f"{layers} in {len(block.files)} file{'s' if len(block.files) > 1 else ''}"


def _ms(time_ns: int) -> str:
    return f"{milliseconds(time_ns):,.3f}"


def _values(spread: Spread) -> Sequence[int]:
    return spread.minimum_ns, spread.median_ns, spread.maximum_ns
