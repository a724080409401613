"""The options of ``evenflow predict``."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from evenflow import ranges
from evenflow.cli.shared import options
from evenflow.cli.shared.numbers import Number
from evenflow.cli.shared.overlaps import OVERLAPS, OverlapList, usual
from evenflow.cli.shared.sections import in_section
from evenflow.language import to_translate
from evenflow.predict.training import FORMATS

_model = in_section(to_translate("Model, as a configuration or as plain numbers"))
_devices = in_section(to_translate("Devices"))
_degrees = in_section(to_translate("How the model is split"))
_step = in_section(to_translate("The step"))
_software = in_section(to_translate("What the framework does"))

_OPTIONS = (
    _model(
        "--model",
        metavar="CONFIG.json",
        help="Configuration of a decoder, as transformers writes it, or the folder that has it.",
    ),
    _model("--hidden", type=options.MODEL_SIZE, help="Hidden size."),
    _model("--layers", type=Number(ranges.MODEL_LAYERS), help="Layers."),
    _model("--heads", type=options.MODEL_SIZE, help="Attention heads."),
    _model("--vocab", type=options.MODEL_SIZE, help="Words of the vocabulary."),
    _model(
        "--gated-mlp", is_flag=True, help="The MLP is gated, as in Llama: three matrices, no biases; else as in GPT."
    ),
    _model("--kv-heads", type=options.MODEL_SIZE, help="Heads of keys and values.  [default: --heads]"),
    _model("--head-dim", type=options.MODEL_SIZE, help="Width of a head.  [default: --hidden / --heads]"),
    _model("--ffn", type=options.MODEL_SIZE, help="Width of the MLP.  [default: 4 x --hidden, gated 8/3 x]"),
    _model("--experts", type=options.MODEL_SIZE, help="Experts in place of the MLP.  [default: none]"),
    _model("--active-experts", type=options.MODEL_SIZE, help="Experts that a token goes to.  [default: 2]"),
    _model("--expert-ffn", type=options.MODEL_SIZE, help="Width of an expert.  [default: --ffn]"),
    _devices(
        "--accelerator",
        required=True,
        metavar="NAME|FILE",
        help="Accelerator by the name of its data sheet, such as h100, or a file that describes one.",
    ),
    _devices("--gpus", type=options.DEVICE_COUNT, help="Devices in all.  [default: the product of the degrees]"),
    _devices(
        "--gpus-per-node",
        type=options.DEVICE_COUNT,
        help="Devices that fast links connect.  [default: those of the accelerator: 8, or 72 in a rack of GB200]",
    ),
    _devices("--memory", metavar="SIZE", help="Memory limit of a device, such as 80GB.  [default: all it has]"),
    _degrees(
        "--tensor", type=options.DEVICE_COUNT, default=1, show_default=True, help="Devices that share every layer."
    ),
    _degrees("--pipeline", type=options.RANK_COUNT, default=1, show_default=True, help="Pipeline ranks."),
    _degrees(
        "--chunks",
        type=options.CHUNK_COUNT,
        help="Model chunks of each rank.  [default: those of the schedule, or 1]",
    ),
    _degrees(
        "--context", type=options.DEVICE_COUNT, default=1, show_default=True, help="Devices that share a sequence."
    ),
    _degrees(
        "--data",
        type=options.DEVICE_COUNT,
        help="Copies of the pipeline, each with a part of the batch.  [default: what --gpus leaves]",
    ),
    _degrees(
        "--expert",
        type=options.DEVICE_COUNT,
        default=1,
        show_default=True,
        help="Devices that share out the experts; they lie in tensor, context and data.",
    ),
    _degrees(
        "--expert-tensor",
        type=options.DEVICE_COUNT,
        help="Devices that share every expert.  [default: 1 with --expert, else --tensor]",
    ),
    _degrees(
        "--zero",
        type=click.Choice(["0", "1", "2", "3"]),
        default="1",
        show_default=True,
        help="What the copies share out: nothing, the optimizer, gradients too, parameters too (FSDP).",
    ),
    _degrees(
        "--no-sequence-parallel",
        is_flag=True,
        help="Norms and residuals are whole on each device of --tensor.",
    ),
    _degrees(
        "--context-exchange",
        type=click.Choice(["ring", "all-gather", "all-to-all"]),
        default="ring",
        show_default=True,
        help="How the devices of --context exchange keys and values.",
    ),
    _degrees(
        "--token-dispatcher",
        type=click.Choice(["alltoall", "deepep"]),
        default="alltoall",
        show_default=True,
        help="How tokens go to experts: a copy for each expert, or one for each node (DeepEP, HybridEP).",
    ),
    _degrees(
        "--expert-capacity",
        type=Number(ranges.EXPERT_CAPACITY),
        metavar="FACTOR",
        help="Times an equal share of a device's tokens that an expert takes at most; others are dropped.  "
        "[default: no limit]",
    ),
    _step("--global-batch", type=options.SEQUENCE_COUNT, required=True, help="Sequences of a step."),
    _step("--microbatch", type=options.SEQUENCE_COUNT, default=1, show_default=True, help="Sequences of a microbatch."),
    _step("--seq", "sequence", type=options.TOKEN_COUNT, required=True, help="Tokens of a sequence."),
    _step(
        "--precision",
        type=click.Choice(list(FORMATS)),
        help="Number format of the linear layers.  [default: bf16; fp16 on devices that are slower in bf16]",
    ),
    _step(
        "--recompute",
        type=click.Choice(["none", "selective", "full"]),
        default="none",
        show_default=True,
        help="What the backward computes again.",
    ),
    _step(
        "--recompute-modules",
        metavar="NAME,…",
        help="What of a layer is computed again, with --recompute selective.  [default: core_attn]",
    ),
    _step(
        "--recompute-layers",
        type=options.LAYER_COUNT,
        help="Layers of each cell that are computed again, with --recompute full.  [default: all]",
    ),
    _step(
        "--schedule",
        metavar="NAME",
        help="One of `evenflow schedules`, such as zb-h1.  [default: 1f1b, or interleaved for several chunks]",
    ),
    _step(
        "--group-size",
        type=options.MICROBATCH_COUNT,
        help="Microbatches of a group in an interleaved schedule.  [default: as many as ranks]",
    ),
    _step(
        "--layers-per-rank",
        multiple=True,
        metavar="N,N,…",
        help="Layers of each rank. Given once, they are dealt over the chunks of the rank in turn; or give it once for "
        "each chunk, in their order.  [default: dealt evenly]",
    ),
    _software(
        "--attention",
        type=click.Choice(["fused", "unfused"]),
        default="fused",
        show_default=True,
        help="One kernel that keeps no scores (FlashAttention), or operator by operator.",
    ),
    _software(
        "--elementwise",
        type=click.Choice(["fused", "eager"]),
        default="fused",
        show_default=True,
        help="Norms, activation functions and residuals: fused or compiled, or one by one.",
    ),
    _software("--cuda-graphs", is_flag=True, help="Launches are captured in graphs."),
    _software(
        "--overlap",
        type=OverlapList(),
        default=usual(OVERLAPS),
        show_default=True,
        help=f"What runs under computation: some of {', '.join(OVERLAPS)}; or none.",
    ),
    _software(
        "--gradient-dtype",
        type=click.Choice(["fp32", "bf16"]),
        default="fp32",
        show_default=True,
        help="Number format in which gradients are kept and reduced.",
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
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions:
    """The command line, as click passes it."""

    model: str | None
    hidden: int | None
    layers: int | None
    heads: int | None
    vocab: int | None
    gated_mlp: bool
    kv_heads: int | None
    head_dim: int | None
    ffn: int | None
    experts: int | None
    active_experts: int | None
    expert_ffn: int | None
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
    context_exchange: str
    token_dispatcher: str
    expert_capacity: float | None
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
    attention: str
    elementwise: str
    cuda_graphs: bool
    overlap: tuple[str, ...]
    gradient_dtype: str
    layer_file: Path | None
    json_file: Path | None
    overwrite: bool
