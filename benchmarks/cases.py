"""The named cases: a network, sizes, a memory limit and a time limit each.

Networks with a layer file are read from examples/, whose README says where the numbers come from. The others are built
here from round figures of a plausible size for one pipeline rank of a tensor-parallel group: not measured, not meant to
judge a device, with limits that none of them keeps without recomputation.

    moe61      61 equal mixture-of-experts layers
    l405       126 layers of the width of a 405-billion-parameter decoder, 8192 tokens, 8-fold tensor parallel
    deep200    200 smaller layers
    kinds2     3 dense layers, then 58 mixture-of-experts layers
    kinds4     four kinds in runs of 24, 30, 40 and 26, as a vision tower and a decoder of three widths
    kinds5     five kinds in runs of 40
    kinds8     eight kinds in runs of 64, the last ones four times as long as the first
    half128    128 half blocks of four kinds: Mamba, MLP, attention and experts in turn
    all61      61 layers, all different: the worst case for a planner that counts equal layers
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evenflow.model import BOTH, COMM, FULL, SELECT, EndBlock, Layer, LayerRun, Mode, Network, Request, Sizes
from evenflow.profiles.layer_file import read_layer_file
from evenflow.schedule import default_family
from evenflow.units import MEGABYTE, bytes_from_megabytes, nanoseconds_from_milliseconds

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
GIGABYTE = 1024 * MEGABYTE
EXTRA_BACKWARD = {FULL: 0.5, SELECT: 0.04, COMM: 0.125, BOTH: 0.165}
"""The share of the backward that each recompute kind adds: the layer file's defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A named input of `evenflow.plan`."""

    name: str
    network: Network
    num_ranks: int
    num_chunks: int
    num_microbatches: int
    memory_limit_bytes: int
    less_memory: bool = False
    time_limit_s: float = 60.0
    """About twice the time that the planner should need."""

    @property
    def request(self) -> Request:
        """Return the request to the planner, for plans with a layer in every cell."""
        sizes = Sizes(num_ranks=self.num_ranks, num_chunks=self.num_chunks, num_microbatches=self.num_microbatches)
        return Request(network=self.network, sizes=sizes, memory_limit_bytes=self.memory_limit_bytes, allow_empty=False)

    @property
    def schedule(self) -> str:
        """The schedule family."""
        return default_family(num_chunks=self.num_chunks, less_memory=self.less_memory)


def layer(name: str, forward_ms: float, parameter_mb: float, **activation_mb: float) -> Layer:
    """Make a layer from its forward time, parameters and activation by kind; the backward is twice the forward."""
    modes = {
        kind: Mode(
            activation_bytes=bytes_from_megabytes(size),
            backward_ns=nanoseconds_from_milliseconds(2 * forward_ms * (1 + EXTRA_BACKWARD.get(kind, 0.0))),
        )
        for kind, size in activation_mb.items()
    }
    return Layer(
        name=name,
        forward_ns=nanoseconds_from_milliseconds(forward_ms),
        parameter_bytes=bytes_from_megabytes(parameter_mb),
        modes=modes,
    )


def end_block(forward_ms: float, parameter_mb: float) -> EndBlock:
    """Make a head or tail."""
    return EndBlock(
        forward_ns=nanoseconds_from_milliseconds(forward_ms),
        backward_ns=nanoseconds_from_milliseconds(2 * forward_ms),
        parameter_bytes=bytes_from_megabytes(parameter_mb),
    )


def network(name: str, *runs: tuple[Layer, int], head: tuple[float, float], tail: tuple[float, float]) -> Network:
    """Make a network from runs of (layer, count); head and tail are (forward ms, parameters MB)."""
    return Network(
        name=name,
        runs=tuple(LayerRun(layer=kind, count=count) for kind, count in runs),
        head=end_block(*head),
        tail=end_block(*tail),
    )


