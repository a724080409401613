"""Accelerators whose times can be told at sight."""

from collections.abc import Mapping

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.reached import Reached

WHOLE_RATES = Reached(
    product_share=1.0, low_precision_share=1.0, attention_share=1.0, memory_share=1.0, ramp_depth=0.0, operator_ns=0.0
)


def plain_accelerator(
    *, flops_per_s: float, memory_bytes_per_s: float, flops_per_s_of: Mapping[str, float] | None = None
) -> Accelerator:
    """An accelerator that reaches its rates, and launches in no time."""
    return Accelerator(
        flops_per_s=flops_per_s,
        memory_bytes_per_s=memory_bytes_per_s,
        flops_per_s_of=flops_per_s_of or {},
        reached=WHOLE_RATES,
    )
