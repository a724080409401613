"""A measured run of training as a value."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """A field that nobody stated, with the value that a prediction takes for it."""

    field: str
    value: object
    reason: str


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """Configuration and measurement of a run; None for what is not stated.

    `evenflow.profiles.measured.assumptions.completed` puts values into fields that a prediction needs.
    """

    id: str
    source: str
    """Runs that were measured together have the same."""
    ref: str
    """Where it is stated."""
    hardware: str | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    network_gb_s: float | None = None
    """Of the network, what one accelerator has of it in one direction; None: what is usual for the accelerator."""
    model: str | None = None
    hidden: int | None = None
    ffn: int | None = None
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab: int | None = None
    seq: int | None = None
    experts: int | None = None
    active_experts: int | None = None
    expert_ffn: int | None = None
    shared_experts: int | None = None
    mtp_layers: int | None = None
    gated_mlp: bool | None = None
    tied_embeddings: bool | None = None
    precision: str | None = None
    tp: int | None = None
    cp: int | None = None
    ep: int | None = None
    dp: int | None = None
    pp: int | None = None
    vpp: int | None = None
    sequence_parallel: bool | None = None
    zero: str | None = None
    """0 to 3, distopt (Megatron's distributed optimizer) or fsdp."""
    mbs: int | None = None
    gbs: int | None = None
    microbatches: int | None = None
    schedule: str | None = None
    layout: str | None = None
    recompute: str | None = None
    recompute_detail: str | None = None
    overlap_flags: str | None = None
    step_s: float | None = None
    tokens_s_gpu: float | None = None
    tflops_gpu: float | None = None
    mem_gib: float | None = None
    mem_rank: str | None = None
    split: str | None = None
    notes: str | None = None
    assumed: tuple[Assumption, ...] = ()
    """What was put into fields that are not stated."""

    @property
    def network_bytes_per_s(self) -> float | None:
        """What one accelerator has of the network; None: what is usual."""
        return None if self.network_gb_s is None else self.network_gb_s * 1e9

    @cached_property
    def lacks(self) -> tuple[str, ...]:
        """Fields that nobody can assume and that are not stated: without them there is no prediction."""
        return tuple(name for name in NEEDED if getattr(self, name) is None)

    @cached_property
    def configuration(self) -> tuple[object, ...]:
        """What runs of one model on the same accelerators may differ in."""
        return tuple(getattr(self, name) for name in CONFIGURATION)


NEEDED = ("hidden", "layers", "seq", "gbs", "mbs", "tp", "pp")
"""What a prediction needs and nobody can assume."""
CONFIGURATION = (
    "tp", "cp", "ep", "dp", "pp", "vpp", "sequence_parallel", "zero", "mbs", "schedule", "layout", "recompute",
    "recompute_detail", "overlap_flags",
)  # fmt: skip
