"""A training step: the model, how it is split over devices, its batch, number formats and software."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from evenflow.model import FULL, NONE, OFFLOAD, SELECT, SET_JOINT, HostLink, Sizes, chain_of
from evenflow.predict.host_update import HostUpdate
from evenflow.predict.transformer import Transformer

CONTEXT_EXCHANGES = ("ring", "all-gather", "all-to-all")
"""How the devices of a context group exchange keys and values, or heads."""


class Sharding(StrEnum):
    """How much of the parameters' state is sharded over a data-parallel group. [ZeRO, arXiv:1910.02054]"""

    NOTHING = "0"
    OPTIMIZER = "1"
    """ZeRO-1, Megatron's distributed optimizer."""
    GRADIENTS = "2"
    PARAMETERS = "3"
    """ZeRO-3, fully sharded data parallel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """How many ways a training is split. Devices: pipeline * tensor * context * data; experts lie across these."""

    tensor: int = 1
    pipeline: int = 1
    chunks: int = 1
    """Model chunks of each pipeline rank."""
    context: int = 1
    data: int = 1
    expert: int = 1
    expert_tensor: int | None = None
    """Ways that an expert's matrices are split; None: as `tensor`, or 1 where experts are distributed."""
    sequence_parallel: bool = True
    sharding: Sharding = Sharding.OPTIMIZER
    optimizer_offload: float = 0.0
    """Part of the parameters whose optimizer state the host keeps and updates."""
    data_outermost: bool = False
    """Whether copies of the model lie furthest apart and pipeline ranks next to each other, instead of the reverse.

    Devices of a stage that share experts are taken to be neighbours nevertheless.
    """
    context_exchange: str = "ring"
    """How the devices of a context group exchange: one of `CONTEXT_EXCHANGES`."""

    @property
    def pipeline_stride(self) -> int:
        """Devices from one pipeline rank to the next."""
        return self.tensor * self.context * (1 if self.data_outermost else self.data)

    @property
    def devices(self) -> int:
        """Devices in all."""
        return self.tensor * self.pipeline * self.context * self.data


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """How a framework implements the same mathematics."""

    fused_attention: bool = True
    """Attention in one kernel that does not write its scores (FlashAttention and its like)."""
    attention_slowdown: float = 1.0
    """How many times as long its fused attention takes as kernels made for the accelerator: those of PyTorch and Triton
    run on every generation."""
    skips_masked: bool = True
    """Whether fused attention skips blocks that the causal mask hides."""
    transposes_attention: bool = False
    """Fused attention takes the batch first and keeps its output in that order too (FlashAttention's own kernels)."""
    fused_elementwise: bool = True
    """Whether activation functions, norms, residuals and positions are fused or compiled."""
    fuses_casts: bool = False
    """Whether casts to 8 bits are fused with the operators before them, as a compiler does."""
    fused_loss: bool = True
    """Whether the loss works in place of its logits."""
    gathers_logits: bool = False
    """Whether every tensor-parallel device has the logits of all words for the loss."""
    saves_in_8_bits: bool = False
    """Whether what an activation function takes is kept in 8 bits, whatever its format."""
    compiled_loss: bool = False
    """Whether such a loss has its softmax from logits in 16 bits once more, and their gradients in 16 bits."""
    captured_graphs: bool = False
    """Whether launches are captured in graphs: then the host does not limit operators."""
    overlaps_tensor: bool = False
    """Tensor-parallel collectives run under matrix products."""
    overlaps_gradients: bool = True
    """Gradients are reduced under the last backward."""
    overlaps_parameters: bool = True
    """Parameters are gathered under the first forward."""
    overlaps_pipeline: bool = True
    """Pipeline messages are sent while the rank computes."""
    overlaps_one_chunk: bool = True
    """They are with one chunk a rank too, and not only under an interleaved schedule, as in Megatron-LM."""
    splits_messages: bool = True
    """Each tensor-parallel device sends its share of a pipeline message, and gathers at the other end. [Megatron-LM,
    arXiv:2104.04473, §4.1]"""
    messages_in_turn: bool = False
    """A rank sends on and receives back one after the other, where messages are not overlapped: the instructions of
    DeepSpeed's pipeline engine. Else both go at once, as Megatron-LM batches them."""
    overlaps_experts: bool = False
    """Tokens are exchanged between experts under other microbatches' computation."""
    gradient_bytes: int = 4
    """Bytes in which gradients are kept."""
    reduced_bytes: int = 4
    """Bytes in which they are reduced."""
    gathered_bytes: int = 2
    """Bytes in which parameters are gathered that the optimizer has changed."""
    sends_tokens_once: bool = False
    """Tokens go once to each node of their experts, and from there to all of these (DeepEP, HybridEP)."""
    permutes_sent: bool = False
    """Tokens are put in the order of their experts by the kernels that send them (HybridEP)."""
    recipe: str = ""
    """How numbers in 8 or 4 bits are scaled, one of `recipes.OF_FORMATS`; empty: as is usual for the precision."""


