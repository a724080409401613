"""A published measurement of training as a value."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """A field that no source states, with the value that a prediction takes for it."""

    field: str
    value: object
    reason: str


@dataclass(frozen=True, kw_only=True)
class PublishedRun:
    """A row of the format in README.md: configuration and measurement; None where the source does not state a field.

    `benchmarks.published.assumptions.completed` puts values into fields that a prediction needs.
    """

    id: str
    source: str
    ref: str
    hardware: str | None
    gpus: int | None
    gpus_per_node: int | None
    model: str | None
    hidden: int | None
    ffn: int | None
    layers: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    vocab: int | None
    seq: int | None
    experts: int | None
    active_experts: int | None
    expert_ffn: int | None
    shared_experts: int | None
    mtp_layers: int | None
    gated_mlp: bool | None
    tied_embeddings: bool | None
    precision: str | None
    tp: int | None
    cp: int | None
    ep: int | None
    dp: int | None
    pp: int | None
    vpp: int | None
    sequence_parallel: bool | None
    zero: str | None
    """0 to 3, distopt (Megatron's distributed optimizer) or fsdp."""
    mbs: int | None
    gbs: int | None
    microbatches: int | None
    schedule: str | None
    layout: str | None
    recompute: str | None
    recompute_detail: str | None
    overlap_flags: str | None
    step_s: float | None
    tokens_s_gpu: float | None
    tflops_gpu: float | None
    mem_gib: float | None
    mem_rank: str | None
    split: str | None
    notes: str | None
    assumed: tuple[Assumption, ...] = ()
    """What was put into fields that the source does not state."""

    @cached_property
    def lacks(self) -> tuple[str, ...]:
        """Fields that nobody can assume and that are not stated: without them there is no prediction."""
        return tuple(name for name in NEEDED if getattr(self, name) is None)

    @cached_property
    def configuration(self) -> tuple[object, ...]:
        """What runs of one model on the same accelerators may differ in."""
        return tuple(getattr(self, name) for name in CONFIGURATION)


NEEDED = ("hidden", "layers", "seq", "gbs", "mbs", "tp", "pp")
CONFIGURATION = (
    "tp", "cp", "ep", "dp", "pp", "vpp", "sequence_parallel", "zero", "mbs", "schedule", "layout", "recompute",
    "recompute_detail", "overlap_flags",
)  # fmt: skip
