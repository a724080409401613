"""The options of ``evenflow tune``."""

from dataclasses import dataclass, field
from pathlib import Path

from evenflow import ranges
from evenflow.asking import asked, asked_as, optional
from evenflow.cli.shared import options
from evenflow.cli.shared.memory_margin import CONFIDENCE
from evenflow.cli.shared.targets.target_options import VERSION, TargetName
from evenflow.cli.shared.training import sections, training_options
from evenflow.cli.shared.training.model_options import RECOMPUTE_SETS, ModelOptions
from evenflow.cli.shared.training.software_options import SoftwareOptions
from evenflow.cli.verbs.tune.after_options import AfterOptions
from evenflow.cli.verbs.tune.axis_options import AxisOptions
from evenflow.questions import NUM_ROWS, SEARCH_TIME
from evenflow.targets.target import Target
from evenflow.tune.question import USUAL_CONFIDENCE

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """What ``evenflow tune`` is asked for: an option for each field."""

    described: ModelOptions = field(metadata=asked(group=ModelOptions))
    behaviour: SoftwareOptions = field(metadata=asked(group=SoftwareOptions))
    accelerator: str | None = field(default=None, metadata=training_options.ACCELERATOR)
    calibration: Path | None = optional(
        "--calibration",
        section=sections.DEVICES,
        help="What `evenflow calibrate` wrote of your cluster, in place of --accelerator.",
    )
    gpus: int = field(metadata=asked_as(training_options.GPUS, help="Devices in all."))
    gpus_per_node: int | None = field(default=None, metadata=training_options.GPUS_PER_NODE)
    network: str | None = field(default=None, metadata=training_options.NETWORK)
    memory: str | None = field(default=None, metadata=training_options.MEMORY)
    confidence: float = optional(
        CONFIDENCE,
        ranges.CONFIDENCE,
        default=USUAL_CONFIDENCE,
        section=sections.DEVICES,
        metavar="P",
        shows_default=True,
        help="Probability with which every rank of a configuration must fit, by published readings of memory.",
    )
    optimizer_offload: float | None = field(
        default=None,
        metadata=asked_as(
            training_options.OPTIMIZER_OFFLOAD,
            help="Part of the optimizer's state that the host may keep and update, from 0 to 1: every configuration is "
            "tried with it and without; needs --host-link.  [default: 0]",
        ),
    )
    host_link: str | None = field(default=None, metadata=training_options.HOST_LINK)
    host_update: str | None = field(default=None, metadata=training_options.HOST_UPDATE)
    global_batch: int = field(metadata=training_options.GLOBAL_BATCH)
    sequence: int = field(metadata=training_options.SEQUENCE)
    precision: str | None = field(default=None, metadata=training_options.PRECISION)
    recompute: str | None = field(
        default=None,
        metadata=asked_as(
            training_options.RECOMPUTE,
            help="The only kind that layers may be under beside none.  [default: all kinds]",
        ),
    )
    recompute_sets: str | None = field(default=None, metadata=RECOMPUTE_SETS)
    allow_empty: bool | None = field(default=None, metadata=asked_as(options.ALLOWS_EMPTY, section=sections.STEP))
    schedules: str | None = optional(
        "--schedules",
        section=sections.STEP,
        metavar="NAME,…",
        help=f"Some of `evenflow schedules`, or {ALL}.  [default: 1f1b, interleaved, zb-h1, zbv, as far as "
        "--target runs them, and its pairs for mixtures of experts]",
    )
    target: Target | None = optional(
        "--target",
        kind=TargetName(),
        metavar="NAME",
        help="Framework whose rules every configuration keeps, such as megatron.",
    )
    asked_version: str | None = field(default=None, metadata=VERSION)
    rows: int = field(default=10, metadata=NUM_ROWS)
    time_limit: float = field(default=60.0, metadata=SEARCH_TIME)
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    svg_file: Path | None = field(
        default=None, metadata=asked_as(options.SVG_FILE, help="Draw the steps by part, and the memory.")
    )
    html_file: Path | None = field(default=None, metadata=options.HTML_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)
    after: AfterOptions = field(metadata=asked(group=AfterOptions))
    axes: AxisOptions = field(metadata=asked(group=AxisOptions))
