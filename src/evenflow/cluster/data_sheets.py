"""Accelerators by name: the rates of their data sheets.

Peaks are dense, without structured sparsity, in 10**12 operations per second. Bandwidths are those of one device in one
direction, in 10**9 bytes per second: half of a data sheet's sum of both. Memory is what PyTorch reports, in 2**30
bytes: a little less than is sold. Products of 32-bit numbers run at the rate of 32 bits, which is PyTorch's default;
TensorFloat-32 (``tfloat32``) has a rate of its own. A format that a device lacks has the rate of the next wider one
that it has. The network is that of the usual node of the device's time.
"""

import math
import re
from collections.abc import Mapping

from evenflow import joining
from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.generations import GENERATIONS
from evenflow.fields import did_you_mean, not_one_of
from evenflow.joining import Registry
from evenflow.language import _

_SHARP = ("Hopper", "Blackwell")
"""Generations whose NVLink switches add up what devices send (NVLink SHARP)."""


def _sheet(
    name: str,
    *,
    half: float,
    single: float,
    tf32: float = 0.0,
    brain: float = 0.0,
    eight: float = 0.0,
    four: float = 0.0,
    memory: tuple[float, float],
    link: tuple[float, int],
    network: float,
    generation: str,
    source: str,
) -> Accelerator:
    """Return a data sheet: `brain` is bfloat16 where that is not `half`; `memory` is its size and its bandwidth.

    `link` is the bandwidth between devices of one fast domain, and how many these are.
    """
    eight = eight or half
    tflops = {
        "bfloat16": brain or half,
        "float16": half,
        "float32": single,
        "tfloat32": tf32 or single,
        "float8": eight,
        "float4": four or eight,
    }
    return Accelerator(
        name=name,
        flops_per_s=single * 1e12,
        flops_per_s_of={dtype: peak * 1e12 for dtype, peak in tflops.items()},
        memory_bytes_per_s=memory[1] * 1e9,
        source=source,
        memory_bytes=round(memory[0] * 2**30),
        link_bytes_per_s=link[0] * 1e9,
        link_devices=link[1],
        network_bytes_per_s=network * 1e9,
        generation=generation,
        switch_reduces=generation in _SHARP,
        reached=GENERATIONS[generation],
    )


def _clocked(tflops: float) -> float:
    """Peak of an H100 that may take 500 of 700 W: power grows with the third power of the clock."""
    return round(tflops * math.pow(500 / 700, 1 / 3), 1)


