"""Bubbles by cause, measured by running the same order with one cause after the other switched on.

    balanced   every stage takes the average time        its idle time is fill and drain
    plain      stages as planned, without recompute      more: imbalance
    recompute  stages as planned                         more: recompute
    messages   with messages between ranks               more: communication
    real       with copies to the host and back          more: host copies

Each line adds one cause; the idle time that its run has beyond the run above is that cause's share.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evenflow.language import _
from evenflow.model import Communication, Plan
from evenflow.schedule import NUM_OPS, IdleFormula, Op, Schedule, idle_by_formula
from evenflow.simulate.costs import Integers, StageCosts
from evenflow.simulate.graph import Graph, no_time_class
from evenflow.simulate.timeline import Messages, Timeline, run


@dataclass(frozen=True, slots=True, kw_only=True)
class BubbleTable:
    """Lost time as fractions of the model's own time, the convention of the [SAPP guide, Step 5].

    The parts add up: ``real = ideal + imbalance + recompute + communication + host_copies``. `recompute` is the extra
    work itself.
    """

    real: float
    """All lost time."""
    ideal: float
    """Fill and drain of stages that take equal times."""
    imbalance: float
    """Waiting because stages take unequal times."""
    recompute: float
    """Recomputation of activations."""
    communication: float
    """Waiting for messages between ranks."""
    host_copies: float | None = None
    """Waiting for copies to the host and back; None where no copy takes time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleTime:
    """Idle time of one rank by cause, ns. The causes add up to `total_ns`; a cause can also save time (negative)."""

    total_ns: int
    """Idle time of the rank in one step."""
    fill_drain_ns: int
    """Idle time where every stage takes the average time."""
    imbalance_ns: int
    """More idle time because stages take unequal times."""
    recompute_ns: int
    """More idle time because layers recompute."""
    communication_ns: int
    """More idle time because messages take time."""
    host_copies_ns: int = 0
    """More idle time because copies to the host and back take time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillDrain:
    """Idle time of equal stages under a plan's order with free messages, as a fraction of the model's own time."""

    simulated: float
    by_formula: float | None
    """The same in closed form; None where there is no formula."""
    words: str
    """The formula in the symbols of ``evenflow schedules``; without one, the reason."""


def equal_makespan_ns(graph: Graph, costs: StageCosts) -> int:
    """Return the makespan of equal stages without recomputation and messages, times num_stages to stay an integer."""
    return _balanced(graph, costs.durations, costs.recompute_ns).makespan_ns


def fill_drain(makespan_ns: int, costs: StageCosts, plan: Plan, schedule: Schedule) -> FillDrain:
    """Return the idle time of equal stages, simulated (`makespan_ns` is that of `equal_makespan_ns`) and by formula."""
    forward_ns, weight_ns = int(costs.forward_ns.sum()), int(costs.weight_ns.sum())
    backward_ns = int((costs.backward_ns - costs.recompute_ns).sum())
    busy_ns = plan.num_chunks * plan.num_microbatches * plan.sequence_splits * (forward_ns + backward_ns)
    busy_ns -= plan.num_chunks * _equally_saved_ns(schedule, costs)
    if plan.order:
        formula = IdleFormula(idle_ns=None, words=_("the order is the plan's own"))
    else:
        formula = idle_by_formula(
            plan.schedule,
            plan.sizes,
            forward_ns=forward_ns,
            backward_ns=backward_ns,
            weight_ns=weight_ns,
            group_size=plan.group_size,
        )
    return FillDrain(
        simulated=makespan_ns / busy_ns - 1,
        by_formula=None if formula.idle_ns is None else formula.idle_ns / busy_ns,
        words=formula.words,
    )


def bubble_table(
    graph: Graph,
    costs: StageCosts,
    timeline: Timeline,
    communication: Communication | None,
) -> BubbleTable:
    """Return the bubbles of the whole pipeline as fractions of the model's own time."""
    schedule = graph.schedule
    num_units = schedule.num_units
    durations = costs.durations
    without_copies = _without_copies(timeline, durations, costs.messages(communication))
    hardware_ns = int((costs.forward_ns + costs.backward_ns).sum()) * num_units - _saved_ns(schedule, costs)
    model_ns = hardware_ns - int(costs.recompute_ns.sum()) * num_units
    silent = without_copies if communication is None else run(graph.of_actions, durations)
    real = schedule.num_ranks * timeline.makespan_ns / model_ns - 1
    if schedule.splits_backward or schedule.has_pairs:  # the formula is that of whole backwards, one after the other
        balanced_ns = equal_makespan_ns(graph, costs) / schedule.num_stages
        ideal = schedule.num_ranks * balanced_ns / model_ns - 1
    else:
        ideal = (schedule.num_ranks - 1) / (schedule.num_chunks * num_units)
    recompute = hardware_ns / model_ns - 1
    waiting = schedule.num_ranks * (without_copies.makespan_ns - silent.makespan_ns) / model_ns
    copying = schedule.num_ranks * (timeline.makespan_ns - without_copies.makespan_ns) / model_ns
    return BubbleTable(
        real=real,
        ideal=ideal,
        recompute=recompute,
        communication=waiting,
        host_copies=copying if timeline.has_copies else None,
        imbalance=real - ideal - recompute - waiting - copying,
    )


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class RunsByCause:
    """Simulations of one order, with one cause of idle time after another switched on."""

    balanced: Timeline
    """All times are `num_stages` times as long: sums, unlike averages, are exact."""
    plain: Timeline
    recomputing: Timeline
    communicating: Timeline
    real: Timeline


