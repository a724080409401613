"""The dynamic program over stages and submeshes, beside a straightforward compiled one with six nested loops."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.table import aligned
from evenflow.cluster.cluster import Cluster, Link, submeshes
from evenflow.simulate.compiled import compiled
from evenflow_torch.auto.stages.dynamic_program import CandidateCosts
from evenflow_torch.auto.stages.in_flight import in_flight_microbatches
from evenflow_torch.auto.stages.threshold_search import best_stages

SIZES = ((16, (1, 8), 64), (32, (2, 8), 64), (128, (32, 8), 1024))
"""Sizes: layers, mesh, microbatches."""
MOST_LAYERS_FOR_LOOPS = 32
REPEATS = 5
MEMORY_LIMIT_BYTES = 80 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class StagesSpeed:
    """One problem, solved by both programs."""

    name: str
    num_thresholds: int
    """Number of different costs of stages."""
    num_programs: int
    """Number of thresholds for which evenflow solved the dynamic program."""
    seconds: float
    loops_seconds: float | None
    """The step by six loops; None where they would take too long."""
    step_ns: int
    loops_step_ns: int | None


def six_loops(
    cost: Any,
    static: Any,
    activation: Any,
    in_flight: Any,
    sizes: Any,
    thresholds: Any,
    others: int,
    memory: int,
    table: Any,
) -> float:
    """The least step by equations 2 to 5, for thresholds from small to large until none can be better.

    Loops over threshold, stages, first layer, devices, submesh and end; `table` [stages + 1, L + 1, devices + 1] is
    scratch. Costs are [submesh, first, end].
    """
    best = np.inf
    num_layers, num_devices = table.shape[1] - 1, table.shape[2] - 1
    for threshold in thresholds:
        if threshold * (others + 1) >= best:
            break
        table[:] = np.inf
        table[0, num_layers, 0] = 0
        for position in range(1, table.shape[0]):
            for first in range(num_layers - 1, -1, -1):
                for devices in range(1, num_devices + 1):
                    for submesh in range(len(sizes)):
                        if sizes[submesh] <= devices:
                            for end in range(num_layers, first, -1):
                                own = cost[submesh, first, end]
                                total = own + table[position - 1, end, devices - sizes[submesh]]
                                needed = (
                                    static[submesh, first, end] + in_flight[position] * activation[submesh, first, end]
                                )
                                if own <= threshold and needed <= memory and total < table[position, first, devices]:
                                    table[position, first, devices] = total
        for position in range(1, table.shape[0]):
            best = min(best, table[position, 0, num_devices] + others * threshold)
    return best


def problem(num_layers: int, mesh: tuple[int, int], *, equal: bool) -> CandidateCosts:
    """Make layers of about 30 ms on one device that shard with some loss, of 3 GB and 1.5 GB per microbatch."""
    cluster = Cluster(
        num_nodes=mesh[0],
        devices_per_node=mesh[1],
        memory_bytes=MEMORY_LIMIT_BYTES,
        intra=Link(bytes_per_s=200 * 10**9),
        inter=Link(bytes_per_s=25 * 10**9),
    )
    shapes = submeshes(cluster)
    sizes = np.array([shape.num_devices for shape in shapes])
    pick = np.random.default_rng(1)
    work = np.full(num_layers, 30_000_000) if equal else pick.integers(25_000_000, 35_000_000, num_layers)
    sums = np.concatenate(([0], np.cumsum(work)))
    first, end = np.indices((num_layers + 1, num_layers + 1))
    runs = (first < end)[None]
    loss = 1 + 0.04 * np.log2(sizes)
    cost = np.where(runs, np.rint((sums[end] - sums[first]) * (loss / sizes)[:, None, None]).astype(np.int64), -1)
    layers = np.where(runs, end - first, 0)
    return CandidateCosts(
        submeshes=shapes,
        cost_ns=cost[None],
        static_bytes=(layers * (3 * 2**30 // sizes[:, None, None]))[None],
        activation_bytes=(layers * (3 * 2**29 // sizes[:, None, None]))[None],
        entry_ns=np.zeros((len(shapes), num_layers + 1), dtype=np.int64),
    )


def measure(num_layers: int, mesh: tuple[int, int], num_microbatches: int, *, equal: bool) -> StagesSpeed:
    """Run both programs on one problem, in this process."""
    costs = problem(num_layers, mesh, equal=equal)
    num_devices = mesh[0] * mesh[1]
    most = min(num_layers, num_devices)
    in_flight = in_flight_microbatches("1f1b", num_microbatches=num_microbatches, most_stages=most)
    thresholds = np.unique(costs.cost_ns[costs.cost_ns >= 0])

    def solve() -> Any:
        return best_stages(
            costs,
            num_devices=num_devices,
            num_microbatches=num_microbatches,
            in_flight=in_flight,
            memory_limit_bytes=MEMORY_LIMIT_BYTES,
        )

    def loops(tried: Any) -> float:
        return float(
            compiled(six_loops)(
                np.where(costs.cost_ns[0] >= 0, costs.cost_ns[0], np.inf),
                costs.static_bytes[0],
                costs.activation_bytes[0],
                np.array(in_flight),
                np.array([shape.num_devices for shape in costs.submeshes]),
                tried.astype(np.float64),
                num_microbatches - 1,
                MEMORY_LIMIT_BYTES,
                np.empty((most + 1, num_layers + 1, num_devices + 1)),
            )
        )

    loops_seconds = loops_step = None
    if num_layers <= MOST_LAYERS_FOR_LOOPS:
        loops_seconds, loops_step = _median(lambda: loops(thresholds))
        seconds, answer = _median(solve)
    else:
        seconds, answer = _timed(solve)
    return StagesSpeed(
        name=f"{num_layers} {'equal' if equal else 'different'} layers, {mesh[0]}x{mesh[1]}, {num_microbatches} mb",
        num_thresholds=len(thresholds),
        num_programs=answer.num_programs,
        seconds=seconds,
        loops_seconds=loops_seconds,
        step_ns=answer.best.step_ns,
        loops_step_ns=None if loops_step is None else int(loops_step),
    )


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor seconds of one call, whatever else runs there, and its result."""
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


def _median(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the median of `REPEATS` calls, after a first one that compiles."""
    call()
    return sorted((_timed(call) for _ in range(REPEATS)), key=lambda timed: timed[0])[REPEATS // 2]


def measure_all() -> list[StagesSpeed]:
    """Measure all sizes, with equal and with different layers."""
    return [measure(*size, equal=equal) for size in SIZES for equal in (True, False)]


def report(speeds: list[StagesSpeed]) -> str:
    """Return a row for each problem; the ratio compares the two times of this run."""
    header = ["problem", "thresholds", "programs", "evenflow s", "six loops s", "ratio", "step ms", "same"]
    rows = [
        [
            speed.name,
            f"{speed.num_thresholds:,}",
            f"{speed.num_programs}",
            f"{speed.seconds:.3f}",
            "-" if speed.loops_seconds is None else f"{speed.loops_seconds:.2f}",
            "-" if speed.loops_seconds is None else f"{speed.loops_seconds / speed.seconds:,.0f}",
            f"{speed.step_ns / 1e6:,.3f}",
            "-" if speed.loops_step_ns is None else ("yes" if speed.loops_step_ns == speed.step_ns else "WRONG"),
        ]
        for speed in speeds
    ]
    return aligned(header, rows)