_SHEETS = (
    _sheet(
        "v100-16",
        half=125.0, single=15.7, brain=15.7,
        memory=(15.77, 900.0), link=(150.0, 8), network=6.25, generation="Volta",
        source="NVIDIA V100 SXM2 data sheet; DGX-1: 4 cards of 100 Gb/s for 8 devices",
    ),
    _sheet(
        "v100-32",
        half=125.0, single=15.7, brain=15.7,
        memory=(31.73, 900.0), link=(150.0, 8), network=6.25, generation="Volta",
        source="NVIDIA V100 SXM2 data sheet; DGX-1: 4 cards of 100 Gb/s for 8 devices",
    ),
    _sheet(
        "a100-40",
        half=312.0, single=19.5, tf32=156.0,
        memory=(39.39, 1555.0), link=(300.0, 8), network=25.0, generation="Ampere",
        source="NVIDIA A100 data sheet, 40 GB SXM; DGX A100: 200 Gb/s a device",
    ),
    _sheet(
        "a100-80",
        half=312.0, single=19.5, tf32=156.0,
        memory=(79.15, 2039.0), link=(300.0, 8), network=25.0, generation="Ampere",
        source="NVIDIA A100 data sheet, 80 GB SXM; DGX A100: 200 Gb/s a device",
    ),
    _sheet(
        "a800",
        half=312.0, single=19.5, tf32=156.0,
        memory=(79.15, 2039.0), link=(200.0, 8), network=25.0, generation="Ampere",
        source="no public data sheet: an A100 80 GB SXM with the 400 GB/s of NVLink of the A800 40 GB Active's",
    ),
    _sheet(
        "h100",
        half=989.4, single=66.9, tf32=494.7, eight=1978.9,
        memory=(79.1, 3350.0), link=(450.0, 8), network=50.0, generation="Hopper",
        source="NVIDIA H100 SXM data sheet, Hopper white paper; DGX H100: 400 Gb/s a device",
    ),
    _sheet(
        "h100-96",
        half=_clocked(989.4), single=_clocked(66.9), tf32=_clocked(494.7), eight=_clocked(1978.9),
        memory=(95.04, 2447.0), link=(450.0, 8), network=50.0, generation="Hopper",
        source="H100 with 96 GB HBM2e and 500 W (torchtitan); bandwidth of six of the H100 PCIe's five stacks",
    ),
    _sheet(
        "h800",
        half=989.4, single=66.9, tf32=494.7, eight=1978.9,
        memory=(79.1, 3350.0), link=(200.0, 8), network=50.0, generation="Hopper",
        source="an H100 with 400 GB/s of NVLink, arXiv:2505.09343, section 4.1",
    ),
    _sheet(
        "h20",
        half=148.0, single=44.0, tf32=74.0, eight=296.0,
        memory=(95.1, 4000.0), link=(450.0, 8), network=50.0, generation="Hopper",
        source="no public data sheet: as makers of servers print it",
    ),
    _sheet(
        "h200",
        half=989.4, single=66.9, tf32=494.7, eight=1978.9,
        memory=(139.8, 4800.0), link=(450.0, 8), network=50.0, generation="Hopper",
        source="NVIDIA H200 SXM data sheet; DGX H200: 400 Gb/s a device",
    ),
    _sheet(
        "b200",
        half=2250.0, single=75.0, tf32=1125.0, eight=4500.0, four=9000.0,
        memory=(178.35, 8000.0), link=(900.0, 8), network=50.0, generation="Blackwell",
        source="NVIDIA DGX B200 and HGX B200 data sheets, an eighth of the system",
    ),
    _sheet(
        "b300",
        half=2250.0, single=75.0, tf32=1125.0, eight=4500.0, four=13500.0,
        memory=(267.69, 8000.0), link=(900.0, 8), network=100.0, generation="Blackwell",
        source="NVIDIA DGX B300 and HGX B300 data sheets, an eighth of the system",
    ),
    _sheet(
        "gb200",
        half=2500.0, single=80.0, tf32=1250.0, eight=5000.0, four=10000.0,
        memory=(184.31, 8000.0), link=(900.0, 72), network=50.0, generation="Blackwell",
        source="NVIDIA GB200 NVL72 data sheet, a part of 72; trays of 4 devices",
    ),
    _sheet(
        "gb300",
        half=2500.0, single=80.0, tf32=1250.0, eight=5000.0, four=15000.0,
        memory=(276.5, 8000.0), link=(900.0, 72), network=100.0, generation="Blackwell",
        source="NVIDIA GB300 NVL72 data sheet, a part of 72; trays of 4 devices",
    ),
    _sheet(
        "mi250x",
        half=191.5, single=47.9,
        memory=(63.98, 1638.4), link=(150.0, 8), network=12.5, generation="CDNA",
        source="AMD Instinct MI250X data sheet, one of its two dies; Frontier user guide: "
        "3 links of 50 GB/s to dies of other packages, 4 cards of 200 Gb/s for 8 dies",
    ),
    _sheet(
        "mi300x",
        half=1307.4, single=163.4, tf32=653.7, eight=2614.9,
        memory=(191.98, 5300.0), link=(448.0, 8), network=50.0, generation="CDNA",
        source="AMD Instinct MI300X data sheet; 7 links of 64 GB/s, 400 Gb/s a device",
    ),
    _sheet(
        "mi325x",
        half=1307.4, single=163.4, tf32=653.7, eight=2614.9,
        memory=(255.98, 6000.0), link=(448.0, 8), network=50.0, generation="CDNA",
        source="AMD Instinct MI325X data sheet; 7 links of 64 GB/s, 400 Gb/s a device",
    ),
    _sheet(
        "mi355x",
        half=2516.6, single=157.3, eight=5033.2, four=10066.3,
        memory=(287.98, 8000.0), link=(537.6, 8), network=50.0, generation="CDNA",
        source="AMD Instinct MI355X data sheet; 7 links of 76.8 GB/s, 400 Gb/s a device",
    ),
    _sheet(
        "910b",
        half=376.0, single=94.0,
        memory=(61.28, 1600.0), link=(196.0, 8), network=25.0, generation="Ascend",
        source="no public data sheet: a die of the Ascend 910C, arXiv:2506.12708; 7 links of 28 GB/s, RoCE of 200 Gb/s "
        "a device; float32 taken as a quarter of float16",
    ),
    *(
        _sheet(
            name,
            half=peak, single=peak / 4,
            memory=memory, link=(link, 8), network=network, generation="Ascend",
            source=f"no public data sheet: {cores} cubes of 8,192 operations at {clock} GHz, as the platform "
            f"configurations of CANN have them; {rest}; float32 taken as a quarter of float16",
        )
        for name, peak, memory, link, network, cores, clock, rest in (
            ("910b1", 363.7, (61.28, 1600.0), 196.0, 25.0, 24, 1.85, "all else as 910b"),
            ("910b2", 353.9, (61.28, 1600.0), 196.0, 25.0, 24, 1.8, "all else as 910b"),
            ("910b3", 294.9, (61.28, 1600.0), 196.0, 25.0, 20, 1.8, "all else as 910b"),
            ("910b4", 245.8, (30.64, 800.0), 32.0, 12.5, 20, 1.5, "half the memory at half the rate; links of "
             "32 GB/s, as simulators of serving have them; 100 Gb/s a device taken"),
        )
    ),
    _sheet(
        "910c",
        half=376.0, single=94.0,
        memory=(61.28, 1600.0), link=(196.0, 768), network=25.0, generation="Ascend",
        source="CloudMatrix384, arXiv:2506.12708, section 3.3, one of an Ascend 910C's two dies; float32 taken as a "
        "quarter of float16",
    ),
    _sheet(
        "910c-package",
        half=752.0, single=188.0,
        memory=(122.56, 3200.0), link=(392.0, 384), network=50.0, generation="Ascend",
        source="CloudMatrix384, arXiv:2506.12708, section 3.3, both dies of an Ascend 910C as one device, though "
        "programs see two; float32 taken as a quarter of float16",
    ),
)  # fmt: skip

