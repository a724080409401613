"""The options that plan runs to calibrate on."""

from dataclasses import dataclass, field

from evenflow.asking import asked, asked_as, optional
from evenflow.cli.shared.targets.target_options import VERSION, TargetName
from evenflow.cli.shared.training import sections, training_options
from evenflow.ranges import Range
from evenflow.targets.target import Target

_RUNS = Range(least=1, most=50)
_USUAL_RUNS = 5
_USUAL_SEQUENCE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningOptions:
    """What runs are planned for: an option for each field."""

    configurations: tuple[str, ...] = field(
        default=(),
        metadata=asked(
            option="--plan-runs",
            section=sections.PLANNED,
            metavar="CONFIG.json",
            is_multiple=True,
            help="Instead of a fit, propose the runs of this model that tell most; several times for several models.",
        ),
    )
    gpus: int | None = field(
        default=None, metadata=asked_as(training_options.GPUS, section=sections.PLANNED, help="Devices that there are.")
    )
    gpus_per_node: int | None = field(
        default=None, metadata=asked_as(training_options.GPUS_PER_NODE, section=sections.PLANNED)
    )
    sequence: int = field(
        default=_USUAL_SEQUENCE,
        metadata=asked_as(training_options.SEQUENCE, section=sections.PLANNED, shows_default=True),
    )
    precision: str | None = field(default=None, metadata=asked_as(training_options.PRECISION, section=sections.PLANNED))
    num_runs: int = optional(
        "--num-runs", _RUNS, default=_USUAL_RUNS, section=sections.PLANNED, shows_default=True, help="Runs to propose."
    )
    target: Target | None = optional(
        "--target",
        section=sections.PLANNED,
        kind=TargetName(),
        metavar="NAME",
        help="Framework that trains, such as megatron: its rules are kept, and the script has its settings.",
    )
    asked_version: str | None = field(default=None, metadata=asked_as(VERSION, section=sections.PLANNED))
