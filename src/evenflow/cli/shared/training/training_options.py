"""Options of devices, degrees and the step that verbs about a training share, and their values together."""

from collections.abc import Collection
from dataclasses import dataclass, field

import click
from click.core import ParameterSource

from evenflow import ranges
from evenflow.asking import Metadata, asked, asked_as, optional
from evenflow.cli.shared import options
from evenflow.cli.shared.defaults import from_file
from evenflow.cli.shared.training import sections
from evenflow.cli.shared.training.software_options import SoftwareOptions
from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, NONE, SELECT
from evenflow.predict.host_update import HostUpdate
from evenflow.predict.training import FORMATS
from evenflow.questions import NUM_CHUNKS, NUM_RANKS
from evenflow.units import parse_bandwidth

KIND_WORDS = {NONE: "none", SELECT: "selective", FULL: "full"}
"""Word of ``--recompute`` by recompute kind."""
KINDS = {word: kind for kind, word in KIND_WORDS.items()}
"""Recompute kind by the word of ``--recompute``."""

ACCELERATOR = asked(
    option="--accelerator",
    section=sections.DEVICES,
    metavar="NAME|FILE",
    help="Accelerator by the name of its data sheet, such as h100, or a file that describes one.",
)
GPUS = asked(
    ranges.DEVICES,
    option="--gpus",
    section=sections.DEVICES,
    help="Devices in all.  [default: the product of the degrees]",
)
GPUS_PER_NODE = asked(
    ranges.DEVICES,
    option="--gpus-per-node",
    section=sections.DEVICES,
    help="Devices that fast links connect.  [default: those of the accelerator: 8, or 72 in a rack of GB200]",
)
NETWORK = asked(
    option="--network",
    section=sections.DEVICES,
    metavar="RATE",
    help="Bandwidth of the network between nodes that one device has in one direction, such as 50Gbps where two share "
    "a card of 100Gbps, or less where switches are oversubscribed.  [default: what is usual for the accelerator]",
)
MEMORY = asked(
    option="--memory",
    section=sections.DEVICES,
    metavar="SIZE",
    help="Memory of a device, such as 80GB, of which the driver takes a part.  [default: all it has]",
)


def _degree(option: str, help_text: str) -> Metadata:
    return asked(ranges.DEVICES, option=option, section=sections.DEGREES, shows_default=True, help=help_text)


