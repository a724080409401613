"""A small training whose numbers a person can check, and an accelerator with round rates."""

from dataclasses import replace

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.topology import Topology
from evenflow.predict.memory import RankMemory
from evenflow.predict.prediction import Prediction
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import Transformer

LLAMA = Transformer(
    hidden=1024, layers=8, heads=8, kv_heads=4, head_dim=128, ffn=4096, vocabulary=32000, gated=True, name="small"
)
DEVICE = Accelerator(
    name="round",
    flops_per_s=100e12,
    flops_per_s_of={"bfloat16": 100e12},
    memory_bytes_per_s=1e12,
    memory_bytes=16 * 2**30,
    link_bytes_per_s=100e9,
    network_bytes_per_s=10e9,
)
TOPOLOGY = Topology(accelerator=DEVICE, domain_devices=8)


def training(**changes: object) -> Training:
    """Four pipeline ranks of two devices each, 16 microbatches."""
    plain = Training(
        model=LLAMA, degrees=Degrees(tensor=2, pipeline=4), microbatch=1, global_batch=16, sequence=2048
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


def with_memory(prediction: Prediction, memory: tuple[RankMemory, ...], **changes: object) -> Prediction:
    """A prediction whose ranks hold just this."""
    changed = replace(prediction, **changes)  # type: ignore[arg-type]
    changed.__dict__["memory"] = memory  # where `cached_property` keeps it
    return changed
