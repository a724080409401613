"""A question that several tests ask: a small dense model on two nodes of four devices."""

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.predict.memory_error import margin
from evenflow.predict.transformer import Transformer
from evenflow.tune.question import USUAL_CONFIDENCE, TuningQuestion
from evenflow.units import GIGABYTE


def device_of(gigabytes: float) -> int:
    """Return the memory of an H100 into which ranks fit surely enough that need so much beside the driver."""
    driver_bytes = accelerator_named("h100").reached.driver_bytes
    return round(margin(USUAL_CONFIDENCE) * gigabytes * GIGABYTE + driver_bytes)


def question() -> TuningQuestion:
    model = Transformer(
        hidden=2048, layers=8, heads=16, kv_heads=8, head_dim=128, ffn=5632, vocabulary=32000, gated=True
    )
    return TuningQuestion(
        model=model,
        topology=Topology(accelerator=accelerator_named("h100"), domain_devices=4),
        devices=8,
        global_batch=32,
        sequence=4096,
        memory_limit_bytes=16 * 2**30,
        schedules=("1f1b",),
    )
