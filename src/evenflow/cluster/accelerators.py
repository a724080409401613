"""Accelerators by name, with the numbers of their data sheets."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from evenflow.errors import InputError

EFFICIENCY = 0.7
"""The share of the peak that large matrix products reach unless the caller says otherwise.

FlashAttention-2 measures 225 of 312 TFLOPS a device (72 %) for whole training steps of GPT models on A100
[arXiv:2307.08691, §1]; FlashAttention-3 up to 740 TFLOPS (75 %) on H100 [arXiv:2407.08608].
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """Peak rates of one device, without sparsity."""

    name: str
    peak_tflops: Mapping[str, float]
    """Matrix products, 10^12 operations a second, by type."""
    bandwidth_gb_s: float
    """Memory bandwidth, 10^9 bytes a second."""
    source: str


def _accelerator(name: str, half: float, single: float, bandwidth_gb_s: float, source: str) -> Accelerator:
    peaks = {"bfloat16": half, "float16": half, "float32": single}
    return Accelerator(name=name, peak_tflops=peaks, bandwidth_gb_s=bandwidth_gb_s, source=source)


ACCELERATORS: Mapping[str, Accelerator] = {
    accelerator.name: accelerator
    for accelerator in (
        _accelerator("a100", 312.0, 19.5, 2039.0, "NVIDIA A100 80GB SXM data sheet"),
        _accelerator("h100", 989.4, 66.9, 3350.0, "NVIDIA H100 SXM data sheet and architecture white paper"),
        _accelerator("h200", 989.4, 66.9, 4800.0, "NVIDIA H200 SXM data sheet"),
        _accelerator("b200", 2250.0, 75.0, 8000.0, "NVIDIA DGX B200 data sheet, an eighth of the system"),
        _accelerator("mi300x", 1307.4, 163.4, 5300.0, "AMD Instinct MI300X data sheet"),
        _accelerator(
            "910b",
            376.0,
            94.0,
            1600.0,
            "no public data sheet: a die of the Ascend 910C in CloudMatrix384, arXiv:2506.12708; float32 a quarter",
        ),
    )
}


def accelerator_named(name: str) -> Accelerator:
    """The accelerator called `name`. Raises `InputError` with the valid names."""
    if name.lower() in ACCELERATORS:
        return ACCELERATORS[name.lower()]
    near = difflib.get_close_matches(name.lower(), ACCELERATORS, n=1)
    known = ", ".join(ACCELERATORS)
    remedy = f"did you mean {near[0]!r}?" if near else "take one like yours, and correct it with --efficiency"
    raise InputError(value=name, rule=f"one of {known}", place="--accelerator", remedy=remedy)
