"""The options with which a verb plans the configuration of a model, in the place of a layer file."""

from collections.abc import Collection
from dataclasses import dataclass, field, fields

import click

from evenflow.asking import asked, asked_as
from evenflow.cli.shared.training import training_options
from evenflow.cli.shared.training.encoder_options import ENCODER, FIRST, EncoderOptions
from evenflow.cli.shared.training.model_options import EXPERT_CAPACITY, FREEZE, HALF_BLOCKS, LORA, RECOMPUTE_SETS
from evenflow.cli.shared.training.sections import DEVICES
from evenflow.cli.shared.training.software_options import SoftwareOptions
from evenflow.language import looked_up, to_translate

RANK_ACCELERATOR = "--rank-accelerator"
_OWN_TITLE = to_translate("Options")
_TITLE = to_translate("Only for the configuration of a model (config.json)")


class ConfigurableCommand(click.Command):
    """A command whose help has the options of a configuration in a section of their own, after all others."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write both lists of options."""
        sections: dict[str, list[tuple[str, str]]] = {_OWN_TITLE: [], _TITLE: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections[_TITLE if hasattr(parameter, "section") else _OWN_TITLE].append(record)
        for title, records in sections.items():
            with formatter.section(looked_up(title)):
                formatter.write_dl(records)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationOptions:
    """What was given beside a configuration; each field is the name of an option."""

    accelerator: str | None = field(default=None, metadata=training_options.ACCELERATOR)
    rank_accelerator: str | None = field(
        default=None,
        metadata=asked(
            option=RANK_ACCELERATOR,
            section=DEVICES,
            metavar="RANKS:NAME|FILE,…",
            help="Accelerator of some ranks where it is not that of --accelerator: 4-7:a100, or one for each rank.",
        ),
    )
    gpus_per_node: int | None = field(default=None, metadata=training_options.GPUS_PER_NODE)
    network: str | None = field(default=None, metadata=training_options.NETWORK)
    sequence: int | None = field(
        default=None,
        metadata=asked_as(
            training_options.SEQUENCE,
            help="Tokens of a sequence.  [default: 4,096, or the most that the model has learned positions for]",
        ),
    )
    microbatch: int = field(default=1, metadata=training_options.MICROBATCH)
    tensor: int = field(default=1, metadata=training_options.TENSOR)
    context: int = field(default=1, metadata=training_options.CONTEXT)
    expert: int = field(default=1, metadata=training_options.EXPERT)
    expert_tensor: int | None = field(default=None, metadata=training_options.EXPERT_TENSOR)
    data: int = field(
        default=1,
        metadata=asked_as(training_options.DATA, help="Copies of the pipeline, each with --microbatches of its own."),
    )
    zero: str = field(default="1", metadata=training_options.ZERO)
    optimizer_offload: float | None = field(default=None, metadata=training_options.OPTIMIZER_OFFLOAD)
    host_update: str | None = field(default=None, metadata=training_options.HOST_UPDATE)
    no_sequence_parallel: bool = field(default=False, metadata=training_options.NO_SEQUENCE_PARALLEL)
    precision: str | None = field(default=None, metadata=training_options.PRECISION)
    expert_capacity: float | None = field(default=None, metadata=EXPERT_CAPACITY)
    freeze: int | None = field(default=None, metadata=FREEZE)
    lora: int | None = field(default=None, metadata=LORA)
    encoders: EncoderOptions = field(metadata=asked(group=EncoderOptions))
    encoder: str = field(default=FIRST, metadata=ENCODER)
    half_blocks: bool = field(default=False, metadata=HALF_BLOCKS)
    recompute_sets: str | None = field(default=None, metadata=RECOMPUTE_SETS)
    behaviour: SoftwareOptions = field(metadata=asked(group=SoftwareOptions))


def only_for_configurations(written: Collection[str]) -> tuple[str, ...]:
    """Return those of the options on a command line that mean nothing without a configuration."""
    names = [field.name for group in (ConfigurationOptions, EncoderOptions, SoftwareOptions) for field in fields(group)]
    return tuple("--seq" if name == "sequence" else f"--{name.replace('_', '-')}" for name in names if name in written)
