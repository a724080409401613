"""The verb ``evenflow profile``."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenflow.cli.shared import options
from evenflow.cli.shared.dtype_option import dtype_option
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.model_config import MODEL, ModelConfig, config_path, read_config
from evenflow.cli.shared.progress import shown_step
from evenflow.cluster import Dtype
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.accelerator_file import accelerator_path
from evenflow.profiles.layer_file import format_layer_file
from evenflow_torch.results.profile_fields import ProfileSetting, profile_fields
from evenflow_torch.text.profile_text import profile_text
from evenflow_torch.verbs.torch_extra import torch_extra

if TYPE_CHECKING:
    from evenflow_torch.profile.model_profile import ModelProfile

STANDARD_OUTPUT = "-"
FAKE = "fake"
"""Device on which times are computed, not measured."""


@click.command()
@MODEL
@click.option("--seq", "sequence", type=options.TOKEN_COUNT, required=True, help="Tokens of a sequence.")
@click.option(
    "--microbatch",
    type=options.SEQUENCE_COUNT,
    default=1,
    show_default=True,
    help="Sequences of a microbatch on one device.",
)
@click.option(
    "--tensor-parallel",
    type=options.DEVICE_COUNT,
    default=1,
    show_default=True,
    help="Devices that share every layer; the times leave out their communication.",
)
@click.option(
    "--device",
    type=click.Choice([FAKE, "cpu", "cuda"]),
    default=FAKE,
    show_default=True,
    help="Device that times are measured on; fake computes them for --accelerator instead.",
)
@options.ACCELERATOR
@click.option(
    "--efficiency",
    type=options.EFFICIENCY,
    metavar="SHARE",
    help="Share of the accelerator's peak that large matrix products reach.  [default: the accelerator's own]",
)
@dtype_option(Dtype.BFLOAT16, Dtype.FLOAT16, Dtype.FLOAT32, help="Number format of parameters and activations")
@options.OPTIMIZER
@click.option(
    "--elementwise",
    type=click.Choice(["fused", "eager"]),
    default="fused",
    show_default=True,
    help="Norms, activation functions and residuals: fused or compiled, or one by one, as they are measured.",
)
@click.option(
    "-o",
    "--output",
    default=STANDARD_OUTPUT,
    show_default=True,
    metavar="FILE",
    help="Layer file to write; - prints it.",
)
@options.JSON
@options.OVERWRITE
def profile(model: str, output: str, json_file: Path | None, overwrite: bool, **setting_options: Any) -> int:
    """Write the layer file of a model that never ran, from its configuration.

    Activations under every recompute kind come from fake tensors, so no device and no memory is needed. Times are
    measured on a device, or computed from operations and bytes at the rates of an accelerator.

    \b
    Examples:
      evenflow profile --model examples/configs/llama3_70b.json --seq 8192 --accelerator h100 -o layers.json
      evenflow profile --model config.json --seq 4096 --accelerator a100 | evenflow plan - --ranks 8 --microbatches 32
      evenflow profile --model config.json --seq 4096 --device cuda -o layers.json
    """
    setting = ProfileSetting(**setting_options)
    if setting.device != FAKE:
        for option, value in (("--accelerator", setting.accelerator), ("--efficiency", setting.efficiency)):
            if value is not None:
                raise InputError(
                    value=value,
                    rule=_("must come with --device fake, which computes times"),
                    place=option,
                    remedy=_("leave it out: times are measured"),
                )
    layer_file = None if output == STANDARD_OUTPUT else Path(output)
    path = config_path(model)
    outputs = Outputs(
        {"--output": layer_file, "--json": json_file},
        inputs={"--model": Path(path), "--accelerator": accelerator_path(setting.accelerator)},
        overwrite=overwrite,
        measured_by="" if setting.device == FAKE else "profile",
    )
    config = read_config(path)
    with shown_step(_("loading PyTorch")) as progress:
        result = _profile(config, setting, progress)
    layers = format_layer_file(result.network())
    outputs.write("--output", lambda: layers)
    outputs.write_json(lambda: profile_fields(result, setting))
    outputs.say(profile_text(result, setting), err=layer_file is None)
    if layer_file is None:
        click.echo(layers, nl=False)
    return 0


def _profile(config: ModelConfig, setting: ProfileSetting, progress: Callable[[str], None]) -> "ModelProfile":
    """Return the profile of the model."""
    with torch_extra(place="evenflow profile"):
        from evenflow_torch.profile.model_profile import profile_config
    return profile_config(
        config.fields,
        sequence=setting.sequence,
        microbatch=setting.microbatch,
        tensor_parallel=setting.tensor_parallel,
        device=setting.device,
        accelerator=setting.accelerator,
        dtype=setting.dtype,
        optimizer=setting.optimizer,
        elementwise=setting.elementwise,
        name=config.name,
        progress=progress,
        efficiency=setting.efficiency,
    )
