"""Accelerators: the rates of one device, and the time of an operator at them (the roofline)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from evenflow.cluster.calibration import CalibrationRecord
from evenflow.cluster.reached import Reached
from evenflow.errors import InputError
from evenflow.language import _

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
    generation: str = ""
    """Name of its generation in `evenflow.cluster.generations`; empty where it is of none."""
    switch_reduces: bool = False
    """Whether the switch of a fast domain adds up what its devices send (NVLink SHARP)."""
    reached: Reached = field(default_factory=Reached)
    """What training reaches of these rates."""
    calibration: CalibrationRecord | None = None
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

    def origin(self, dtypes: Iterable[str]) -> str:
        """Return a sentence on where operator times come from, with the peaks of these formats."""
        reached = self.reached
        return _(
            "times follow from operations and bytes at the rates of {name}: {products:g} % of {peaks} in large matrix "
            "products, {attention:g} % in fused attention; {memory:g} % of {bandwidth:g} GB/s; at least {launch:g} µs "
            "an operator ({source})",
            name=self.name,
            products=round(100 * reached.product_share, 1),
            peaks=", ".join(f"{self.rate(dtype) / 1e12:g} TFLOPS {dtype}" for dtype in dtypes),
            attention=round(100 * reached.product_share * reached.attention_share, 1),
            memory=round(100 * reached.memory_share, 1),
            bandwidth=self.memory_bytes_per_s / 1e9,
            launch=reached.operator_ns / 1e3,
            source=self.source or self.name,
        )

    def reaching(self, efficiency: float | None) -> "Accelerator":
        """Return the same device with large matrix products at this share of their peak; None: at its own share."""
        if efficiency is None:
            return self
        if not 0 < efficiency <= 1:
            raise InputError(value=efficiency, rule=_("must be a share above 0 and at most 1"), place="efficiency")
        return replace(self, reached=self.reached.changed({"product_share": efficiency}))
