"""Where the time goes: bubbles by cause, by running the same order with one cause after the other switched on.

    balanced   every stage takes the average time        its idle time is fill and drain
    plain      stages as planned, without recompute      more: imbalance
    recompute  stages as planned                         more: recompute
    real       with messages between ranks               more: communication

Each line adds one cause, and what its run idles more than the one above is that cause's share.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evenflow.model import Communication
from evenflow.schedule.action import NUM_OPS, Op
from evenflow.simulate.costs import Integers, StageCosts
from evenflow.simulate.graph import Graph
from evenflow.simulate.timeline import Timeline, run


@dataclass(frozen=True, slots=True, kw_only=True)
class BubbleTable:
    """Lost time as fractions of the model's own time, the convention of document 001, step 5.

    ``real = ideal + imbalance + recompute + communication``. `recompute` is the extra work itself.
    """

    real: float
    ideal: float
    imbalance: float
    recompute: float
    communication: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleTime:
    """Idle time of one rank by cause, ns. The causes add up to `total_ns`; a cause can also save time (negative)."""

    total_ns: int
    fill_drain_ns: int
    imbalance_ns: int
    recompute_ns: int
    communication_ns: int


def bubble_table(
    graph: Graph,
    costs: StageCosts,
    timeline: Timeline,
    communication: Communication | None,
) -> BubbleTable:
    """Bubbles of the whole pipeline as fractions of model time."""
    schedule = graph.schedule
    num_units = schedule.num_units
    hardware_ns = int((costs.forward_ns + costs.backward_ns).sum()) * num_units
    model_ns = hardware_ns - int(costs.recompute_ns.sum()) * num_units
    without_messages = run(graph, costs.durations).makespan_ns if communication else timeline.makespan_ns
    real = schedule.num_ranks * timeline.makespan_ns / model_ns - 1
    ideal = (schedule.num_ranks - 1) / (schedule.num_chunks * num_units)
    recompute = hardware_ns / model_ns - 1
    waiting = schedule.num_ranks * (timeline.makespan_ns - without_messages) / model_ns
    return BubbleTable(
        real=real,
        ideal=ideal,
        recompute=recompute,
        communication=waiting,
        imbalance=real - ideal - recompute - waiting,
    )


def idle_times(graph: Graph, costs: StageCosts, timeline: Timeline) -> tuple[IdleTime, ...]:
    """Idle time by cause of every rank."""
    num_stages = len(costs.forward_ns)
    plain_backward = costs.backward_ns - costs.recompute_ns

    def idle(forward_ns: Integers, backward_ns: Integers) -> Integers:
        table = np.empty((num_stages, NUM_OPS), dtype=np.int64)
        table[:, Op.F], table[:, Op.B] = forward_ns, backward_ns
        result = run(graph, table.reshape(-1))
        return result.makespan_ns - result.busy_ns

    # Sums instead of averages keep the balanced run exact: it is num_stages times as long.
    everywhere = np.ones(num_stages, dtype=np.int64)
    balanced = idle(everywhere * costs.forward_ns.sum(), everywhere * plain_backward.sum()) // num_stages
    plain = idle(costs.forward_ns, plain_backward)
    recomputing = idle(costs.forward_ns, costs.backward_ns)
    real = timeline.makespan_ns - timeline.busy_ns
    return tuple(
        IdleTime(
            total_ns=int(real[rank]),
            fill_drain_ns=int(balanced[rank]),
            imbalance_ns=int(plain[rank] - balanced[rank]),
            recompute_ns=int(recomputing[rank] - plain[rank]),
            communication_ns=int(real[rank] - recomputing[rank]),
        )
        for rank in range(costs.num_ranks)
    )


def as_fractions(table: BubbleTable) -> Mapping[str, float]:
    """The table by the names used in result files."""
    return {
        "real": table.real,
        "ideal": table.ideal,
        "imbalance": table.imbalance,
        "recompute": table.recompute,
        "communication": table.communication,
    }