def built_networks() -> Mapping[str, Network]:
    """Return the networks that have no layer file, by name."""
    moe = layer("moe", 5.3, 1400, none=620, select=430, full=40)
    wide = layer("decoder", 9.1, 1900, none=390, select=270, full=34)
    small = layer("decoder", 4.0, 900, none=200, select=130, full=16)
    dense3 = layer("dense", 3.1, 900, none=420, select=300, full=30)
    moe58 = layer("moe", 4.7, 1500, none=610, select=430, full=40)
    four = (
        (layer("vision", 2.0, 700, none=300, select=210, full=20), 24),
        (layer("narrow", 3.3, 1000, none=410, select=300, full=30), 30),
        (layer("wide", 4.9, 1500, none=600, select=430, full=40), 40),
        (layer("last", 2.6, 800, none=350, select=250, full=25), 26),
    )
    five = tuple(
        (layer(f"kind{index}", 2.0 + 0.8 * index, 500 + 150 * index, none=210 + 70 * index, full=16 + 4 * index), 40)
        for index in range(5)
    )
    eight = tuple(
        (layer(f"kind{index}", 2.0 + 0.8 * index, 150 + 30 * index, none=60 + 10 * index, full=8), 64)
        for index in range(8)
    )
    mamba, attention = (
        layer("mamba", 3.3, 290, none=340, full=64),
        layer("attention", 5.1, 310, none=270, full=64),
    )
    mlp, experts = layer("MLP", 4.2, 560, none=300, full=64), layer("experts", 9.4, 900, none=410, full=64)
    halves = [(half, 1) for half in (mamba, mlp, mamba, experts, attention, experts, mamba, experts)] * 16
    draw = random.Random(1)
    different = tuple(
        (
            layer(
                f"layer{index}",
                round(draw.uniform(2, 7), 3),
                round(draw.uniform(500, 1800), 1),
                none=round(draw.uniform(200, 800), 1),
                full=round(draw.uniform(15, 45), 1),
                select=round(draw.uniform(150, 199), 1),
            ),
            1,
        )
        for index in range(61)
    )
    ends = {"head": (0.9, 1800.0), "tail": (5.1, 1900.0)}
    return {
        "moe61": network("moe61", (moe, 61), **ends),
        "l405": network("l405", (wide, 126), head=(1.0, 2100), tail=(7.7, 2100)),
        "deep200": network("deep200", (small, 200), head=(0.5, 1500), tail=(5.0, 1500)),
        "kinds2": network("kinds2", (dense3, 3), (moe58, 58), **ends),
        "kinds4": network("kinds4", *four, **ends),
        "kinds5": network("kinds5", *five, **ends),
        "kinds8": network("kinds8", *eight, head=(0.5, 1000.0), tail=(4.0, 1000.0)),
        "half128": network("half128", *halves, head=(0.4, 3000.0), tail=(9.0, 3000.0)),
        "all61": network("all61", *different, **ends),
    }


def cases() -> Mapping[str, Case]:
    """Return all cases by name, smallest first; reads the layer files of examples/."""
    built = built_networks()
    llama70 = read_layer_file(EXAMPLES / "llama2_70b.json")
    llama175 = read_layer_file(EXAMPLES / "llama2_175b.json")
    moe_file = read_layer_file(EXAMPLES / "moe_61.json")
    limit175 = 56000 * MEGABYTE
    rows: list[tuple[str, Network, int, int, int, int, float]] = [
        ("70b-8x1", llama70, 8, 1, 32, 56000 * MEGABYTE, 60),
        ("70b-8x2", llama70, 8, 2, 32, 56 * GIGABYTE, 60),
        ("175b-16x1", llama175, 16, 1, 16, limit175, 60),
        ("175b-16x3", llama175, 16, 3, 16, limit175, 120),
        ("175b-16x3lm", llama175, 16, 3, 16, limit175, 120),
        ("moe-16x2x32", built["moe61"], 16, 2, 32, 14 * GIGABYTE, 60),
        ("moe-16x2x37", built["moe61"], 16, 2, 37, 14 * GIGABYTE, 60),
        ("405-16x4x64", built["l405"], 16, 4, 64, 34 * GIGABYTE, 300),
        ("405-32x2x64", built["l405"], 32, 2, 64, 20 * GIGABYTE, 300),
        ("200-64x1", built["deep200"], 64, 1, 256, 12 * GIGABYTE, 60),
        ("200-64x2", built["deep200"], 64, 2, 256, 12 * GIGABYTE, 300),
        ("het2-8x2", built["kinds2"], 8, 2, 32, 24 * GIGABYTE, 300),
        ("het2-16x2x37", moe_file, 16, 2, 37, 72 * GIGABYTE, 300),
        ("het4-16x1", built["kinds4"], 16, 1, 32, 24 * GIGABYTE, 300),
        ("hetall-8x2", built["all61"], 8, 2, 32, 24 * GIGABYTE, 300),
        ("half-16x2-28", built["half128"], 16, 2, 64, 28 * GIGABYTE, 60),
        ("half-16x2-56", built["half128"], 16, 2, 64, 56 * GIGABYTE, 60),
        ("het8-128x1-6", built["kinds8"], 128, 1, 1024, 6 * GIGABYTE, 60),
        ("het8-128x1-12", built["kinds8"], 128, 1, 1024, 12 * GIGABYTE, 60),
        ("het5-16x2", built["kinds5"], 16, 2, 32, 22 * GIGABYTE, 300),
    ]
    return {
        name: Case(
            name=name,
            network=model,
            num_ranks=num_ranks,
            num_chunks=num_chunks,
            num_microbatches=num_microbatches,
            memory_limit_bytes=limit,
            less_memory=name.endswith("lm"),
            time_limit_s=time_limit_s,
        )
        for name, model, num_ranks, num_chunks, num_microbatches, limit, time_limit_s in rows
    }
