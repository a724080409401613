"""Accelerators: the rates of one device, and the time of an operator at them (the roofline)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evenflow.cluster.calibration import Calibration
from evenflow.cluster.reached import Reached
from evenflow.errors import InputError
from evenflow.language import _

EFFICIENCY = 0.7
"""The share of the peak that large matrix products reach unless the caller says otherwise.

FlashAttention-2 measures 225 of 312 TFLOPS per device (72 %) for whole training steps of GPT models on A100
[arXiv:2307.08691, §1]; FlashAttention-3 up to 740 TFLOPS (75 %) on H100 [arXiv:2407.08608].
"""

LOW_PRECISION = frozenset(("float8", "float4"))
"""Formats of products whose peak is twice that of 16 bits or more."""
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
    memory_bytes: int = 0
    """Memory of one device; 0 where it is not known."""
    link_bytes_per_s: float = 0.0
    """Bandwidth of one device to others of its fast domain (NVLink and its like), in each direction."""
    link_devices: int = 8
    """Devices of a fast domain: of a node, or of a rack."""
    network_bytes_per_s: float = 0.0
    """Bandwidth of one device to other domains, in each direction."""
    reached: Reached = field(default_factory=Reached)
    """What training reaches of these rates."""
    calibration: Calibration | None = None
    """What `reached` was fitted to, where it was."""

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

    def time_ns(
        self,
        *,
        flops: float,
        moved_bytes: float,
        dtype: str = "",
        depth: float = 0.0,
        calls: int = 1,
        is_fused_attention: bool = False,
    ) -> float:
        """Nanoseconds of `calls` equal operators with these operations and bytes in all, as training reaches them.

        The longest of arithmetic, memory traffic, and what the host takes to launch. `depth` is the length of the sums
        of a matrix product. [Williams et al., Roofline, Communications of the ACM 52(4), 2009]
        """
        reached = self.reached
        arithmetic_ns = 0.0
        if flops:
            share = reached.product_share * (reached.low_precision_share if dtype in LOW_PRECISION else 1.0)
            share *= reached.attention_share if is_fused_attention else 1.0
            ramp = 1.0 + reached.ramp_depth / depth if depth else 1.0
            arithmetic_ns = flops * ramp / (self.rate(dtype) * share / _NANOSECONDS)
        traffic_ns = moved_bytes / (self.memory_bytes_per_s * reached.memory_share / _NANOSECONDS)
        return max(arithmetic_ns, traffic_ns, calls * reached.operator_ns)

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
