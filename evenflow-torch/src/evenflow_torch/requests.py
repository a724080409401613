"""What a two-level plan and a profile are asked for: one class for the options of a verb and the keywords in Python."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from evenflow import ranges
from evenflow.asking import Metadata, asked, asked_as, optional
from evenflow.cluster import FEWEST_AXES, Accelerator, Dtype
from evenflow.model.kept_per_parameter import OPTIMIZERS
from evenflow.predict.chosen_sets import ModuleSets, named_sets
from evenflow.predict.overlaps import STAGE_OVERLAPS, stage_overlaps_named, usual
from evenflow.profiles.own_plan_file import SCHEDULES
from evenflow.questions import NUM_MICROBATCHES

FAKE = "fake"
"""Device on which times are computed, not measured."""
FUSED, EAGER = "fused", "eager"
"""Elementwise operators: in few kernels, or one by one as PyTorch runs them."""

ACCELERATOR = asked(
    option="--accelerator",
    metavar="NAME|FILE",
    help="Accelerator of the devices, such as a100, h100, gb200, mi300x or 910b, or a YAML or JSON file that describes "
    "one.",
)
EFFICIENCY = asked(
    ranges.SHARE,
    option="--efficiency",
    metavar="SHARE",
    help="Share of the accelerator's peak that large matrix products reach.  [default: the accelerator's own]",
)
OPTIMIZER = asked(
    option="--optimizer",
    choices=tuple(OPTIMIZERS),
    shows_default=True,
    help="What training keeps for a parameter: adam holds 32-bit weights and moments, torch-adam moments of --dtype.",
)
SEQUENCE = asked(ranges.TOKENS, option="--seq", help="Tokens of a sequence.")


def number_format(*offered: Dtype) -> Metadata:
    """Return the question which of some number formats parameters and activations have; the first is usual."""
    usual_one = offered[0]
    return asked(
        option="--dtype",
        choices=offered,
        help=f"Number format of parameters and activations; long names such as {usual_one.value} mean the same.  "
        f"[default: {usual_one.short_name}]",
    )


_DISPATCHERS = ("alltoall", "deepep")
"""Words for how tokens go to experts, of `predict.vocabulary`."""
_DTYPE = number_format(Dtype.BFLOAT16, Dtype.FLOAT16, Dtype.FLOAT32)


@dataclass(frozen=True, kw_only=True)
class AutoRequest:
    """The step, the training and the rates that a two-level plan is made for."""

    global_batch: int | None = optional(
        "--global-batch", ranges.SEQUENCES, help="Sequences of a step: size and number of its microbatches are chosen."
    )
    num_microbatches: int | None = field(default=None, metadata=NUM_MICROBATCHES)
    sequence: int = field(metadata=asked_as(SEQUENCE, typed_default="4096", shows_default=True))
    target_sequence: int | None = optional(
        "--target-seq",
        ranges.TOKENS,
        help="Tokens of a target, of a model with encoder and decoder; --seq is its source.  [default: as --seq]",
    )
    microbatch: int | None = optional(
        "--microbatch",
        ranges.SEQUENCES,
        help="Sequences of a microbatch, on all devices of a stage together.  [default: chosen with "
        "--global-batch, else one for each device of the mesh]",
    )
    accelerator: str | Accelerator = field(default="a100", metadata=asked_as(ACCELERATOR, shows_default=True))
    efficiency: float | None = field(default=None, metadata=EFFICIENCY)
    dtype: str = field(default="bf16", metadata=_DTYPE)
    optimizer: str = field(default="adam", metadata=OPTIMIZER)
    bytes_per_parameter: int | None = optional(
        "--bytes-per-parameter",
        ranges.BYTES_PER_PARAMETER,
        metavar="BYTES",
        help="Bytes of weight, gradient and optimizer state together, instead of those of --optimizer.",
    )
    overlap: Iterable[str] = optional(
        "--overlap",
        default=("gradients", "parameters"),
        metavar="NAME,…",
        read=stage_overlaps_named,
        typed_default=usual(STAGE_OVERLAPS),
        shows_default=True,
        help=f"What runs under the computation of a stage: some of {', '.join(STAGE_OVERLAPS)}; or none.",
    )
    expert_capacity: float | None = optional(
        "--expert-capacity",
        ranges.EXPERT_CAPACITY,
        metavar="FACTOR",
        help="Times an equal share of a device's tokens that an expert takes at most; others are dropped.  "
        "[default: no limit]",
    )
    most_axes: int = optional(
        "--axes",
        ranges.MESH_AXES,
        default=FEWEST_AXES,
        shows_default=True,
        help="Axes of the meshes that stages are tried on; 3 also splits the devices of a node in two ways, takes "
        "longer.",
    )
    schedule: str = optional(
        "--schedule",
        default="1f1b",
        choices=SCHEDULES,
        shows_default=True,
        help="Order of work that the stages are chosen for; the refinement tries others.",
    )


@dataclass(frozen=True, kw_only=True)
class ProfileRequest:
    """The microbatch, the device and the training that a model is profiled for."""

    sequence: int = field(metadata=SEQUENCE)
    microbatch: int = optional(
        "--microbatch", ranges.SEQUENCES, default=1, shows_default=True, help="Sequences of a microbatch on one device."
    )
    tensor_parallel: int = optional(
        "--tensor-parallel",
        ranges.DEVICES,
        default=1,
        shows_default=True,
        help="Devices that share every layer; the times leave out their communication.",
    )
    expert_parallel: int = optional(
        "--expert-parallel",
        ranges.DEVICES,
        default=1,
        shows_default=True,
        help="Devices that share the experts of each layer. Computed times have their exchanges of tokens, and so have "
        "measured ones under torchrun with as many processes.",
    )
    token_dispatcher: str | None = optional(
        "--token-dispatcher",
        choices=_DISPATCHERS,
        help="How computed times have tokens go to experts: a copy for each expert, or one for each node (DeepEP, "
        f"HybridEP).  [default: {_DISPATCHERS[0]}]",
    )
    device: str = optional(
        "--device",
        default=FAKE,
        choices=(FAKE, "cpu", "cuda"),
        shows_default=True,
        help="Device that times are measured on; fake computes them for --accelerator instead.",
    )
    accelerator: str | None = field(default=None, metadata=ACCELERATOR)
    efficiency: float | None = field(default=None, metadata=EFFICIENCY)
    dtype: str = field(default="bf16", metadata=_DTYPE)
    optimizer: str = field(default="adam", metadata=OPTIMIZER)
    elementwise: str = optional(
        "--elementwise",
        default=FUSED,
        choices=(FUSED, EAGER),
        shows_default=True,
        help="Norms, activation functions and residuals: fused or compiled, or one by one, as they are measured.",
    )
    recompute_sets: ModuleSets | None = optional(
        "--recompute-sets",
        read=named_sets,
        metavar="SETS|best",
        help="Sets of modules of a layer, by their names in the model, that it may compute again, each a recompute "
        "kind: mlp,input_layernorm+mlp; best for those that no others beat.  [default: comm, select and both]",
    )
