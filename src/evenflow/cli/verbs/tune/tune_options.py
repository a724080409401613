"""The options of ``evenflow tune``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from evenflow import ranges
from evenflow.cli.shared import options
from evenflow.cli.shared.numbers import Number
from evenflow.cli.shared.targets import target_options
from evenflow.cli.shared.training.model_options import ModelOptions, model_options
from evenflow.cli.shared.training.sections import of_devices, of_step
from evenflow.cli.shared.training.software_options import SoftwareOptions, software_options
from evenflow.cli.shared.training.training_options import (
    GLOBAL_BATCH,
    GPUS_PER_NODE,
    KINDS,
    MEMORY,
    PRECISION,
    SEQUENCE,
)
from evenflow.cli.verbs.tune.after_options import AfterOptions, after_options
from evenflow.cli.verbs.tune.axis_options import axis_options
from evenflow.targets.target import Target
from evenflow.tune.axes import Axis, Value

ALL = "all"

_OPTIONS = (
    of_devices(
        "--accelerator",
        metavar="NAME|FILE",
        help="Accelerator by the name of its data sheet, such as h100, or a file that describes one.",
    ),
    of_devices(
        "--calibration",
        type=options.FILE,
        metavar="FILE",
        help="What `evenflow calibrate` wrote of your cluster, in place of --accelerator.",
    ),
    of_devices("--gpus", type=options.DEVICE_COUNT, required=True, help="Devices in all."),
    GPUS_PER_NODE,
    MEMORY,
    GLOBAL_BATCH,
    SEQUENCE,
    PRECISION,
    of_step(
        "--recompute",
        type=click.Choice(list(KINDS)),
        help="The only kind that layers may be under beside none.  [default: all kinds]",
    ),
    of_step(
        "--schedules",
        metavar="NAME,…",
        help=f"Some of `evenflow schedules`, or {ALL}.  [default: 1f1b, interleaved, zb-h1, zbv, as far as --target "
        "runs them]",
    ),
    target_options.target_option("--target", help="Framework whose rules every configuration keeps, such as megatron."),
    target_options.VERSION_OF,
    click.option(
        "--rows", type=Number(ranges.ROWS), default=10, show_default=True, help="Rows of the table, solved exactly."
    ),
    options.TIME_LIMIT,
    options.JSON,
    click.option(
        "--svg", "svg_file", type=options.FILE, metavar="FILE", help="Draw the steps by part, and the memory."
    ),
    options.HTML,
    options.OVERWRITE,
)


def tune_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to the command."""
    decorated = after_options(axis_options(command))
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return model_options(software_options(decorated))


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """The command line, as click passes it."""

    described: ModelOptions
    behaviour: SoftwareOptions
    after: AfterOptions
    fixed: Mapping[Axis, Value]
    most: Mapping[Axis, int]
    accelerator: str | None
    calibration: Path | None
    gpus: int
    gpus_per_node: int | None
    memory: str | None
    global_batch: int
    sequence: int
    precision: str | None
    recompute: str | None
    schedules: str | None
    target: Target | None
    asked_version: str | None
    rows: int
    time_limit: float
    json_file: Path | None
    svg_file: Path | None
    html_file: Path | None
    overwrite: bool
