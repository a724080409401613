"""Plans that move activations to the host beside those of PipeOffload's authors' own scheduler, at the same memory.

Their files run as they are, from a checkout that the caller has; nothing of theirs is part of evenflow. Their
answers are kept in peer_offload.json, so that the comparison runs without them. Their order is interleaved 1F1B in
groups whose backwards are split, on stages that all take the same time: their example's first and last hold the
embedding and the output in the place of layers, of which their scheduler takes the median.

Ours are plans of ``--schedule search --split-backward``. There every device has a link of its own, over which a copy
takes as long as theirs does while the neighbour copies in the opposite direction. The same plans are then run over
their link, which two neighbours use in turn (see `benchmarks.pair_link`). [PipeOffload, arXiv:2503.01328]
"""

import importlib
import json
import math
import multiprocessing
import random
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from functools import partial
from io import StringIO
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.pair_link import pair_makespan_ns
from benchmarks.peer_schedulers import load_peers
from benchmarks.table import aligned
from evenflow.model import ANY_CONTENT, NONE, OFFLOAD, HostLink, Layer, LayerRun, Mode, Network, Request, Sizes
from evenflow.solve.clock import reproducible
from evenflow.solve.order.alternate import solve_any_order

SOURCE = Path(__file__).with_name("peer_offload.json")
SEED = 20250301
RANDOM = 100
_PACKAGE = "megatron.core.pipeline_parallel.zerobubble.scheduler"
_UNIT_BYTES = 10**6
"""Activation of one microbatch in one stage."""
_NS = 1000
"""Nanoseconds of a unit of time."""
_DEFAULT_COPIES = {"A100": 0.746, "H100": 1.0657}
"""What their example takes for the time of a copy, as a share of all work of a microbatch in a stage, by accelerator.

10 / 3 (6 h + s) x rate / bandwidth / 2 for h = 4,096 and s = 8,192, with 220 TFLOP/s and 15 GB/s, or 440 and 21.
"""
_FETCHES = ((2, 3), (4, 5), (3, 4), (6, 8))
"""Times of a copy for which something may come back ahead of its backward, and leave behind its forward."""
_LARGE_FETCHES = ((3.5, 4.5), (3.5, 4), (1.5, 3))
"""The same as actions for every rank."""
_SMALL_FETCHES = ((2, 2), (2, 1))
"""The same as actions, with any number of buffers; otherwise there are as many as there is room for."""
_DEFAULT_RANKS = (4, 8, 16)
_ALWAYS = 2
"""Links that are tried in any case; further ones where a plan is longer than theirs."""


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
    for offload_time, ranks in product(_DEFAULT_COPIES.values(), _DEFAULT_RANKS):
        yield OffloadSetting(
            ranks=ranks, chunks=3, microbatches=2 * ranks, forward=100, gradient=100, weight=100,
            offload_time=offload_time, group_size=ranks, offload_chunks=1,
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
        if len(found) == RANDOM + len(_names(0)):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OurAnswer:
    """The shortest steps at the memory of their answer, in units of time; infinite without any."""

    own_link: float
    """Where every device has a link of its own."""
    shared_link: float
    """Where two neighbours take turns on theirs."""


def our_answer(setting: OffloadSetting, *, theirs: TheirAnswer, seconds: float) -> OurAnswer:
    """Return the shortest steps that a search of so many seconds of work finds for each way to fetch."""
    own_link = shared_link = math.inf
    copy_ns = setting.copy * _NS
    for number, link in enumerate(_links(setting, theirs.peak)):
        if number >= _ALWAYS and max(own_link, shared_link) <= theirs.makespan:
            break
        request = Request(
            network=_network(setting, link),
            sizes=Sizes(num_ranks=setting.ranks, num_chunks=setting.chunks, num_microbatches=setting.microbatches),
            memory_limit_bytes=theirs.peak * _UNIT_BYTES,
            cell_rule=ANY_CONTENT,
            layers=((1,) * setting.ranks,) * setting.chunks,
        )
        with reproducible():
            outcome = solve_any_order(request, split_backward=True, time_limit_s=seconds)
        if outcome.simulation is not None:
            own_link = min(own_link, outcome.simulation.makespan_ns / _NS)
            shared_link = min(shared_link, pair_makespan_ns(outcome.simulation, copy_ns) / _NS)
    return OurAnswer(own_link=own_link, shared_link=shared_link)


def _links(setting: OffloadSetting, peak: int) -> Iterator[HostLink]:
    """Yield links that differ in when activations leave and come back."""
    rate = int(_UNIT_BYTES / (setting.copy * _NS) * 10**9)
    actions = 3 * setting.offload_time
    by_copy = [(ahead * actions, behind * actions, peak) for ahead, behind in _FETCHES]
    large = [(ahead * setting.ranks, behind * setting.ranks, peak) for ahead, behind in _LARGE_FETCHES]
    small = [(ahead, behind, None) for ahead, behind in _SMALL_FETCHES]
    for ahead, behind, buffers in (*by_copy, *small, *large):
        yield HostLink(
            bytes_per_s=rate, one_engine=True, ahead=math.ceil(ahead), behind=math.ceil(behind), buffers=buffers
        )


def _network(setting: OffloadSetting, link: HostLink) -> Network:
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
    return Network(
        name="equal stages",
        runs=(LayerRun(layer=layer, count=setting.ranks * setting.chunks),),
        host_link=link,
    )


def report(answers: Sequence[tuple[OffloadSetting, TheirAnswer]], *, seconds: float, processes: int = 1) -> str:
    """Return a table of the settings with their step and ours, and how many of ours are equal or shorter."""
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        ours = list(pool.map(partial(_compared, seconds=seconds), answers))
    return table(answers, ours)


def table(answers: Sequence[tuple[OffloadSetting, TheirAnswer]], ours: Sequence[OurAnswer]) -> str:
    """Return the table of settings with their answers and ours, and what it says in all."""
    rows = []
    names = _names(len(answers))
    for name, (setting, theirs), own in zip(names, answers, ours, strict=True):
        sizes = f"{setting.ranks} x {setting.chunks} x {setting.microbatches}"
        steps = [f"{step:,.0f}" for step in (theirs.makespan, own.own_link, own.shared_link)]
        rows.append([name, sizes, f"{setting.offload_time:.2f}", str(theirs.peak), *steps])
    lines = aligned(["setting", "sizes", "copy", "peak", "theirs", "ours, own link", "ours, their link"], rows)
    told = []
    for title, steps_of in (("links of their own", "own_link"), ("their links", "shared_link")):
        shares = [
            getattr(own, steps_of) / theirs.makespan for (_setting, theirs), own in zip(answers, ours, strict=True)
        ]
        told.append(
            f"{title}: {sum(share <= 1 + 1e-9 for share in shares)} of {len(shares)} are equal or shorter, "
            f"{sum(share < 1 - 1e-9 for share in shares)} shorter; on average "
            f"{100 * (1 - sum(shares) / len(shares)):.1f} % shorter, at most {100 * (1 - min(shares)):.1f} %"
        )
    return "\n".join([lines, *told])


def _compared(answer: tuple[OffloadSetting, TheirAnswer], *, seconds: float) -> OurAnswer:
    setting, theirs = answer
    return our_answer(setting, theirs=theirs, seconds=seconds)


def _names(count: int) -> list[str]:
    """Return the names of so many settings, at least those of the default case."""
    defaults = [f"default, {name}" for name in _DEFAULT_COPIES for _ranks in _DEFAULT_RANKS]
    return defaults + [str(number + 1) for number in range(count - len(defaults))]
