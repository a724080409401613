"""Small trainings to check and to change."""

from dataclasses import replace
from typing import Any

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import Experts, Transformer

MODEL = Transformer(
    hidden=1024, layers=24, heads=16, kv_heads=4, head_dim=64, ffn=2816, vocabulary=32_000, gated=True, name="small"
)
EXPERTS = replace(MODEL, experts=Experts(count=8, active=2, ffn=1408, shared_ffn=1408))
TOPOLOGY = Topology(accelerator=accelerator_named("a100"), domain_devices=8)


def training(model: Transformer = MODEL, **settings: Any) -> Training:
    """Return a training of 32 devices; settings of its degrees and its own by name."""
    of_degrees = {name: settings.pop(name) for name in list(settings) if name in Degrees.__dataclass_fields__}
    degrees = Degrees(**{"tensor": 2, "pipeline": 4, "data": 4, **of_degrees})
    return Training(
        **{"model": model, "degrees": degrees, "microbatch": 2, "global_batch": 64, "sequence": 2048, **settings}
    )
