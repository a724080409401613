"""Plans that move activations to the host beside those of PipeOffload's authors' own scheduler, at the same memory.

Their files run as they are, from a checkout that the caller has; nothing of theirs is part of evenflow. Their
answers are kept in peer_offload.json, so that the comparison runs without them. Their order is interleaved 1F1B in
groups whose backwards are split. Two neighbouring devices take turns on one link: a copy takes its time while the other
device copies in the opposite direction, and 0.7 of it in its turn where both bring activations to the host, so 1.4 for
the two. Ours take turns with nobody; they always take the first, and then always 1.4 of it: the truth lies between.
[PipeOffload, arXiv:2503.01328]
"""

import importlib
import json
import math
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.peer_schedulers import load_peers
from benchmarks.table import aligned
from evenflow.model import ANY_CONTENT, NONE, OFFLOAD, HostLink, Layer, LayerRun, Mode, Network, Request, Sizes
from evenflow.schedule import Action, Op, Schedule, different_group_sizes, make_schedule
from evenflow.solve.clock import Clock
from evenflow.solve.problem import problem_of_order
from evenflow.solve.race import Race, RaceSettings

SOURCE = Path(__file__).with_name("peer_offload.json")
SEED = 20250301
RANDOM = 40
_PACKAGE = "megatron.core.pipeline_parallel.zerobubble.scheduler"
_UNIT_BYTES = 10**6
"""Activation of one microbatch in one stage."""
_NS = 1000
"""Nanoseconds of a unit of time."""
_SLOWER = 2 * 0.7
"""Time of a copy where two devices bring activations to the host, each after the other."""
_FETCHES = ((1, None), (2, None), (1, 2), (1, 3), (2, 3), (3, 4))
"""Actions ahead of a backward, and buffers, that are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadSetting:
    """Equal stages, and what their scheduler is asked for beside them."""

    ranks: int
    chunks: int
    microbatches: int
    forward: int
    gradient: int
    weight: int
    offload_time: float
    """Time of a copy as a share of that of all work of a microbatch in a stage."""
    group_size: int
    offload_chunks: int
    """First chunks whose activations move."""

    @property
    def copy(self) -> float:
        """Time of a copy while their other device copies in the opposite direction."""
        return round((self.forward + self.gradient + self.weight) * self.offload_time, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class TheirAnswer:
    """What their scheduler makes of a setting."""

    makespan: float
    peak: int
    """Most activations of a microbatch in a stage that any rank holds."""


def settings() -> Iterator[OffloadSetting]:
    """Yield the default case of their example for 4, 8 and 16 ranks, then random settings, the same in every run."""
    for ranks in (4, 8, 16):
        yield OffloadSetting(
            ranks=ranks, chunks=3, microbatches=2 * ranks, forward=100, gradient=100, weight=100, offload_time=0.25,
            group_size=ranks, offload_chunks=1,
        )  # fmt: skip
    draw = random.Random(SEED)
    while True:
        ranks, chunks = draw.choice((4, 4, 6, 8)), draw.choice((2, 2, 3))
        yield OffloadSetting(
            ranks=ranks,
            chunks=chunks,
            microbatches=ranks * draw.choice((2, 2, 3)),
            forward=draw.randint(80, 120),
            gradient=draw.randint(80, 140),
            weight=draw.randint(60, 120),
            offload_time=draw.choice((0.1, 0.15, 0.2, 0.25, 0.3, 0.4)),
            group_size=draw.randint((ranks + 1) // 2, ranks),
            offload_chunks=draw.randint(1, chunks),
        )


def their_answers(checkout: Path) -> list[tuple[OffloadSetting, TheirAnswer]]:
    """Return the first settings, `RANDOM` of them random, for which the scheduler in a checkout has an answer."""
    load_peers(checkout)
    training = sys.modules["megatron.training"] = ModuleType("megatron.training")
    training.get_args = lambda: None  # type: ignore[attr-defined]
    found: list[tuple[OffloadSetting, TheirAnswer]] = []
    for setting in settings():
        answer = _their_answer(setting)
        if answer is not None:
            found.append((setting, answer))
        if len(found) == RANDOM + 3:
            return found
    raise AssertionError("settings have no end")


def _their_answer(setting: OffloadSetting) -> TheirAnswer | None:
    """Return what their scheduler makes of a setting; None where it refuses."""
    graph, orders, passes, offloading = (
        importlib.import_module(f"{_PACKAGE}.{name}")
        for name in ("graph", "group_interleaved_1f1b", "passes", "offloading")
    )
    config = graph.GraphConfig.basic_config(
        float(setting.forward), float(setting.gradient), float(setting.weight), setting.ranks, setting.microbatches,
        setting.chunks,
    )  # fmt: skip
    try:
        with redirect_stdout(StringIO()):  # they print as they go
            order = orders.create_schedule(
                config, True, "selective", None, None, setting.group_size, setting.offload_chunks
            )
            order = passes.add_time(config, passes.add_send_recv_peer_stage(config, order))
            order = offloading.add_offload(config, order, setting.offload_time)
    except (AssertionError, ValueError, IndexError):
        return None
    ends = [node.completion_time for own in order for node in own if node.type.is_computation()]
    return TheirAnswer(makespan=max(ends), peak=max(offloading.get_peak_memory(order)))


def write(answers: Sequence[tuple[OffloadSetting, TheirAnswer]]) -> None:
    """Keep answers beside this file."""
    rows: list[dict[str, Any]] = [asdict(setting) | asdict(answer) for setting, answer in answers]
    about = "answers of sail-sg/zero-bubble-pipeline-parallelism, made by python -m benchmarks offload --peer CHECKOUT"
    SOURCE.write_text(json.dumps({"source": about, "rows": rows}, indent=0) + "\n", encoding="utf-8")


def kept_answers() -> list[tuple[OffloadSetting, TheirAnswer]]:
    """Return the answers that are kept beside this file."""
    names = OffloadSetting.__dataclass_fields__
    rows = json.loads(SOURCE.read_text(encoding="utf-8"))["rows"]
    return [
        (
            OffloadSetting(**{name: row[name] for name in names}),
            TheirAnswer(makespan=row["makespan"], peak=row["peak"]),
        )
        for row in rows
    ]


def our_makespan(setting: OffloadSetting, *, copy: float, peak: int, seconds: float) -> float | None:
    """Return the shortest step that is found at that memory, in units of time; None without any.

    Tried are groups of all sizes with split backwards and with whole ones, and all that differs in when it fetches.
    """
    best: float | None = None
    for order in _orders(setting):
        for ahead, buffers in _FETCHES:
            network = _network(setting, copy=copy, ahead=ahead, buffers=buffers)
            request = Request(
                network=network,
                sizes=Sizes(num_ranks=setting.ranks, num_chunks=setting.chunks, num_microbatches=setting.microbatches),
                memory_limit_bytes=peak * _UNIT_BYTES,
                cell_rule=ANY_CONTENT,
                layers=((1,) * setting.ranks,) * setting.chunks,
            )
            race = Race(problem_of_order(request, order), RaceSettings(patience_s=0.1, advise=False))
            outcome = race.run(Clock(limit_s=seconds), cutoff_ns=None if best is None else round(best * _NS))
            found = outcome.makespan_ns
            if found is not None and (best is None or found / _NS < best):
                best = found / _NS
    return best


def _orders(setting: OffloadSetting) -> Iterator[Schedule]:
    sizes = Sizes(num_ranks=setting.ranks, num_chunks=setting.chunks, num_microbatches=setting.microbatches)
    for name in ("interleaved", "interleaved-less-memory"):
        for size in different_group_sizes(name, sizes):
            order = make_schedule(name, **asdict(sizes), group_size=size)
            yield _split(order)
            yield order


def _split(order: Schedule) -> Schedule:
    """Return an order whose backwards are input gradients with the weight gradient right behind."""
    halves = [[half for action in order.order(rank) for half in _halves(action)] for rank in range(order.num_ranks)]
    return Schedule.from_actions(
        name=f"{order.name}, split",
        num_stages=order.num_stages,
        num_microbatches=order.num_microbatches,
        stage_ranks=order.stage_ranks,
        orders=halves,
    )


def _halves(action: Action) -> tuple[Action, ...]:
    if action.op is not Op.B:
        return (action,)
    return replace(action, op=Op.I), replace(action, op=Op.W)


def _network(setting: OffloadSetting, *, copy: float, ahead: int, buffers: int | None) -> Network:
    """Return equal stages of a layer each, which hold an activation until the weight gradient, on the device or not."""
    backward_ns = (setting.gradient + setting.weight) * _NS
    layer = Layer(
        name="stage",
        forward_ns=setting.forward * _NS,
        parameter_bytes=0,
        modes={
            NONE: Mode(activation_bytes=_UNIT_BYTES, backward_ns=backward_ns),
            OFFLOAD: Mode(activation_bytes=0, offloaded_bytes=_UNIT_BYTES, backward_ns=backward_ns),
        },
        stated_weight_ns=setting.weight * _NS,
        stated_until_weight_bytes=_UNIT_BYTES,
    )
    rate = int(_UNIT_BYTES / (copy * _NS) * 10**9)
    return Network(
        name="equal stages",
        runs=(LayerRun(layer=layer, count=setting.ranks * setting.chunks),),
        host_link=HostLink(bytes_per_s=rate, one_engine=True, ahead=ahead, buffers=buffers),
    )


def report(answers: Sequence[tuple[OffloadSetting, TheirAnswer]], *, seconds: float) -> str:
    """Return a table of the settings with their step and ours, and how many of ours are equal or shorter."""
    rows = []
    shares: dict[float, list[float]] = {1.0: [], _SLOWER: []}
    for number, (setting, theirs) in enumerate(answers):
        shown = []
        for factor, found in shares.items():
            ours = our_makespan(setting, copy=factor * setting.copy, peak=theirs.peak, seconds=seconds)
            found.append(math.inf if ours is None else ours / theirs.makespan)
            shown.append("none" if ours is None else f"{ours:,.0f}")
        sizes = f"{setting.ranks} x {setting.chunks} x {setting.microbatches}"
        name = "default" if number < 3 else str(number - 2)
        rows.append([name, sizes, f"{setting.offload_time:.2f}", str(theirs.peak), f"{theirs.makespan:,.0f}", *shown])
    table = aligned(["setting", "sizes", "copy", "peak", "theirs", "ours", f"ours, {_SLOWER:.1f} copy"], rows)
    told = [
        f"copies {factor:.1f} of theirs: {sum(share <= 1 + 1e-9 for share in found)} of {len(found)} are equal or "
        f"shorter; on average {100 * (1 - sum(found) / len(found)):.1f} % shorter"
        for factor, found in shares.items()
    ]
    return "\n".join([table, *told])
