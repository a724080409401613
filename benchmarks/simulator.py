"""Simulator speed: actions per second, for repeated evaluation and end to end, and how the cost grows."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from benchmarks.table import aligned
from evenflow.schedule import NUM_OPS, Schedule, default_family, make_schedule
from evenflow.simulate import Graph, build_graph, compiled, run
from evenflow.simulate.kernels import longest_path

SIZES = ((16, 3, 16), (16, 4, 64), (64, 4, 512))
"""Sizes: ranks, chunks, microbatches."""
GROWTH_SIZES = tuple((16, 4, 2**power) for power in range(4, 13))
REPEATS = 7
SECONDS_A_REPEAT = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The speed at one size: medians of several repeats."""

    num_ranks: int
    num_chunks: int
    num_microbatches: int
    num_actions: int
    repeated_ns: float
    """Nanoseconds of one evaluation: the compiled longest path over a built graph, with new durations each time."""
    schedule_ns: float
    graph_ns: float
    timeline_ns: float
    """Nanoseconds from durations to the start and end of every action."""

    @property
    def end_to_end_ns(self) -> float:
        """Nanoseconds of schedule, graph and timeline together."""
        return self.schedule_ns + self.graph_ns + self.timeline_ns


@contextmanager
def always_compiled() -> Iterator[None]:
    """Compile small inputs too: the simulator runs them in plain Python, which is faster than importing a compiler."""
    threshold = compiled.COMPILE_FROM_ACTIONS
    compiled.COMPILE_FROM_ACTIONS = 0
    try:
        yield
    finally:
        compiled.COMPILE_FROM_ACTIONS = threshold


def measure(num_ranks: int, num_chunks: int, num_microbatches: int) -> Speed:
    """Measure the speed at one size, with stages of random durations."""

    def schedule_again() -> Schedule:
        return make_schedule(
            default_family(num_chunks=num_chunks),
            num_ranks=num_ranks,
            num_chunks=num_chunks,
            num_microbatches=num_microbatches,
        )

    schedule = schedule_again()
    graph = build_graph(schedule)
    durations = np.random.default_rng(1).integers(1_000_000, 9_000_000, size=NUM_OPS * schedule.num_stages)
    return Speed(
        num_ranks=num_ranks,
        num_chunks=num_chunks,
        num_microbatches=num_microbatches,
        num_actions=schedule.num_actions,
        repeated_ns=_repeated_ns(graph, durations),
        schedule_ns=_median_ns(schedule_again),
        graph_ns=_median_ns(lambda: build_graph(schedule)),
        timeline_ns=_median_ns(lambda: run(graph, durations)),
    )


def _median_ns(call: Callable[[], object]) -> float:
    """Return the nanoseconds of one call, the median of `REPEATS` rounds of equally many calls."""
    call()
    began = time.perf_counter()
    call()
    calls = max(1, round(SECONDS_A_REPEAT / (time.perf_counter() - began + 1e-9)))
    rounds = []
    for _ in range(REPEATS):
        began = time.perf_counter_ns()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter_ns() - began) / calls)
    return median(rounds)


def _repeated_ns(graph: Graph, durations: Any) -> float:
    """Measure one evaluation as the search makes it: from compiled code, with new durations before each."""
    import numba

    evaluate = compiled.compiled(longest_path)

    @numba.njit  # type: ignore[untyped-decorator]
    def evaluate_again(times: int, before: Any, needs: Any, classes: Any, table: Any, ends: Any) -> None:
        for index in range(times):
            table[index % len(table)] += 1
            evaluate(before, needs, classes, table, ends)

    count = len(graph.sequence)
    times = max(1, round(10_000_000 / count))
    arguments = (graph.rank_predecessors, graph.dependencies, graph.classes, durations.copy(), np.zeros(count + 1, int))
    return _median_ns(lambda: evaluate_again(times, *arguments)) / times


def speed_table(speeds: list[Speed]) -> str:
    """Return a row for each size: speeds in millions of actions per second, parts of the whole in ns per action."""
    header = ["ranks x chunks x mb", "actions", "repeated M/s", "end to end M/s", "schedule", "graph", "timeline ns"]
    rows = []
    for speed in speeds:
        count = speed.num_actions
        rows.append(
            [
                f"{speed.num_ranks} x {speed.num_chunks} x {speed.num_microbatches}",
                f"{count:,}",
                f"{1000 * count / speed.repeated_ns:,.0f}",
                f"{1000 * count / speed.end_to_end_ns:,.1f}",
                *(f"{part / count:.1f}" for part in (speed.schedule_ns, speed.graph_ns, speed.timeline_ns)),
            ]
        )
    return aligned(header, rows)


def growth_exponent(speeds: list[Speed], time_of: Callable[[Speed], float]) -> float:
    """Return the slope of log time over log actions, by least squares: 1 is linear."""
    actions = np.log([speed.num_actions for speed in speeds])
    times = np.log([time_of(speed) for speed in speeds])
    return float(np.polyfit(actions, times, 1)[0])


def measure_all() -> tuple[list[Speed], list[Speed]]:
    """Measure the speeds at `SIZES` and at `GROWTH_SIZES`."""
    with always_compiled():
        return [measure(*size) for size in SIZES], [measure(*size) for size in GROWTH_SIZES]


def report(speeds: list[Speed], growth: list[Speed]) -> str:
    """Return both tables, and the exponents of growth."""
    exponents = (
        f"cost grows with the actions to the power {growth_exponent(growth, lambda speed: speed.repeated_ns):.2f} "
        f"(repeated) and {growth_exponent(growth, lambda speed: speed.end_to_end_ns):.2f} (end to end)"
    )
    return "\n".join((speed_table(speeds), "", speed_table(growth), exponents))