TENSOR = _degree("--tensor", "Devices that share every layer.")
CONTEXT = _degree("--context", "Devices that share a sequence.")
EXPERT = _degree("--expert", "Devices that share out the experts; they lie in tensor, context and data.")
EXPERT_TENSOR = _degree(
    "--expert-tensor", "Devices that share every expert.  [default: 1 with --expert, else --tensor]"
)
DATA = _degree("--data", "Copies of the pipeline, each with a part of the batch.  [default: what --gpus leaves]")
ZERO = asked(
    option="--zero",
    section=sections.DEGREES,
    choices=("0", "1", "2", "3"),
    shows_default=True,
    help="What the copies share out: nothing, the optimizer, gradients too, parameters too (FSDP).",
)
OPTIMIZER_OFFLOAD = asked(
    ranges.PART,
    option="--optimizer-offload",
    section=sections.DEGREES,
    metavar="SHARE",
    help="Part of the optimizer's state that the host keeps and updates, from 0 to 1; needs --host-link.  [default: 0]",
)
HOST_LINK = asked(
    option="--host-link",
    section=sections.DEVICES,
    metavar="RATE",
    help="Bandwidth of a device to the host's memory in one direction, such as 50GBps; with --optimizer-offload.",
)
HOST_UPDATE = asked(
    option="--host-update",
    section=sections.DEVICES,
    metavar="RATE",
    help="Bytes of parameters, gradients and state that the host's processors go through for one device, read and "
    "written; with --optimizer-offload.  [default: 22GBps]",
)
NO_SEQUENCE_PARALLEL = asked(
    option="--no-sequence-parallel",
    section=sections.DEGREES,
    help="Norms and residuals are whole on each device of --tensor.",
)
GLOBAL_BATCH = asked(ranges.SEQUENCES, option="--global-batch", section=sections.STEP, help="Sequences of a step.")
MICROBATCH = asked(
    ranges.SEQUENCES,
    option="--microbatch",
    section=sections.STEP,
    shows_default=True,
    help="Sequences of a microbatch.",
)
SEQUENCE = asked(ranges.TOKENS, option="--seq", section=sections.STEP, help="Tokens of a sequence.")
PRECISION = asked(
    option="--precision",
    section=sections.STEP,
    choices=tuple(FORMATS),
    help="Number format of the linear layers.  [default: bf16; fp16 on devices that are slower in bf16]",
)
RECOMPUTE = asked(
    option="--recompute",
    section=sections.STEP,
    choices=tuple(KINDS),
    shows_default=True,
    help="What the backward computes again.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """How a training is split, its step, and what its framework does: all but the model."""

    behaviour: SoftwareOptions = field(metadata=asked(group=SoftwareOptions))
    accelerator: str = field(metadata=ACCELERATOR)
    gpus: int | None = field(default=None, metadata=GPUS)
    gpus_per_node: int | None = field(default=None, metadata=GPUS_PER_NODE)
    network: str | None = field(default=None, metadata=NETWORK)
    memory: str | None = field(default=None, metadata=MEMORY)
    tensor: int = field(default=1, metadata=TENSOR)
    pipeline: int = field(
        default=1,
        metadata=asked_as(NUM_RANKS, option="--pipeline", section=sections.DEGREES, shows_default=True),
    )
    chunks: int | None = field(default=None, metadata=asked_as(NUM_CHUNKS, section=sections.DEGREES))
    context: int = field(default=1, metadata=CONTEXT)
    data: int | None = field(default=None, metadata=DATA)
    expert: int = field(default=1, metadata=EXPERT)
    expert_tensor: int | None = field(default=None, metadata=EXPERT_TENSOR)
    zero: str = field(default="1", metadata=ZERO)
    optimizer_offload: float | None = field(default=None, metadata=OPTIMIZER_OFFLOAD)
    host_link: str | None = field(default=None, metadata=HOST_LINK)
    host_update: str | None = field(default=None, metadata=HOST_UPDATE)
    no_sequence_parallel: bool = field(default=False, metadata=NO_SEQUENCE_PARALLEL)
    global_batch: int = field(metadata=GLOBAL_BATCH)
    microbatch: int = field(default=1, metadata=MICROBATCH)
    sequence: int = field(metadata=SEQUENCE)
    precision: str | None = field(default=None, metadata=PRECISION)
    recompute: str = field(default="none", metadata=RECOMPUTE)
    recompute_modules: str | None = optional(
        "--recompute-modules",
        section=sections.STEP,
        metavar="NAME,…",
        help="What of a layer is computed again, with --recompute selective.  [default: core_attn]",
    )
    recompute_layers: int | None = optional(
        "--recompute-layers",
        ranges.LAYERS,
        section=sections.STEP,
        help="Layers of each cell that are computed again, with --recompute full.  [default: all]",
    )
    schedule: str | None = field(default=None, metadata=asked_as(options.ONE_SCHEDULE, section=sections.STEP))
    group_size: int | None = optional(
        "--group-size",
        ranges.MICROBATCHES,
        section=sections.STEP,
        help="Microbatches of a group in an interleaved schedule.  [default: as many as ranks]",
    )
    layers_per_rank: tuple[str, ...] = optional(
        "--layers-per-rank",
        default=(),
        section=sections.STEP,
        is_multiple=True,
        metavar="N,N,…",
        help="Layers of each rank. Given once, they are dealt over the chunks of the rank in turn; or give it once "
        "for each chunk, in their order.  [default: dealt evenly]",
    )
    allow_empty: bool | None = field(default=None, metadata=asked_as(options.ALLOWS_EMPTY, section=sections.STEP))


def host_update(offload: float | None, link: str | None, update: str | None) -> HostUpdate | None:
    """Return how fast the host updates what it keeps, by the options; None where it keeps nothing.

    Raises:
        InputError: rates without a part of the state that the host keeps, or that part without a link.
    """
    if not offload:
        for value, option in ((link, "--host-link"), (update, "--host-update")):
            if value is not None:
                rule = _("must come with --optimizer-offload, the part of the state that the host keeps")
                raise InputError(value=value, rule=rule, place=option)
        return None
    if link is None:
        rule = _("must come with {option}, the bandwidth to the host's memory", option="--host-link")
        raise InputError(value=offload, rule=rule, place="--optimizer-offload")
    rates = {} if update is None else {"update_bytes_per_s": round(parse_bandwidth(update, place="--host-update"))}
    return HostUpdate(link_bytes_per_s=round(parse_bandwidth(link, place="--host-link")), **rates)


def topology_of(accelerator: Accelerator, gpus_per_node: int | None, network: str | None) -> Topology:
    """Return the devices, by the options; raises InputError for a bandwidth that cannot be read."""
    rate = None if network is None else parse_bandwidth(network, place="--network")
    return Topology.of(accelerator, gpus_per_node, network_bytes_per_s=rate)


def usual_precision(accelerator: Accelerator) -> str:
    """Return the number format of linear layers where none is asked for."""
    return "bf16" if accelerator.rate("bfloat16") >= accelerator.rate("float16") else "fp16"


def options_given() -> Collection[str]:
    """Return the names of the options that the command line or a file of defaults has, of the command that runs."""
    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}


def options_typed() -> Collection[str]:
    """Return the same without those that are defaults of the user's file, which mean nothing beside some inputs."""
    context = click.get_current_context()
    return {name for name in options_given() if not from_file(name, context)}
