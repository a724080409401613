"""The simulator alone against a published timeline: measured durations in, the step and the memory out.

What a rank does between two actions is in none of their durations. So each step is simulated twice: from the durations
as they are, and with the shortest pause of its ranks behind every action.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from benchmarks.published.scores import Error
from benchmarks.published.timeline_file import PublishedTimeline, RankStep
from benchmarks.table import aligned
from evenflow.schedule import Op
from evenflow.simulate.graph import Graph, build_graph
from evenflow.simulate.kernels import longest_path
from evenflow.simulate.memory import live_vectors

Durations = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepErrors:
    """The step of rank 0, in ns: from its own durations and from medians over all steps, without and with pauses."""

    own: Error
    own_with_pauses: Error
    medians: Error
    medians_with_pauses: Error


def step_errors(timeline: PublishedTimeline) -> dict[int, StepErrors]:
    """Return how far the simulated span of rank 0 is from the measured one, by step."""
    graph = build_graph(timeline.schedule)
    typical = median_durations(timeline)
    usual_pause = round(median(_pause(ranks) for ranks in timeline.steps.values()))
    found = {}
    for number, ranks in timeline.steps.items():
        own = np.concatenate([np.array(rank.durations_ns, dtype=np.int64) for rank in ranks])
        given = ((own, 0), (own, _pause(ranks)), (typical, 0), (typical, usual_pause))
        spans = [simulated_span_ns(graph, durations, pause_ns=pause) for durations, pause in given]
        errors = [Error(id=f"step {number}", predicted=span, measured=ranks[0].span_ns) for span in spans]
        found[number] = StepErrors(
            own=errors[0], own_with_pauses=errors[1], medians=errors[2], medians_with_pauses=errors[3]
        )
    return found


def _pause(ranks: Sequence[RankStep]) -> int:
    """Return what an action costs its rank besides its duration: the median of the ranks' shortest pauses."""
    return round(median(rank.pause_ns for rank in ranks))


def median_durations(timeline: PublishedTimeline) -> Durations:
    """Return the median over all steps by rank, chunk and kind, for every action of the schedule."""
    schedule = timeline.schedule
    every = np.stack([np.concatenate([rank.durations_ns for rank in ranks]) for ranks in timeline.steps.values()])
    classes = 2 * schedule.stages + (schedule.ops == Op.B)
    typical = np.empty(schedule.num_actions, dtype=np.int64)
    for each in np.unique(classes):
        typical[classes == each] = round(float(np.median(every[:, classes == each])))
    return typical


def simulated_span_ns(graph: Graph, durations_ns: Durations, *, pause_ns: int = 0) -> int:
    """Return the time until rank 0 is done, for durations [num_actions] of every single action.

    A rank rests for `pause_ns` behind each of its actions; the last pause is no part of the span.
    """
    ends = np.zeros(len(durations_ns) + 1, dtype=np.int64)
    longest_path(graph.rank_predecessors, graph.dependencies, graph.sequence, durations_ns + pause_ns, ends)
    return int(ends[graph.rank_lasts[0]]) - pause_ns


def memory_errors(timeline: PublishedTimeline) -> dict[str, list[Error]]:
    """Return errors of each rank's peak in GB, each from a line through the peaks of all other ranks.

    "live": a constant and a part for each microbatch that is live at the peak. "live and ends": also a part that the
    first and the last rank have besides, for embedding and logits. A line that the other ranks do not determine is left
    out.
    """
    schedule = timeline.schedule
    ranks = range(schedule.num_ranks)
    peaks = np.array([max(step[rank].memory_gb for step in timeline.steps.values()) for rank in ranks])
    live = [int(live_vectors(schedule, rank).sum(axis=1).max()) for rank in ranks]
    is_end = [rank in (0, schedule.num_ranks - 1) for rank in ranks]
    tables = {
        "live": np.array([[1, count] for count in live], dtype=float),
        "live and ends": np.array([[1, count, end] for count, end in zip(live, is_end, strict=True)], dtype=float),
    }
    return {name: errors for name, table in tables.items() if (errors := _each_left_out(table, peaks))}


def _each_left_out(table: NDArray[np.float64], peaks: NDArray[np.float64]) -> list[Error]:
    """Return the error of every row from a fit to the others; nothing where one fit is not determined."""
    found = []
    for rank in range(len(peaks)):
        others = np.arange(len(peaks)) != rank
        if np.linalg.matrix_rank(table[others]) < table.shape[1]:
            return []
        line = np.linalg.lstsq(table[others], peaks[others], rcond=None)[0]
        found.append(Error(id=f"rank {rank}", predicted=float(table[rank] @ line), measured=float(peaks[rank])))
    return found


def step_table(errors: Mapping[int, StepErrors]) -> str:
    """Return the measured span and the errors in % of every step."""
    header = ["step", "measured ms", "own durations %", "with pauses %", "medians %", "with pauses %"]
    rows = []
    for number, each in errors.items():
        shown = [each.own, each.own_with_pauses, each.medians, each.medians_with_pauses]
        rows.append([str(number), f"{each.own.measured / 1e6:,.1f}", *(f"{100 * e.relative:+.2f}" for e in shown)])
    return aligned(header, rows)


def memory_table(errors: Mapping[str, Sequence[Error]]) -> str:
    """Return the peak of every rank and the errors in % of its prediction from the other ranks."""
    first = next(iter(errors.values()), [])
    header = ["peak memory", "measured GB", *(f"{name} %" for name in errors)]
    rows = [
        [each.id, f"{each.measured:.1f}", *(f"{100 * of[index].relative:+.2f}" for of in errors.values())]
        for index, each in enumerate(first)
    ]
    return aligned(header, rows)
