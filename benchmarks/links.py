"""Orders for a pipeline with one slow link, beside those of PipeMorph's authors for the same times.

Their settings and the makespans of their orders are kept in peer_links.json; nothing of theirs is part of evenflow.
Both may hold every microbatch until its weight gradient, as their orders do on most ranks.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import evenflow
from benchmarks.table import aligned
from evenflow.model import Layer, LayerRun, Mode, Network, Plan, RankTraits
from evenflow.simulate import simulate
from evenflow.units import milliseconds

_PEER = Path(__file__).with_name("peer_links.json")
_MILLISECOND = 10**6
_NUM_MICROBATCHES = 12
_FAMILIES = ("1f1b", "zb-h1", "zb-h2")
_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A pipeline with one slow link, and the makespan of the order that PipeMorph has for it."""

    link: int
    delay_ms: int
    times_ms: list[tuple[int, int, int]]
    """Forward, gradient and weight gradient of each rank."""
    peer_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A setting, the steps of some families, and the orders of both."""

    setting: Setting
    families_ms: tuple[float, ...]
    found_ms: float
    bound_ms: float


def compare() -> list[Compared]:
    """Search an order for each setting."""
    return [_compared(Setting(**setting)) for setting in json.loads(_PEER.read_text())["settings"]]


def _compared(setting: Setting) -> Compared:
    network = network_of(setting)
    cells = ((1,) * len(network.ranks),)
    families = [Plan(schedule=name, num_microbatches=_NUM_MICROBATCHES, layers=cells) for name in _FAMILIES]
    searched = evenflow.search_order(
        families[0], network, memory_limit_bytes=None, split_backward=True, time_limit_s=_SECONDS
    )
    return Compared(
        setting=setting,
        families_ms=tuple(milliseconds(simulate(network, plan).makespan_ns) for plan in families),
        found_ms=milliseconds(searched.makespan_ns),
        bound_ms=milliseconds(searched.lower_bound_ns),
    )


def network_of(setting: Setting) -> Network:
    """Return a layer for every rank, with the times of the setting, one link of it slow."""
    runs = []
    for forward, gradient, weight in setting.times_ms:
        kept = Mode(activation_bytes=1, backward_ns=(gradient + weight) * _MILLISECOND)
        layer = Layer(
            name="layer", forward_ns=forward * _MILLISECOND, parameter_bytes=1, modes={"none": kept},
            stated_weight_ns=weight * _MILLISECOND,
        )  # fmt: skip
        runs.append(LayerRun(layer=layer, count=1))
    delay_ns = setting.delay_ms * _MILLISECOND
    ranks = tuple(RankTraits(link_ns=delay_ns if rank == setting.link else 0) for rank in range(len(runs)))
    return Network(name="links", runs=tuple(runs), ranks=ranks)


def report(rows: list[Compared]) -> str:
    """Return the table, in milliseconds."""
    header = ["slow link", "delay", *_FAMILIES, "PipeMorph", "evenflow", "bound", "shorter %"]
    cells = [
        [
            f"{row.setting.link} to {row.setting.link + 1}",
            f"{row.setting.delay_ms}",
            *(f"{step:,.0f}" for step in row.families_ms),
            f"{row.setting.peer_ms:,}",
            f"{row.found_ms:,.0f}",
            f"{row.bound_ms:,.0f}",
            f"{100 * (1 - row.found_ms / row.setting.peer_ms):.1f}",
        ]
        for row in rows
    ]
    return aligned(header, cells)
