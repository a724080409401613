"""The published settings of the zero-bubble schedules: our schedules under their times, beside their bubble rates.

Their rate is ``(cost - m (T_F + T_B + T_W)) / cost``, with the longest time of a rank from its first action to its last
as cost: the optimizer does not wait for all ranks. [ZeroBubble, arXiv:2401.10241, §4; zero_bubble.json]
"""

import importlib
import importlib.util
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import aligned
from evenflow.model import NONE, Communication, Layer, LayerRun, Mode, Network, Plan
from evenflow.schedule import FAMILIES
from evenflow.simulate import Simulation, simulate

DATA = Path(__file__).with_name("zero_bubble.json")
SAME_RATE = 5e-5
"""The difference below which two rates are printed the same."""
_ORDER_LIMITS = {"order 1p": 1, "order 2p": 2}
"""Our searched orders by name, with their memory limit in activations of a stage for each rank."""
_PUBLISHED_AS = {"order 1p": "zb-1p", "order 2p": "zb-2p"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row of the published table."""

    model: str
    num_ranks: int
    num_microbatches: int
    network: Network
    layers_per_rank: int
    communication: Communication
    work_ns: int
    """Work of a rank in one step."""
    activation_bytes: int
    """Bytes that one microbatch keeps on a rank, for each token."""
    published: dict[str, float]
    """Published rates by schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The rates of a schedule under a setting."""

    model: str
    num_ranks: int
    num_microbatches: int
    schedule: str
    num_chunks: int
    rate: float
    """The rate as the authors count it."""
    with_sync_rate: float
    """The same rate of the makespan, for an optimizer that waits for all ranks."""
    peak_activations: float
    """Peak memory of the fullest rank, in activations of one microbatch on a rank."""
    published: float | None
    lower_bound_rate: float | None = None
    """No order within the limit has a lower `with_sync_rate`, where that is known."""


def settings() -> Iterator[Setting]:
    """Yield the settings of the data file."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    for values in data["rows"]:
        row = dict(zip(data["columns"], values, strict=True))
        yield _setting(row, data["sequence_length"])


def _setting(row: dict[str, Any], sequence_length: int) -> Setting:
    """Make equal layers that together take the published time of a stage."""
    each = row["layers"] // row["ranks"]
    forward, gradient, weight = (
        round(1000 * row[name] / each) for name in ("forward_us", "input_gradient_us", "weight_gradient_us")
    )
    # What a layer keeps for each token, in bytes, and what of it the weight gradient needs: their memory model.
    activation = 34 * row["hidden"] + 5 * row["heads"] * sequence_length
    layer = Layer(
        name="layer",
        forward_ns=forward,
        parameter_bytes=0,
        modes={NONE: Mode(activation_bytes=activation, backward_ns=gradient + weight)},
        stated_weight_ns=weight,
        stated_until_weight_bytes=32 * row["hidden"],
    )
    return Setting(
        model=row["model"],
        num_ranks=row["ranks"],
        num_microbatches=row["microbatches"],
        network=Network(name=row["model"], runs=(LayerRun(layer=layer, count=row["layers"]),)),
        layers_per_rank=each,
        communication=Communication(latency_ns=1000 * row["message_us"], transfer_ns=0),
        work_ns=row["microbatches"] * each * (forward + gradient + weight),
        activation_bytes=each * activation,
        published={name: row[name] for name in row if name in FAMILIES or name.startswith("zb-")},
    )


def families(setting: Setting) -> Iterator[Rate]:
    """Simulate every family that has equal chunks for this setting; several chunks have one layer each."""
    for name, family in FAMILIES.items():
        if family.comparison_only:
            continue
        chunks = family.num_chunks or (setting.layers_per_rank if family.fewest_chunks > 1 else 1)
        if setting.layers_per_rank % chunks:
            continue
        plan = _even(setting, name, chunks)
        simulation = simulate(setting.network, plan, communication=setting.communication)
        yield _rate(setting, name, simulation)


def orders(setting: Setting, *, seconds: float) -> Iterator[Rate]:
    """Search orders of one chunk with split backwards, within the published memory limits."""
    if importlib.util.find_spec("evenflow.solve.order") is None:
        return
    search_order = importlib.import_module("evenflow.solve.order.order_search").search_order
    for name, times in _ORDER_LIMITS.items():
        plan = _even(setting, "zb-h1", 1)
        found = search_order(
            plan,
            setting.network,
            memory_limit_bytes=times * setting.num_ranks * setting.activation_bytes,
            communication=setting.communication,
            time_limit_s=seconds,
            split_backward=True,
        )
        simulation = simulate(setting.network, plan, schedule=found.schedule, communication=setting.communication)
        yield _rate(setting, name, simulation, lower_bound_ns=found.lower_bound_ns)


def _even(setting: Setting, schedule: str, chunks: int) -> Plan:
    return Plan(
        schedule=schedule,
        num_microbatches=setting.num_microbatches,
        layers=((setting.layers_per_rank // chunks,) * setting.num_ranks,) * chunks,
    )


def _rate(setting: Setting, name: str, simulation: Simulation, *, lower_bound_ns: int | None = None) -> Rate:
    cost = longest_rank_ns(simulation)
    return Rate(
        model=setting.model,
        num_ranks=setting.num_ranks,
        num_microbatches=setting.num_microbatches,
        schedule=name,
        num_chunks=simulation.plan.num_chunks,
        rate=1 - setting.work_ns / cost,
        with_sync_rate=1 - setting.work_ns / simulation.makespan_ns,
        peak_activations=max(simulation.peak_memory_bytes) / setting.activation_bytes,
        published=setting.published.get(_PUBLISHED_AS.get(name, name)),
        lower_bound_rate=None if lower_bound_ns is None else 1 - setting.work_ns / lower_bound_ns,
    )


def longest_rank_ns(simulation: Simulation) -> int:
    """Return the longest time of a rank from its first action to the end of its last."""
    starts = np.array(simulation.timeline.schedule.rank_starts)
    timeline = simulation.timeline
    return int((timeline.end_ns[starts[1:] - 1] - timeline.start_ns[starts[:-1]]).max())


def report(rates: Sequence[Rate]) -> str:
    """Return a column for each setting; each schedule has its rates, the published ones, those with sync, the bound."""
    columns = list(dict.fromkeys((each.model, each.num_ranks, each.num_microbatches) for each in rates))
    rows: list[list[str]] = [["p x m", *(f"{ranks}x{microbatches}" for _, ranks, microbatches in columns), ""]]
    for schedule in dict.fromkeys(each.schedule for each in rates):
        of = {(each.model, each.num_ranks, each.num_microbatches): each for each in rates if each.schedule == schedule}
        memory = max(each.peak_activations / each.num_ranks for each in of.values())
        lines: dict[str, list[float | None]] = {
            schedule: [of[column].rate if column in of else None for column in columns],
            "  published": [of[column].published if column in of else None for column in columns],
            "  with sync": [of[column].with_sync_rate if column in of else None for column in columns],
            "  bound": [of[column].lower_bound_rate if column in of else None for column in columns],
        }
        if all(each.with_sync_rate - each.rate < SAME_RATE for each in of.values()):
            del lines["  with sync"]
        rows += [
            [name, *("-" if value is None else f"{value:.4f}" for value in values), f"{memory:.2f}" if at == 0 else ""]
            for at, (name, values) in enumerate(lines.items())
            if any(value is not None for value in values)
        ]
    return aligned(["", *(model for model, _, _ in columns), "memory/p"], rows)
