"""A plan run on paper: its timeline, memory and bubbles, from the one cost model."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from evenflow.model import Communication, Network, NetworkSource, Plan, as_network, check_step
from evenflow.notebook import InNotebook
from evenflow.schedule import Op, Schedule, check_complete, check_sizes_of, schedule_of
from evenflow.simulate.bubbles import (
    BubbleTable,
    FillDrain,
    IdleTime,
    RunsByCause,
    bubble_table,
    equal_makespan_ns,
    fill_drain,
    idle_times,
    runs_by_cause,
)
from evenflow.simulate.copies import with_copies
from evenflow.simulate.costs import Integers, StageCosts, stage_costs
from evenflow.simulate.encoders import EncodedStep, encoded_step
from evenflow.simulate.exchange_times import ExchangeTimes
from evenflow.simulate.graph import build_graph
from evenflow.simulate.idle_gaps import IdleGaps, idle_gaps
from evenflow.simulate.memory import peak_bytes
from evenflow.simulate.pairs import check_pairs, exchanged_ns
from evenflow.simulate.pools import pool_bytes
from evenflow.simulate.timeline import Timeline, run


@dataclass(frozen=True, kw_only=True)
class Simulation(InNotebook):
    """A plan with everything that follows from it."""

    network: Network
    plan: Plan
    communication: Communication | None
    costs: StageCosts
    timeline: Timeline

    @property
    def makespan_ns(self) -> int:
        """Time of one step."""
        return self.timeline.makespan_ns

    @cached_property
    def peak_memory_bytes(self) -> tuple[int, ...]:
        """Highest memory of every rank."""
        return tuple(int(peak) for peak in peak_bytes(self.timeline.schedule, self.costs))

    @cached_property
    def pool_bytes(self) -> tuple[int, ...]:
        """What every rank sets aside, at all times, for what others move to it."""
        return tuple(int(size) for size in pool_bytes(self.timeline.schedule, self.costs))

    @cached_property
    def fixed_bytes(self) -> tuple[int, ...]:
        """What every rank holds at all times: its static memory, and what it sets aside for others."""
        return tuple(int(size) for size in self.costs.static_bytes + np.array(self.pool_bytes, dtype=np.int64))

    @cached_property
    def recompute_ns(self) -> Integers:
        """Time of the recomputation at the beginning of every action, shape [num_actions]."""
        schedule = self.timeline.schedule
        recomputes = (schedule.ops == Op.B) | (schedule.ops == Op.I)
        return np.where(recomputes, self.costs.recompute_ns[schedule.stages], 0)

    @cached_property
    def hidden_ns(self) -> Integers | None:
        """What pairs save of the work of every rank, which runs beside other work, shape [num_ranks]; None without."""
        timeline = self.timeline
        if timeline.saved_ns is None:
            return None
        hidden = np.zeros(timeline.schedule.num_ranks, dtype=np.int64)
        np.add.at(hidden, timeline.schedule.ranks[timeline.schedule.paired], timeline.saved_ns)
        return hidden

    @cached_property
    def exposed_ns(self) -> Integers | None:
        """Time in which every rank exchanges tokens with nothing beside that, shape [num_ranks]; None where no layer is
        known to exchange any.
        """
        if not self.network.exchanges_tokens:
            return None
        exchanged = exchanged_ns(self.network, self.plan, self.timeline.schedule)
        return exchanged if self.hidden_ns is None else exchanged - self.hidden_ns

    @property
    def exchange_times(self) -> ExchangeTimes | None:
        """When ranks exchange tokens inside their actions; None where no layer is known to exchange any."""
        return ExchangeTimes.of(self.network, self.plan, self.timeline.schedule, self.costs)

    @cached_property
    def encoded(self) -> EncodedStep | None:
        """What encoders on all ranks add to the step, and who does what; None without any beside the pipeline."""
        return encoded_step(self.network, self.timeline)

    @cached_property
    def bubbles(self) -> BubbleTable:
        """Lost time of the whole pipeline by cause."""
        return bubble_table(self.timeline.graph, self.costs, self.timeline, self.communication)

    @property
    def fill_drain(self) -> FillDrain:
        """Idle time of equal stages under the same order, simulated and by formula, in the language spoken now."""
        return fill_drain(self._equal_makespan_ns, self.costs, self.plan, self.timeline.schedule)

    @cached_property
    def _equal_makespan_ns(self) -> int:
        return equal_makespan_ns(self.timeline.graph, self.costs)

    @cached_property
    def idle(self) -> tuple[IdleTime, ...]:
        """Idle time of every rank by cause."""
        return idle_times(self._runs_by_cause)

    @cached_property
    def idle_gaps(self) -> IdleGaps:
        """Every gap between the actions of a rank by cause."""
        return idle_gaps(self._runs_by_cause, self.idle)

    @cached_property
    def _runs_by_cause(self) -> RunsByCause:
        messages = self.costs.messages(self.communication)
        return runs_by_cause(self.timeline, self.costs.durations, self.costs.recompute_ns, messages)

    def fits(self, memory_limit_bytes: int | None) -> bool:
        """Return whether no rank ever holds more than the limit."""
        return memory_limit_bytes is None or max(self.peak_memory_bytes) <= memory_limit_bytes


def simulate(
    network: NetworkSource,
    plan: Plan,
    *,
    schedule: Schedule | None = None,
    communication: Communication | None = None,
) -> Simulation:
    """Simulate one step of `plan` for a network, which may be the path of its layer file.

    The order is the plan's own or that of its family unless `schedule` gives another, which must have the plan's sizes.
    Raises InputError when plan, network and schedule do not fit, ScheduleError when the order is incomplete or
    deadlocks.
    """
    network = as_network(network)
    check_step(network, plan.sizes, communication)
    if communication is None and network.longest_link_ns:
        communication = Communication()
    if plan.num_layers == network.num_layers:
        plan = replace(
            plan,
            mtp_layers=network.mtp_layers,
            encoder_layers=network.encoder_layers,
            encodes_apart=network.encodes_apart,
            continuing_layers=network.continuing_layers,
        )
    if schedule is None:
        schedule = schedule_of(plan)
    else:
        check_sizes_of(plan, schedule)
        check_complete(schedule)
    if plan.delays_weights is None and network.delays_weights and not plan.releases_attention:
        plan = replace(plan, delays_weights=True)
    plan = plan if schedule.has_pairs else replace(plan, delays_weights=None, releases_attention=False)
    check_pairs(schedule, network, communication)
    costs = stage_costs(network, plan, schedule)
    graph = build_graph(schedule)
    if costs.host_link is not None:
        graph = with_copies(graph, costs.host_link, first_moved=costs.first_moved)
    timeline = run(graph, costs.durations, costs.messages(communication))
    return Simulation(network=network, plan=plan, communication=communication, costs=costs, timeline=timeline)
