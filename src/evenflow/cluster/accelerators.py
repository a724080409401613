"""Accelerators: the rates of one device, the time of an operator at them (the roofline), and data sheets by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evenflow.cluster.reached import Reached
from evenflow.errors import InputError
from evenflow.fields import nearest
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


def _data_sheet(
    name: str,
    half: float,
    single: float,
    bandwidth_gb_s: float,
    source: str,
    *,
    eight: float = 0.0,
    four: float = 0.0,
    memory_gb: int,
    link_gb_s: float,
    network_gb_s: float,
    link_devices: int = 8,
    reached: Reached,
) -> Accelerator:
    """Peaks in TFLOPS of 32, 16, 8 and 4 bits, bandwidths in 10^9 bytes per second in one direction, memory in GiB."""
    tflops = {"bfloat16": half, "float16": half, "float32": single, "float8": eight or half, "float4": four or half}
    return Accelerator(
        name=name,
        flops_per_s=single * 1e12,
        flops_per_s_of={dtype: peak * 1e12 for dtype, peak in tflops.items()},
        memory_bytes_per_s=bandwidth_gb_s * 1e9,
        source=source,
        memory_bytes=memory_gb * 2**30,
        link_bytes_per_s=link_gb_s * 1e9,
        link_devices=link_devices,
        network_bytes_per_s=network_gb_s * 1e9,
        reached=reached,
    )


_VOLTA = Reached(product_share=0.8)
_AMPERE = Reached(product_share=0.8)
_HOPPER = Reached(product_share=0.65)
_BLACKWELL = Reached(product_share=0.6)
_CDNA = Reached(product_share=0.5)
_ASCEND = Reached(product_share=0.65)

ACCELERATORS: Mapping[str, Accelerator] = {
    accelerator.name: accelerator
    for accelerator in (
        _data_sheet(
            "v100-32",
            125.0,
            15.7,
            900.0,
            "NVIDIA V100 SXM2 data sheet",
            memory_gb=32,
            link_gb_s=150.0,
            network_gb_s=12.5,
            reached=_VOLTA,
        ),
        _data_sheet(
            "a100",
            312.0,
            19.5,
            2039.0,
            "NVIDIA A100 80GB SXM data sheet",
            memory_gb=80,
            link_gb_s=300.0,
            network_gb_s=25.0,
            reached=_AMPERE,
        ),
        _data_sheet(
            "a100-40",
            312.0,
            19.5,
            1555.0,
            "NVIDIA A100 40GB SXM data sheet",
            memory_gb=40,
            link_gb_s=300.0,
            network_gb_s=25.0,
            reached=_AMPERE,
        ),
        _data_sheet(
            "h100",
            989.4,
            66.9,
            3350.0,
            "NVIDIA H100 SXM data sheet and architecture white paper",
            eight=1978.9,
            memory_gb=80,
            link_gb_s=450.0,
            network_gb_s=50.0,
            reached=_HOPPER,
        ),
        _data_sheet(
            "h100-96",
            989.4,
            66.9,
            2400.0,
            "torchtitan's H100 with 96 GB HBM2e and 500 W",
            eight=1978.9,
            memory_gb=96,
            link_gb_s=450.0,
            network_gb_s=50.0,
            reached=_HOPPER,
        ),
        _data_sheet(
            "h200",
            989.4,
            66.9,
            4800.0,
            "NVIDIA H200 SXM data sheet",
            eight=1978.9,
            memory_gb=141,
            link_gb_s=450.0,
            network_gb_s=50.0,
            reached=_HOPPER,
        ),
        _data_sheet(
            "b200",
            2250.0,
            75.0,
            8000.0,
            "NVIDIA DGX B200 data sheet, an eighth of the system",
            eight=4500.0,
            four=9000.0,
            memory_gb=180,
            link_gb_s=900.0,
            network_gb_s=50.0,
            reached=_BLACKWELL,
        ),
        _data_sheet(
            "b300",
            2250.0,
            75.0,
            8000.0,
            "NVIDIA DGX B300 data sheet, an eighth of the system",
            eight=4500.0,
            four=13500.0,
            memory_gb=268,
            link_gb_s=900.0,
            network_gb_s=100.0,
            reached=_BLACKWELL,
        ),
        _data_sheet(
            "gb200",
            2500.0,
            80.0,
            8000.0,
            "NVIDIA GB200 NVL72 data sheet",
            eight=5000.0,
            four=10000.0,
            memory_gb=186,
            link_gb_s=900.0,
            link_devices=72,
            network_gb_s=50.0,
            reached=_BLACKWELL,
        ),
        _data_sheet(
            "gb300",
            2500.0,
            80.0,
            8000.0,
            "NVIDIA GB300 NVL72 data sheet",
            eight=5000.0,
            four=15000.0,
            memory_gb=279,
            link_gb_s=900.0,
            link_devices=72,
            network_gb_s=100.0,
            reached=_BLACKWELL,
        ),
        _data_sheet(
            "mi300x",
            1307.4,
            163.4,
            5300.0,
            "AMD Instinct MI300X data sheet",
            eight=2614.9,
            memory_gb=192,
            link_gb_s=448.0,
            network_gb_s=50.0,
            reached=_CDNA,
        ),
        _data_sheet(
            "910b",
            376.0,
            94.0,
            1600.0,
            "no public data sheet: a die of the Ascend 910C in CloudMatrix384, arXiv:2506.12708; float32 a quarter",
            memory_gb=64,
            link_gb_s=196.0,
            network_gb_s=25.0,
            reached=_ASCEND,
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
