"""Accelerators: the rates of one device, the time of an operator at them (the roofline), and data sheets by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evenflow.errors import InputError
from evenflow.fields import nearest
from evenflow.language import _

EFFICIENCY = 0.7
"""The share of the peak that large matrix products reach unless the caller says otherwise.

FlashAttention-2 measures 225 of 312 TFLOPS per device (72 %) for whole training steps of GPT models on A100
[arXiv:2307.08691, §1]; FlashAttention-3 up to 740 TFLOPS (75 %) on H100 [arXiv:2407.08608].
"""

_NANOSECONDS = 1e9
"""Nanoseconds per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """The rates of one device, without sparsity: a data sheet's peaks, or a share of them."""

    flops_per_s: float
    """Rate of matrix products of every dtype without a rate of its own."""
    memory_bytes_per_s: float
    flops_per_s_of: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Rate of matrix products by dtype, such as ``bfloat16``."""
    name: str = "accelerator"
    source: str = ""
    """The publication that states the rates."""

    def __post_init__(self) -> None:
        by_dtype = {f"flops_per_s_of[{dtype}]": rate for dtype, rate in self.flops_per_s_of.items()}
        rates = {"flops_per_s": self.flops_per_s, "memory_bytes_per_s": self.memory_bytes_per_s, **by_dtype}
        for name, rate in rates.items():
            if not 0 < rate < float("inf"):
                raise InputError(
                    value=rate,
                    rule=_("must be above zero and finite"),
                    place=f"{self.name}, {name}",
                )

    def rate(self, dtype: str) -> float:
        """Operations of matrix products of `dtype` per second."""
        return self.flops_per_s_of.get(dtype, self.flops_per_s)

    def reaching(self, efficiency: float) -> "Accelerator":
        """Return the same device with matrix products at this share of their rates; memory keeps its own."""
        if not 0 < efficiency <= 1:
            raise InputError(value=efficiency, rule=_("must be a share above 0 and at most 1"), place="efficiency")
        return replace(
            self,
            flops_per_s=self.flops_per_s * efficiency,
            flops_per_s_of={dtype: rate * efficiency for dtype, rate in self.flops_per_s_of.items()},
        )

    def all_in(self, dtype: str) -> "Accelerator":
        """Return the same device where every matrix product runs at the rate of `dtype`."""
        return replace(self, flops_per_s=self.rate(dtype), flops_per_s_of={})

    def operator_ns(self, *, flops: float, moved_bytes: float, dtype: str = "") -> float:
        """Nanoseconds of one operator: its arithmetic or its memory traffic, whichever takes longer.

        ``max(flops / rate, bytes / bandwidth)`` [Williams et al., Roofline, Communications of the ACM 52(4), 2009]
        """
        arithmetic_ns = flops / (self.rate(dtype) / _NANOSECONDS)
        return max(arithmetic_ns, moved_bytes / (self.memory_bytes_per_s / _NANOSECONDS))


def _data_sheet(name: str, half: float, single: float, bandwidth_gb_s: float, source: str) -> Accelerator:
    """Peaks in TFLOPS of the 16-bit types and of float32, and memory bandwidth in 10^9 bytes per second."""
    tflops = {"bfloat16": half, "float16": half, "float32": single}
    return Accelerator(
        name=name,
        flops_per_s=single * 1e12,
        flops_per_s_of={dtype: peak * 1e12 for dtype, peak in tflops.items()},
        memory_bytes_per_s=bandwidth_gb_s * 1e9,
        source=source,
    )


ACCELERATORS: Mapping[str, Accelerator] = {
    accelerator.name: accelerator
    for accelerator in (
        _data_sheet("a100", 312.0, 19.5, 2039.0, "NVIDIA A100 80GB SXM data sheet"),
        _data_sheet("h100", 989.4, 66.9, 3350.0, "NVIDIA H100 SXM data sheet and architecture white paper"),
        _data_sheet("h200", 989.4, 66.9, 4800.0, "NVIDIA H200 SXM data sheet"),
        _data_sheet("b200", 2250.0, 75.0, 8000.0, "NVIDIA DGX B200 data sheet, an eighth of the system"),
        _data_sheet("mi300x", 1307.4, 163.4, 5300.0, "AMD Instinct MI300X data sheet"),
        _data_sheet(
            "910b",
            376.0,
            94.0,
            1600.0,
            "no public data sheet: a die of the Ascend 910C in CloudMatrix384, arXiv:2506.12708; float32 a quarter",
        ),
    )
}
"""Peak rates by name."""

A100 = ACCELERATORS["a100"].reaching(EFFICIENCY).all_in("bfloat16")
"""70 % of its peak in bfloat16, the share that training steps reach; as ``evenflow auto`` has it by default."""


def accelerator_named(name: str) -> Accelerator:
    """Return the data sheet called `name`. Raises `InputError` with the valid names."""
    if name.lower() in ACCELERATORS:
        return ACCELERATORS[name.lower()]
    near = nearest(name.lower(), ACCELERATORS)
    known = ", ".join(ACCELERATORS)
    remedy = (
        _("did you mean {near!r}?", near=near) if near else _("take one like yours, and correct it with an efficiency")
    )
    raise InputError(value=name, rule=_("must be one of {known}", known=known), place="accelerator", remedy=remedy)