PRODUCTS = "products"
"""A recompute module: all operators between the matrix products, and every second product."""
FULL_ATTENTION = "full_attn"
"""A recompute module: attention with its projections, which keeps its normed input."""
QUERY_NORMS = "qk_norm"
"""Work of the norms of queries and keys."""
RECOMPUTE_MODULES = (
    "core_attn", "layernorm", "mlp", "moe", "moe_act", "mla_up_proj", "shared_experts", FULL_ATTENTION, PRODUCTS
)  # fmt: skip
"""Parts of a layer that kind `select` can compute again, as Megatron-LM names them; `FULL_ATTENTION`, as PaddleNLP
does, and `PRODUCTS`."""
_INSIDE: Mapping[str, tuple[str, ...]] = {
    "layernorm": (QUERY_NORMS,),
    "moe": ("moe_act", "shared_experts"),
    FULL_ATTENTION: ("core_attn", "mla_up_proj", "attention", "qkv", "rotary", "out", QUERY_NORMS),
}
"""Modules and work that are computed again with a module, which has them inside. [Megatron-LM, `MoELayer.forward`]"""


MOVED_MODULES = ("attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act")
"""Parts of a layer whose inputs the host can keep, as Megatron-LM names them."""
MOVES = f"{OFFLOAD}_"
"""Before the name of such a module in a set, to tell it from one that is computed again."""
SET_MODULES = (*RECOMPUTE_MODULES, *(f"{MOVES}{module}" for module in MOVED_MODULES))
"""What may be in a set, in the order in which it stands there."""
_INCOMPATIBLE = {
    "core_attn": ("mla_up_proj", "core_attn", FULL_ATTENTION),
    "attn_proj": (FULL_ATTENTION,),
    "qkv_linear": (FULL_ATTENTION,),
    "moe_act": ("moe",),
    "expert_fc1": ("moe",),
}
"""What a module that is moved must not be beside: what computes again what it would move. [Megatron-LM]

`moe_act` that is computed again keeps what it reads, which can move.
"""


def is_possible_set(modules: Collection[str]) -> bool:
    """Return whether a set is one whose modules can be moved and computed again together.

    The output of attention, which is the input of `attn_proj`, is moved only with what `core_attn` keeps beside it.
    """
    moved = moved_of(modules)
    beside = not any(again in modules for module in moved for again in _INCOMPATIBLE.get(module, ()))
    return beside and ("attn_proj" not in moved or "core_attn" in moved)


def moved_of(modules: Iterable[str]) -> frozenset[str]:
    """Return the modules of a set whose inputs move to the host."""
    return frozenset(module.removeprefix(MOVES) for module in modules if module.startswith(MOVES))


def with_inner(modules: Iterable[str]) -> frozenset[str]:
    """Return modules with those that are inside of them."""
    return frozenset(inner for module in modules for inner in (module, *_INSIDE.get(module, ())))


def set_kind(modules: Sequence[str]) -> str:
    """Return the recompute kind that a set of modules is."""
    return SET_JOINT.join(modules)


