"""The verb ``evenflow profile``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evenflow.cli.shared import options
from evenflow.cli.shared.output_files import check_outputs, write_text
from evenflow.cli.shared.torch_extra import torch_extra
from evenflow.cli.text.profile_text import Setting, profile_text
from evenflow.errors import InputError
from evenflow.export.layer_writer import format_layer_file
from evenflow.export.results.json_text import format_object
from evenflow.export.results.profile_fields import profile_fields
from evenflow.fields import Fields, as_fields, load_json
from evenflow.torch_model.optimizers import OPTIMIZERS

if TYPE_CHECKING:
    from evenflow.profiles.from_model.model_profile import ModelProfile

STANDARD_OUTPUT = "-"


@click.command()
@click.option(
    "--model", required=True, metavar="CONFIG.json", help="A decoder's configuration, or the folder it is in."
)
@click.option("--seq", "sequence", type=options.COUNT, required=True, help="Tokens of a sequence.")
@click.option(
    "--microbatch", type=options.COUNT, default=1, show_default=True, help="Sequences of a microbatch on one device."
)
@click.option(
    "--tensor-parallel",
    type=options.COUNT,
    default=1,
    show_default=True,
    help="Devices that share every layer; their communication is not in the times.",
)
@click.option(
    "--device",
    type=click.Choice(["fake", "cpu", "cuda"]),
    default="fake",
    show_default=True,
    help="Where times are measured; fake: not at all, they follow from --accelerator.",
)
@click.option("--accelerator", metavar="NAME", help="With --device fake: a100, h100, h200, b200, mi300x or 910b.")
@click.option(
    "--efficiency", type=float, metavar="SHARE", help="Share of the accelerator's peak that is reached.  [default: 0.7]"
)
@click.option("--dtype", type=click.Choice(["bf16", "fp16", "fp32"]), default="bf16", show_default=True)
@click.option(
    "--optimizer",
    type=click.Choice(list(OPTIMIZERS)),
    default="adam",
    show_default=True,
    help="What training keeps for a parameter: adam holds 32-bit weights and moments, torch-adam moments of --dtype.",
)
@click.option(
    "-o", "--output", default=STANDARD_OUTPUT, show_default=True, metavar="FILE", help="The layer file; -: print it."
)
@options.JSON
def profile(
    model: str,
    sequence: int,
    microbatch: int,
    tensor_parallel: int,
    device: str,
    accelerator: str | None,
    efficiency: float | None,
    dtype: str,
    optimizer: str,
    output: str,
    json_file: Path | None,
) -> int:
    """Write the layer file of a model that never ran, from its configuration.

    Activations under every recompute kind come from fake tensors, so no device and no memory is needed. Times are
    measured on a device, or follow from operations and bytes at the rates of an accelerator.

    \b
    Examples:
      evenflow profile --model examples/configs/llama3_70b.json --seq 8192 --accelerator h100 -o layers.json
      evenflow profile --model config.json --seq 4096 --accelerator a100 | evenflow plan - --ranks 8 --microbatches 32
      evenflow profile --model config.json --seq 4096 --device cuda -o layers.json
    """
    if device != "fake":
        for option, value in (("--accelerator", accelerator), ("--efficiency", efficiency)):
            if value is not None:
                raise InputError(value=value, rule="only --device fake computes times", place=option)
    layer_file = None if output == STANDARD_OUTPUT else Path(output)
    path = config_path(model)
    check_outputs({"--output": layer_file, "--json": json_file}, inputs={"--model": Path(path)})
    text, place = options.read_text(path)
    config = as_fields(load_json(text, file=place), file=place)
    setting = Setting(
        sequence=sequence,
        microbatch=microbatch,
        tensor_parallel=tensor_parallel,
        dtype=dtype,
        optimizer=optimizer,
        device=device,
        accelerator=accelerator,
        efficiency=efficiency,
    )
    with shown_part() as progress:
        found = _profiled(config, model_name(path, place), setting, progress)
    layers = format_layer_file(found.network())
    if layer_file is not None:
        write_text(layer_file, layers, option="--output")
    if json_file is not None:
        write_text(json_file, format_object(profile_fields(found, setting=setting.fields())), option="--json")
    written = [str(path) for path in (layer_file, json_file) if path is not None]
    paragraphs = [profile_text(found, setting), *(["wrote " + ", ".join(written)] if written else [])]
    click.echo("\n\n".join(paragraphs), err=layer_file is None)
    if layer_file is None:
        click.echo(layers, nl=False)
    return 0


def config_path(model: str) -> str:
    """The configuration that ``--model`` names."""
    return str(Path(model) / "config.json") if Path(model).is_dir() else model


def model_name(path: str, place: str) -> str:
    """What the model is called: its file, or the folder of a file that is called config."""
    if path == "-":
        return place
    file = Path(path).resolve()
    return file.parent.name if file.stem == "config" else file.stem


def _profiled(config: Fields, name: str, setting: Setting, progress: Callable[[str], None]) -> "ModelProfile":
    """Profile the model in `config`."""
    with torch_extra("a profile", place="evenflow profile"):
        from evenflow.profiles.from_model.model_profile import profile_config
    return profile_config(
        config,
        sequence=setting.sequence,
        microbatch=setting.microbatch,
        tensor_parallel=setting.tensor_parallel,
        device=setting.device,
        accelerator=setting.accelerator,
        dtype=setting.dtype,
        optimizer=setting.optimizer,
        name=name,
        progress=progress,
        **({} if setting.efficiency is None else {"efficiency": setting.efficiency}),
    )


@contextmanager
def shown_part() -> Iterator[Callable[[str], None]]:
    """Shows which part is being profiled, on a terminal."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
        yield lambda _part: None
        return
    with console.status("loading PyTorch") as status:
        yield status.update