_OWN = {sheet.name: sheet for sheet in _SHEETS}
ACCELERATORS: Registry[Accelerator] = Registry(_OWN, joining.ACCELERATORS, Accelerator)
"""Data sheets by name."""

ALIASES: Mapping[str, str] = {
    "v100": "v100-32",
    "a100": "a100-80",
    "a800-80": "a800",
    "h100-80": "h100",
    "910c-die": "910c",
    "a3": "910c",
    "a3-die": "910c",
    "a3-package": "910c-package",
}
"""Other names of theirs."""
_WRITTEN = re.compile(r"(?:nvidia|amd|huawei)?[\s_-]*(?:ascend)?[\s_-]*(.+?)(?:gb)?")
"""A name as others write it: with its maker before it, and the unit of its memory behind."""

A100 = _OWN["a100-80"]
"""What two-level plans are made for by default."""


def accelerator_named(name: str, *, place: str = "accelerator") -> Accelerator:
    """Return the data sheet called `name`, such as ``h100`` or ``NVIDIA A100-40GB``; `place` is for messages.

    Raises:
        InputError: another name; the message has those that are known.
    """
    written = _WRITTEN.fullmatch(name.strip().lower())
    known = re.sub(r"[\s_]+", "-", written[1]) if written else ""
    known = ALIASES.get(known, known)
    if known in ACCELERATORS:
        return ACCELERATORS[known]
    remedy = did_you_mean(known, (*ACCELERATORS, *ALIASES))
    remedy = remedy or _("name a file that describes yours, which ends in .yaml or .json")
    raise not_one_of(name, ACCELERATORS, place=place, remedy=remedy)