def sets_among(kinds: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return the sets of modules that are among recompute kinds."""
    named = (tuple(kind.split(SET_JOINT)) for kind in kinds)
    return tuple(modules for modules in named if all(module in SET_MODULES for module in modules))


def moved_chain(kind: str) -> tuple[str, ...]:
    """Return the kinds from that which moves nothing to `kind`, each with one module more; none unless that moves some.

    >>> moved_chain("layernorm+offload_core_attn+offload_moe_act")
    ('layernorm', 'layernorm+offload_core_attn', 'layernorm+offload_core_attn+offload_moe_act')
    """
    modules = tuple(kind.split("+"))
    again = tuple(module for module in modules if not module.startswith(MOVES))
    moved = modules[len(again) :]
    if not moved or modules not in sets_among([kind]):
        return ()
    return chain_of(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One optimizer step of a transformer."""

    model: Transformer
    degrees: Degrees
    microbatch: int
    """Sequences of a microbatch."""
    global_batch: int
    """Sequences of a step."""
    sequence: int
    """Tokens of a sequence."""
    precision: str = "bf16"
    """Of linear layers: bf16, fp16, fp32, fp8, nvfp4; attention and the output layer have their `wide_format`."""
    schedule: str | None = None
    """Name of an evenflow schedule family; None: 1f1b, or interleaved with several chunks."""
    recompute: str = "none"
    """Recompute kind of all layers: none, select, full."""
    recompute_modules: tuple[str, ...] = ("core_attn",)
    """What kind `select` computes again, of `RECOMPUTE_MODULES`."""
    recompute_sets: tuple[tuple[str, ...], ...] = ()
    """Sets of modules that are recompute kinds of their own, in the place of `select`: those that are computed again,
    and behind `MOVES` those whose inputs move to the host.
    """
    host_link: HostLink | None = None
    """The link over which they move."""
    host_update: HostUpdate | None = None
    """How fast the host updates what it keeps; None: not known, and it keeps nothing."""
    full_layers: int | None = None
    """Under `full`, how many layers of each cell; None: all."""
    layout: tuple[tuple[int, ...], ...] = ()
    """Layers of every cell, by chunk and rank; empty: dealt evenly."""
    group_size: int | None = None
    """Microbatches that go through a chunk before the rank's next one; None: as many as fill the pipeline."""
    ends_are_layers: bool = False
    """Embedding and loss count as a layer each where layers are dealt evenly."""
    software: Software = field(default_factory=Software)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The recompute kinds that its layers offer."""
        return (NONE, *(map(set_kind, self.recompute_sets) if self.recompute_sets else (SELECT,)), FULL)

    def modules_under(self, kind: str) -> frozenset[str]:
        """Return the modules that a kind other than `full` computes again."""
        if kind == SELECT:
            return with_inner(self.recompute_modules)
        return with_inner(kind.split(SET_JOINT)) if kind != NONE else frozenset()

    def moved_under(self, kind: str) -> frozenset[str]:
        """Return the modules whose inputs a kind moves to the host."""
        return moved_of(kind.split(SET_JOINT))

    @property
    def overlaps_pipeline(self) -> bool:
        """Whether pipeline messages are sent while the rank computes."""
        software = self.software
        return software.overlaps_pipeline and (software.overlaps_one_chunk or self.degrees.chunks > 1)

    @property
    def microbatches(self) -> int:
        """Microbatches of a pipeline and step."""
        return self.global_batch // (self.degrees.data * self.microbatch)

    @property
    def sizes(self) -> Sizes:
        """The sizes of a pipeline; raises InputError for those that no pipeline can have."""
        degrees = self.degrees
        return Sizes(num_ranks=degrees.pipeline, num_chunks=degrees.chunks, num_microbatches=self.microbatches)

    @property
    def wide_format(self) -> str:
        """Number format of attention and the output layer, which stay wide in trainings with 8 or 4 bits."""
        return FORMATS[self.precision if self.precision in ("fp16", "fp32") else "bf16"]


FORMATS: Mapping[str, str] = {
    "bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp8": "float8", "nvfp4": "float4"
}  # fmt: skip
"""Number format of the products of linear layers, by the precision of a training."""
