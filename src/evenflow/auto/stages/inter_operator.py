"""The inter-operator pass: stages, submeshes and devices for a whole network, or what would be needed for that."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from evenflow.auto.stages.candidates import Asker, Candidates, StageCost, StageProvider, asking, evaluate
from evenflow.auto.stages.dynamic_program import (
    NEAR_PERCENT,
    StagePlan,
    StagesAnswer,
    best_stages,
    has_plan,
    least_memory_bytes,
)
from evenflow.auto.stages.in_flight import in_flight_microbatches
from evenflow.cluster.cluster import Cluster, Submesh, assign, submeshes
from evenflow.cluster.layout import Layout
from evenflow.cluster.resharding import ReshardingPlan, plan_resharding
from evenflow.errors import InputError
from evenflow.model import Communication
from evenflow.schedule import NUM_OPS, Op, family_name, make_schedule
from evenflow.simulate import Timeline, build_graph, run
from evenflow.simulate.costs import duration_table
from evenflow.units import MEGABYTE, megabytes

_MOST_DEVICES = 4096
"""Beyond this many, more devices are not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Layers [first, end) on devices of the cluster."""

    first: int
    end: int
    submesh: Submesh
    devices: range
    cost: StageCost


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Why there is no plan, and what would do."""

    memory_bytes: int
    """The smallest memory of a device with which this cluster has a plan."""
    num_nodes: int | None
    """The first number of nodes, doubled and then halved back, with which these devices have one, if any was found."""

    def message(self, cluster: Cluster) -> str:
        """One sentence."""
        least_mb = -(-self.memory_bytes // MEGABYTE)  # rounded up, so that it does
        needed = f"{least_mb:,} MB a device instead of {megabytes(cluster.memory_bytes):,.0f} MB"
        words = f"the model does not fit on {cluster.name}, however it is cut and sharded; it would with {needed}"
        if self.num_nodes is not None:
            devices = self.num_nodes * cluster.devices_per_node
            words += f", or with {devices} devices ({self.num_nodes} x {cluster.devices_per_node})"
        return words


@dataclass(frozen=True, kw_only=True)
class TwoLevelPlan:
    """Stages on submeshes, each with one of its provider's shardings."""

    cluster: Cluster
    schedule: str
    num_microbatches: int
    stages: tuple[Stage, ...]
    boundaries: tuple[tuple[Layout, Layout], ...]
    """Between every two stages, how what passes lies on the devices of the one and of the other."""
    step_ns: int
    """By equation 2, for which the stages were chosen."""
    lower_bound_ns: int
    """No stages on submeshes take less by equation 2."""

    @cached_property
    def activations(self) -> tuple[ReshardingPlan, ...]:
        """From every stage but the last to the next."""
        return tuple(plan_resharding(before, after, self.cluster) for before, after in self.boundaries)

    @cached_property
    def gradients(self) -> tuple[ReshardingPlan, ...]:
        """Back from there, with the layouts exchanged."""
        return tuple(plan_resharding(after, before, self.cluster) for before, after in self.boundaries)

    @property
    def communication(self) -> Communication:
        """The slowest message between stages, where one number has to stand for all."""
        return Communication(
            transfer_ns=max((plan.cost_ns for plan in (*self.activations, *self.gradients)), default=0)
        )

    @cached_property
    def timeline(self) -> Timeline:
        """The schedule simulated exactly, each message with its own time."""
        num_stages = len(self.stages)
        order = make_schedule(self.schedule, num_ranks=num_stages, num_chunks=1, num_microbatches=self.num_microbatches)
        forward = np.array([stage.cost.forward_ns for stage in self.stages], dtype=np.int64)
        backward = np.array([stage.cost.backward_ns for stage in self.stages], dtype=np.int64)
        messages = np.zeros((num_stages, NUM_OPS), dtype=np.int64)
        messages[1:, Op.F] = [plan.cost_ns for plan in self.activations]
        messages[:-1, Op.B] = [plan.cost_ns for plan in self.gradients]
        durations = duration_table(forward, backward, np.zeros_like(backward))
        return run(build_graph(order), durations, messages.reshape(-1))


@dataclass(frozen=True, kw_only=True)
class InterAnswer:
    """The plan with what else was considered, or why there is none."""

    plan: TwoLevelPlan | None
    alternatives: tuple[TwoLevelPlan, ...]
    """The best that was met for every number of stages, the plan itself included."""
    shortage: Shortage | None
    num_evaluated: int
    """Stages whose cost was asked for, of `num_possible` runs of layers on submeshes."""
    num_possible: int

    @property
    def shortest(self) -> TwoLevelPlan | None:
        """Of the alternatives within `NEAR_PERCENT` of the plan the one with the shortest simulated step, messages
        included.
        """
        if self.plan is None:
            return None
        near_ns = self.plan.step_ns * NEAR_PERCENT // 100
        near = [plan for plan in self.alternatives if plan.step_ns <= near_ns]
        return min(near, key=lambda plan: plan.timeline.makespan_ns)


def plan_stages(
    provider_for: Callable[[Cluster], StageProvider],
    cluster: Cluster,
    *,
    num_microbatches: int,
    schedule: str = "1f1b",
    processes: int = 1,
) -> InterAnswer:
    """Stages and submeshes that minimise the step by equation 2, within the memory of the devices.

    `provider_for` gives the costs on a cluster; it is called for others than `cluster` only to say how many devices
    would do. Raises InputError for sizes that make no sense.
    """
    if num_microbatches < 1:
        raise InputError(value=num_microbatches, rule="the number of microbatches is at least 1", place="microbatches")
    with asking(provider_for(cluster), processes=processes) as asker:
        search = _Search(
            cluster=cluster, asker=asker, num_microbatches=num_microbatches, schedule=family_name(schedule)
        )
        candidates = search.candidates()
        answer = search.best(candidates)
        shortage = None
        if answer.best is None:
            shortage = Shortage(memory_bytes=search.least_memory(), num_nodes=_enough_nodes(provider_for, search))
    plans = {plan: search.laid_out(plan, candidates) for plan in answer.alternatives}
    return InterAnswer(
        plan=plans[answer.best] if answer.best else None,
        alternatives=tuple(plans.values()),
        shortage=shortage,
        num_evaluated=candidates.num_evaluated,
        num_possible=candidates.num_possible,
    )


@dataclass(frozen=True, kw_only=True)
class _Search:
    """One cluster with its costs."""

    cluster: Cluster
    asker: Asker
    num_microbatches: int
    schedule: str

    @property
    def provider(self) -> StageProvider:
        return self.asker.provider

    @property
    def num_layers(self) -> int:
        return len(self.provider.kinds)

    @cached_property
    def in_flight(self) -> tuple[int, ...]:
        most = min(self.num_layers, self.cluster.num_devices)
        return in_flight_microbatches(self.schedule, num_microbatches=self.num_microbatches, most_stages=most)

    def candidates(self) -> Candidates:
        """The stages that can be part of a plan about as good as the even ones."""
        even_ns = min(self._even_steps(), default=None)
        near_ns = None if even_ns is None else even_ns * NEAR_PERCENT // 100
        return self.candidates_within(self.cluster.memory_bytes, near_ns)

    def candidates_within(self, memory_limit_bytes: int | None, incumbent_ns: int | None) -> Candidates:
        """The stages that fit and are not too slow."""
        return evaluate(
            self.asker,
            submeshes(self.cluster),
            num_microbatches=self.num_microbatches,
            first_in_flight=self.in_flight[1],
            memory_limit_bytes=memory_limit_bytes,
            incumbent_ns=incumbent_ns,
        )

    def _even_steps(self) -> Iterator[int]:
        """The steps of plans with equal submeshes and evenly many layers, where they fit: a first incumbent."""
        cuts = {}
        for shape in submeshes(self.cluster):
            count, rest = divmod(self.cluster.num_devices, shape.num_devices)
            if not rest and count <= self.num_layers:
                cuts[shape] = [self.num_layers * stage // count for stage in range(count + 1)]
        runs = [(first, end, shape) for shape, bounds in cuts.items() for first, end in pairwise(bounds)]
        options = dict(zip(runs, self.asker.ask(runs), strict=True))
        for shape, bounds in cuts.items():
            times = []
            for live, layers in zip(self.in_flight[len(bounds) - 1 : 0 : -1], pairwise(bounds), strict=True):
                room = self.cluster.memory_bytes
                fitting = (
                    cost.cost_ns
                    for cost in options[*layers, shape]
                    if cost.static_bytes + live * cost.activation_bytes <= room
                )
                times.append(min(fitting, default=None))
            fast = [cost_ns for cost_ns in times if cost_ns is not None]
            if len(fast) == len(times):
                entries = sum(self.provider.entry_ns(first, shape) for first in bounds[1:-1])
                yield sum(fast) + entries + (self.num_microbatches - 1) * max(fast)

    def best(self, candidates: Candidates) -> StagesAnswer:
        """The dynamic program."""
        return best_stages(
            candidates.costs,
            num_devices=self.cluster.num_devices,
            num_microbatches=self.num_microbatches,
            in_flight=self.in_flight,
            memory_limit_bytes=self.cluster.memory_bytes,
        )

    def least_memory(self) -> int:
        """With which a plan exists."""
        costs = self.candidates_within(None, None).costs
        least = least_memory_bytes(costs, num_devices=self.cluster.num_devices, in_flight=self.in_flight)
        if least is None:
            raise InputError(
                value=self.cluster.num_devices,
                rule="some way to shard some cut of the model uses all devices",
                place=f"{self.cluster.name}, mesh",
                remedy="use fewer devices, or microbatches of more samples",
            )
        return least

    def laid_out(self, plan: StagePlan, candidates: Candidates) -> TwoLevelPlan:
        """On devices, with what is sent between stages."""
        places = assign(self.cluster, [stage.submesh for stage in plan.stages])
        stages = tuple(
            Stage(
                first=choice.first,
                end=choice.end,
                submesh=choice.submesh,
                devices=devices,
                cost=candidates.options[choice.first, choice.end, choice.submesh][choice.option],
            )
            for choice, devices in zip(plan.stages, places, strict=True)
        )
        return TwoLevelPlan(
            cluster=self.cluster,
            schedule=self.schedule,
            num_microbatches=self.num_microbatches,
            stages=stages,
            boundaries=tuple(
                (
                    self.provider.boundary(
                        after.first, before.submesh, before.cost.sharding, before.devices, leaving=True
                    ),
                    self.provider.boundary(after.first, after.submesh, after.cost.sharding, after.devices),
                )
                for before, after in pairwise(stages)
            ),
            step_ns=plan.step_ns,
            lower_bound_ns=plan.lower_bound_ns,
        )


def _enough_nodes(provider_for: Callable[[Cluster], StageProvider], search: _Search) -> int | None:
    """A number of nodes that would do when one less would not, found by doubling and halving."""

    def enough(num_nodes: int) -> bool:
        larger = replace(search.cluster, num_nodes=num_nodes)
        with asking(provider_for(larger)) as asker:
            other = replace(search, cluster=larger, asker=asker)
            candidates = other.candidates_within(larger.memory_bytes, None)
        try:
            return has_plan(
                candidates.costs,
                num_devices=larger.num_devices,
                in_flight=other.in_flight,
                memory_limit_bytes=larger.memory_bytes,
            )
        except InputError:  # too many layers and devices to tell
            return False

    too_few, nodes = search.cluster.num_nodes, 2 * search.cluster.num_nodes
    most_nodes = _MOST_DEVICES // search.cluster.devices_per_node
    while nodes <= most_nodes and not enough(nodes):
        too_few, nodes = nodes, 2 * nodes
    if nodes > most_nodes:
        return None
    while nodes - too_few > 1:
        middle = (too_few + nodes) // 2
        too_few, nodes = (too_few, middle) if enough(middle) else (middle, nodes)
    return nodes