def runs_by_cause(
    timeline: Timeline, durations: Integers, recompute_ns: Integers, messages: Messages = None
) -> RunsByCause:
    """Simulate the order of `timeline` with one cause of idle time after another switched on.

    `durations` are by class of the graph, `recompute_ns` [num_stages] is the part of backwards that recomputes, and
    `messages` is what `timeline` was run with.
    """
    graph = timeline.graph.of_actions
    return RunsByCause(
        balanced=_balanced(graph, durations, recompute_ns),
        plain=run(graph, _without_recompute(graph, durations, recompute_ns)),
        recomputing=run(graph, durations),
        communicating=_without_copies(timeline, durations, messages),
        real=timeline,
    )


def idle_times(runs: RunsByCause) -> tuple[IdleTime, ...]:
    """Return the idle time of every rank by cause."""

    def idle(result: Timeline) -> Integers:
        return result.makespan_ns - result.busy_ns

    schedule = runs.real.schedule
    balanced = idle(runs.balanced) // schedule.num_stages
    plain, recomputing = idle(runs.plain), idle(runs.recomputing)
    communicating, real = idle(runs.communicating), idle(runs.real)
    return tuple(
        IdleTime(
            total_ns=int(real[rank]),
            fill_drain_ns=int(balanced[rank]),
            imbalance_ns=int(plain[rank] - balanced[rank]),
            recompute_ns=int(recomputing[rank] - plain[rank]),
            communication_ns=int(communicating[rank] - recomputing[rank]),
            host_copies_ns=int(real[rank] - communicating[rank]),
        )
        for rank in range(schedule.num_ranks)
    )


def _without_copies(timeline: Timeline, durations: Integers, messages: Messages) -> Timeline:
    """Return `timeline` as it would be if nothing moved to the host."""
    return timeline if timeline.graph.copied is None else run(timeline.graph.of_actions, durations, messages)


def _balanced(graph: Graph, durations: Integers, recompute_ns: Integers) -> Timeline:
    """Return the timeline of equal stages without recomputation, times num_stages to stay in integers.

    Each stage takes the sum of all stages: sums, unlike averages, are exact.
    """
    graph = graph.of_actions
    durations = _without_recompute(graph, durations, recompute_ns)
    num_stages = len(recompute_ns)
    actions, others = durations[: NUM_OPS * num_stages].reshape(-1, NUM_OPS), durations[NUM_OPS * num_stages :]
    others = np.zeros_like(others)
    if graph.schedule.has_pairs:
        first = no_time_class(num_stages) + 1 - NUM_OPS * num_stages
        others[first:] = num_stages * int(durations[no_time_class(num_stages) + 1 :].sum()) // len(others[first:])
    return run(graph, np.concatenate((np.tile(actions.sum(axis=0), num_stages), others)))


def _without_recompute(graph: Graph, durations: Integers, recompute_ns: Integers) -> Integers:
    """Return the durations by class where nothing is computed again."""
    num_stages = len(recompute_ns)
    plain = durations.copy()
    actions = plain[: NUM_OPS * num_stages].reshape(-1, NUM_OPS)
    actions[:, Op.B] -= recompute_ns
    actions[:, Op.I] -= recompute_ns
    if graph.schedule.has_pairs:
        pairs = plain[no_time_class(num_stages) + 1 :].reshape(num_stages, -1)
        pairs -= recompute_ns[graph.schedule.stage_table[:, list(graph.schedule.stage_ranks)]].T
    return plain


def _equally_saved_ns(schedule: Schedule, costs: StageCosts) -> int:
    """Return what equal stages save in a step since forwards run beside backwards: in every pair the average."""
    if costs.saved_ns is None:
        return 0
    return len(schedule.paired) * int(costs.saved_ns.sum()) // costs.saved_ns.size


def _saved_ns(schedule: Schedule, costs: StageCosts) -> int:
    """Return how much less time all ranks work in a step since forwards run beside backwards."""
    if costs.saved_ns is None:
        return 0
    forwards = schedule.paired
    return int(costs.saved_ns[schedule.stages[forwards], schedule.stage_chunks[schedule.stages[forwards + 1]]].sum())


def as_fractions(table: BubbleTable) -> Mapping[str, float]:
    """Return the fractions of `table` by the names used in result files."""
    copies = {} if table.host_copies is None else {"host_copies": table.host_copies}
    return {
        "real": table.real,
        "ideal": table.ideal,
        "imbalance": table.imbalance,
        "recompute": table.recompute,
        "communication": table.communication,
        **copies,
    }
