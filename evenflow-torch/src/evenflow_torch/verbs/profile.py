"""The verb ``evenflow profile``."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evenflow.asking import asked, optional
from evenflow.cli.shared import options
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.model_config import MODEL, ModelConfig, config_path, read_config
from evenflow.cli.shared.progress import shown_step
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.accelerator_file import accelerator_path
from evenflow.profiles.layer_file import format_layer_file
from evenflow_torch.requests import FAKE, ProfileRequest
from evenflow_torch.results.profile_fields import profile_fields
from evenflow_torch.text.profile_text import profile_text
from evenflow_torch.verbs.profile_processes import own_place, together
from evenflow_torch.verbs.torch_extra import torch_extra

if TYPE_CHECKING:
    from evenflow_torch.profile.model_profile import ModelProfile

STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """What ``evenflow profile`` is asked for: an option for each field."""

    model: str = field(metadata=MODEL)
    training: ProfileRequest = field(metadata=asked(group=ProfileRequest))
    output: str = optional(
        "--output",
        default=STANDARD_OUTPUT,
        letter="-o",
        shows_default=True,
        metavar="FILE",
        help="Layer file to write; - prints it.",
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command()
@options_as("request", ProfileOptions)
def profile(request: ProfileOptions) -> int:
    """Write the layer file of a model that never ran, from its configuration.

    Activations under every recompute kind come from fake tensors, so no device and no memory is needed. Times are
    measured on a device, or computed from operations and bytes at the rates of an accelerator.

    \b
    Examples:
      evenflow profile --model examples/configs/llama3_70b.json --seq 8192 --accelerator h100 -o layers.json
      evenflow profile --model config.json --seq 4096 --accelerator a100 | evenflow plan - --ranks 8 --microbatches 32
      evenflow profile --model config.json --seq 4096 --device cuda -o layers.json
      torchrun --no-python --nproc-per-node 8 evenflow profile --model config.json --seq 4096 --device cuda \\
        --expert-parallel 8 -o layers.json
    """
    training = request.training
    if training.device != FAKE:
        for option, value in (("--accelerator", training.accelerator), ("--efficiency", training.efficiency)):
            if value is not None:
                raise InputError(
                    value=value,
                    rule=_("must come with --device fake, which computes times"),
                    place=option,
                    remedy=_("leave it out: times are measured"),
                )
    layer_file = None if request.output == STANDARD_OUTPUT else Path(request.output)
    path = config_path(request.model)
    outputs = Outputs(
        {"--output": layer_file, **paths_of(request)},
        inputs={"--model": Path(path), "--accelerator": accelerator_path(training.accelerator)},
        overwrite=request.overwrite,
        formats={"--output": ".json"},
        measured_by="" if training.device == FAKE else "profile",
    )
    config, own = read_config(path), own_place(training)
    with together(own, training.device), shown_step(_("loading PyTorch")) as progress:
        result = _profile(config, training, progress)
    if own is not None and own.rank:
        return 0  # the first process writes for all
    layers = format_layer_file(result.network())
    outputs.write("--output", lambda: layers)
    outputs.write_json(lambda: profile_fields(result, training))
    outputs.say(profile_text(result, training), err=layer_file is None)
    if layer_file is None:
        click.echo(layers, nl=False)
    return 0


def _profile(config: ModelConfig, request: ProfileRequest, progress: Callable[[str], None]) -> "ModelProfile":
    """Return the profile of the model."""
    with torch_extra(place="evenflow profile"):
        from evenflow_torch.profile.model_profile import profile_training
    return profile_training(config.fields, request, name=config.name, progress=progress)
