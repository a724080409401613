"""Options of devices and of the step that verbs about a training share."""

from collections.abc import Collection

import click
from click.core import ParameterSource

from evenflow.cli.shared import options
from evenflow.cli.shared.training.sections import of_devices, of_step
from evenflow.cluster.accelerators import Accelerator
from evenflow.model import FULL, NONE, SELECT
from evenflow.predict.training import FORMATS

KIND_WORDS = {NONE: "none", SELECT: "selective", FULL: "full"}
"""Word of ``--recompute`` by recompute kind."""
KINDS = {word: kind for kind, word in KIND_WORDS.items()}
"""Recompute kind by the word of ``--recompute``."""

GPUS_PER_NODE = of_devices(
    "--gpus-per-node",
    type=options.DEVICE_COUNT,
    help="Devices that fast links connect.  [default: those of the accelerator: 8, or 72 in a rack of GB200]",
)
MEMORY = of_devices("--memory", metavar="SIZE", help="Memory limit of a device, such as 80GB.  [default: all it has]")
GLOBAL_BATCH = of_step("--global-batch", type=options.SEQUENCE_COUNT, required=True, help="Sequences of a step.")
SEQUENCE = of_step("--seq", "sequence", type=options.TOKEN_COUNT, required=True, help="Tokens of a sequence.")
PRECISION = of_step(
    "--precision",
    type=click.Choice(list(FORMATS)),
    help="Number format of the linear layers.  [default: bf16; fp16 on devices that are slower in bf16]",
)


def usual_precision(accelerator: Accelerator) -> str:
    """Return the number format of linear layers where none is asked for."""
    return "bf16" if accelerator.rate("bfloat16") >= accelerator.rate("float16") else "fp16"


def options_given() -> Collection[str]:
    """Return the names of the options that the command line has, of the command that runs."""
    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
