"""The options of ``evenflow predict``."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from evenflow.cli.shared import options
from evenflow.cli.shared.training.model_options import ModelOptions, model_options
from evenflow.cli.shared.training.sections import of_degrees, of_devices, of_step
from evenflow.cli.shared.training.software_options import SoftwareOptions, software_options
from evenflow.cli.shared.training.training_options import (
    GLOBAL_BATCH,
    GPUS_PER_NODE,
    KINDS,
    MEMORY,
    PRECISION,
    SEQUENCE,
)

_OPTIONS = (
    of_devices(
        "--accelerator",
        required=True,
        metavar="NAME|FILE",
        help="Accelerator by the name of its data sheet, such as h100, or a file that describes one.",
    ),
    of_devices("--gpus", type=options.DEVICE_COUNT, help="Devices in all.  [default: the product of the degrees]"),
    GPUS_PER_NODE,
    MEMORY,
    of_degrees(
        "--tensor", type=options.DEVICE_COUNT, default=1, show_default=True, help="Devices that share every layer."
    ),
    of_degrees("--pipeline", type=options.RANK_COUNT, default=1, show_default=True, help="Pipeline ranks."),
    of_degrees(
        "--chunks",
        type=options.CHUNK_COUNT,
        help="Model chunks of each rank.  [default: those of the schedule, or 1]",
    ),
    of_degrees(
        "--context", type=options.DEVICE_COUNT, default=1, show_default=True, help="Devices that share a sequence."
    ),
    of_degrees(
        "--data",
        type=options.DEVICE_COUNT,
        help="Copies of the pipeline, each with a part of the batch.  [default: what --gpus leaves]",
    ),
    of_degrees(
        "--expert",
        type=options.DEVICE_COUNT,
        default=1,
        show_default=True,
        help="Devices that share out the experts; they lie in tensor, context and data.",
    ),
    of_degrees(
        "--expert-tensor",
        type=options.DEVICE_COUNT,
        help="Devices that share every expert.  [default: 1 with --expert, else --tensor]",
    ),
    of_degrees(
        "--zero",
        type=click.Choice(["0", "1", "2", "3"]),
        default="1",
        show_default=True,
        help="What the copies share out: nothing, the optimizer, gradients too, parameters too (FSDP).",
    ),
    of_degrees(
        "--no-sequence-parallel",
        is_flag=True,
        help="Norms and residuals are whole on each device of --tensor.",
    ),
    GLOBAL_BATCH,
    of_step(
        "--microbatch", type=options.SEQUENCE_COUNT, default=1, show_default=True, help="Sequences of a microbatch."
    ),
    SEQUENCE,
    PRECISION,
    of_step(
        "--recompute",
        type=click.Choice(list(KINDS)),
        default="none",
        show_default=True,
        help="What the backward computes again.",
    ),
    of_step(
        "--recompute-modules",
        metavar="NAME,…",
        help="What of a layer is computed again, with --recompute selective.  [default: core_attn]",
    ),
    of_step(
        "--recompute-layers",
        type=options.LAYER_COUNT,
        help="Layers of each cell that are computed again, with --recompute full.  [default: all]",
    ),
    of_step(
        "--schedule",
        metavar="NAME",
        help="One of `evenflow schedules`, such as zb-h1.  [default: 1f1b, or interleaved for several chunks]",
    ),
    of_step(
        "--group-size",
        type=options.MICROBATCH_COUNT,
        help="Microbatches of a group in an interleaved schedule.  [default: as many as ranks]",
    ),
    of_step(
        "--layers-per-rank",
        multiple=True,
        metavar="N,N,…",
        help="Layers of each rank. Given once, they are dealt over the chunks of the rank in turn; or give it once for "
        "each chunk, in their order.  [default: dealt evenly]",
    ),
    click.option(
        "-o",
        "--output",
        "layer_file",
        type=options.FILE,
        metavar="FILE",
        help="Write the layer file of one device, for `evenflow plan`.",
    ),
    options.JSON,
    options.OVERWRITE,
)


def predict_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to the command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return model_options(software_options(command))


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions:
    """The command line, as click passes it."""

    described: ModelOptions
    behaviour: SoftwareOptions
    accelerator: str
    gpus: int | None
    gpus_per_node: int | None
    memory: str | None
    tensor: int
    pipeline: int
    chunks: int | None
    context: int
    data: int | None
    expert: int
    expert_tensor: int | None
    zero: str
    no_sequence_parallel: bool
    global_batch: int
    microbatch: int
    sequence: int
    precision: str | None
    recompute: str
    recompute_modules: str | None
    recompute_layers: int | None
    schedule: str | None
    group_size: int | None
    layers_per_rank: tuple[str, ...]
    layer_file: Path | None
    json_file: Path | None
    overwrite: bool
