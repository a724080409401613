"""Stages on submeshes of a cluster, what they exchange, and why there may be none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from evenflow.cluster import Cluster, ReshardingPlan, Submesh, TensorLayout, assign, plan_resharding
from evenflow.language import _
from evenflow.model import NONE, Communication, Plan
from evenflow.schedule import NUM_OPS, Op, make_schedule
from evenflow.simulate import Timeline, build_graph, duration_table, run
from evenflow.units import MEGABYTE, megabytes
from evenflow_torch.auto.sharding.ways import MeshSharding, PlainWay
from evenflow_torch.auto.stages.stage_provider import StageCost, StageProvider
from evenflow_torch.auto.stages.threshold_search import NEAR_PERCENT
from evenflow_torch.auto.wording.sharding_phrases import plain_words


class StageChoice(NamedTuple):
    """Layers [first, end) as a stage, before they have devices."""

    first: int
    end: int
    submesh: Submesh
    cost: StageCost


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmeshStage:
    """Layers [first, end) on devices of the cluster."""

    first: int
    end: int
    submesh: Submesh
    devices: range
    cost: StageCost


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """The reason why there is no plan: the memory, or the number of nodes, that would be enough."""

    memory_bytes: int
    """The smallest memory of a device with which this cluster has a plan."""
    num_nodes: int | None
    """The first number of nodes, doubled and then halved back, with which these devices have one, if any was found."""

    def message(self, cluster: Cluster) -> str:
        """Return one sentence that says what would be enough."""
        least_mb = -(-self.memory_bytes // MEGABYTE)  # rounded up, so that it does
        needed = _(
            "{least_mb:,} MB a device instead of {memory_mb:,.0f} MB",
            least_mb=least_mb,
            memory_mb=megabytes(cluster.memory_bytes),
        )
        if self.num_nodes is not None:
            needed = _(
                "{memory}, or with {devices} devices ({nodes} x {devices_per_node})",
                memory=needed,
                devices=self.num_nodes * cluster.devices_per_node,
                nodes=self.num_nodes,
                devices_per_node=cluster.devices_per_node,
            )
        return _(
            "the model does not fit on {name}, however it is cut and sharded; it would with {needed}",
            name=cluster.name,
            needed=needed,
        )


@dataclass(frozen=True, kw_only=True)
class TwoLevelPlan:
    """Stages on submeshes, each with one of its provider's shardings."""

    cluster: Cluster
    schedule: str
    num_microbatches: int
    stages: tuple[SubmeshStage, ...]
    boundaries: tuple[tuple[TensorLayout, TensorLayout], ...]
    """Layouts of what passes between every two stages: on the devices of the first, then of the second."""
    step_ns: int
    """Nanoseconds of a step by equation 2, which the stages were chosen for."""
    lower_bound_ns: int
    """Nanoseconds that no stages on submeshes undercut by equation 2."""

    @property
    def pipeline(self) -> Plan:
        """Layers and recomputation of its stages, each as a cell of a rank."""
        by_kind = [stage.cost.layers_by_kind(stage.end - stage.first) for stage in self.stages]
        kinds = dict.fromkeys(kind for counts in by_kind for kind in counts if kind != NONE)
        return Plan(
            schedule=self.schedule,
            num_microbatches=self.num_microbatches,
            layers=(tuple(stage.end - stage.first for stage in self.stages),),
            recompute={kind: (tuple(counts.get(kind, 0) for counts in by_kind),) for kind in kinds},
        )

    @cached_property
    def activations(self) -> tuple[ReshardingPlan, ...]:
        """The messages from every stage but the last to the next."""
        return tuple(plan_resharding(before, after, self.cluster) for before, after in self.boundaries)

    @cached_property
    def gradients(self) -> tuple[ReshardingPlan, ...]:
        """The messages back from each next stage, with the layouts exchanged."""
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
        messages[1:, Op.F] = [_message_ns(self.cluster, *pair) for pair in self.boundaries]
        messages[:-1, Op.B] = [_message_ns(self.cluster, *reversed(pair)) for pair in self.boundaries]
        durations = duration_table(forward, backward, np.zeros_like(backward))
        return run(build_graph(order), durations, messages.reshape(-1))


def _message_ns(cluster: Cluster, before: TensorLayout, after: TensorLayout) -> int:
    """Return the time of a message between layouts, computed once for all places where they lie alike."""
    width = cluster.devices_per_node
    shift = min(*before.devices, *after.devices) // width * width
    here, there = (
        replace(layout, devices=tuple(device - shift for device in layout.devices)) for layout in (before, after)
    )
    return _resharding_ns(cluster, here, there)


@lru_cache(maxsize=4096)
def _resharding_ns(cluster: Cluster, before: TensorLayout, after: TensorLayout) -> int:
    return plan_resharding(before, after, cluster).cost_ns


@dataclass(frozen=True, kw_only=True)
class PlainGrid:
    """A plan as people write it: equal submeshes, layers dealt evenly, one plain way and one recompute kind for all."""

    submesh: Submesh
    sharding: MeshSharding
    num_stages: int
    plan: TwoLevelPlan | None
    """None where it does not fit, and where there is no such way."""
    memory_bytes: int | None = None
    """Memory of the fullest device under the chosen recompute kind, or the least under any; None without such a way."""
    reason: str = ""
    """Why there is no such way."""

    @property
    def name(self) -> str:
        """The plan in words, such as ``FSDP over 8, pipeline of 3 stages``."""
        assert isinstance(self.sharding.way, PlainWay)
        return plain_words(self.sharding.way, self.sharding.mesh, self.submesh, num_stages=self.num_stages)


@dataclass(frozen=True, kw_only=True)
class StagesOutcome:
    """The outcome of a search for stages: the plan with what else was considered, or why there is none."""

    plan: TwoLevelPlan | None
    alternatives: tuple[TwoLevelPlan, ...]
    """The best that was met for every number of stages, the plan itself included."""
    shortage: Shortage | None
    num_evaluated: int
    """Stages whose cost was asked for, of `num_possible` runs of layers on submeshes."""
    num_possible: int
    simulated_bound_ns: int | None = None
    """Nanoseconds that the simulated step of no stages on submeshes undercuts; None where that is not known."""
    grids: tuple[PlainGrid, ...] = ()
    """Plans as people write them, shortest first, then those that do not fit or exist."""

    @property
    def shortest(self) -> TwoLevelPlan | None:
        """The plan with the shortest simulated step, messages included.

        It is one of the alternatives within `NEAR_PERCENT` of the plan, or of the grids.
        """
        near_ns = self.plan.step_ns * NEAR_PERCENT // 100 if self.plan else 0
        near = [plan for plan in self.alternatives if plan.step_ns <= near_ns]
        return min([*near, *self._grid_plans], key=_preference, default=None)

    @property
    def _grid_plans(self) -> list[TwoLevelPlan]:
        return [grid.plan for grid in self.grids if grid.plan]

    @property
    def shortest_equal(self) -> TwoLevelPlan | None:
        """The shortest simulated plan with equal submeshes, which the exact solver takes for equal ranks."""
        equal = [plan for plan in self.alternatives if len({stage.submesh for stage in plan.stages}) == 1]
        return min([*equal, *self._grid_plans], key=_preference, default=None)


def _preference(plan: TwoLevelPlan) -> tuple[int, int]:
    """Sort key, smallest for the best: the simulated step, then layers that recompute."""
    kinds = (stage.cost.layers_by_kind(stage.end - stage.first) for stage in plan.stages)
    return plan.timeline.makespan_ns, sum(count for layers in kinds for kind, count in layers.items() if kind != NONE)


def laid_out(
    provider: StageProvider, chosen: Sequence[StageChoice], *, schedule: str, step_ns: int, lower_bound_ns: int
) -> TwoLevelPlan:
    """Lay stages out on devices, with what is sent between them."""
    places = assign(provider.cluster, [choice.submesh for choice in chosen])
    stages = tuple(
        SubmeshStage(first=choice.first, end=choice.end, submesh=choice.submesh, devices=devices, cost=choice.cost)
        for choice, devices in zip(chosen, places, strict=True)
    )
    return TwoLevelPlan(
        cluster=provider.cluster,
        schedule=schedule,
        num_microbatches=provider.num_microbatches,
        stages=stages,
        boundaries=tuple(
            (
                provider.boundary(after.first, before.submesh, before.cost.sharding, before.devices, leaving=True),
                provider.boundary(after.first, after.submesh, after.cost.sharding, after.devices),
            )
            for before, after in pairwise(stages)
        ),
        step_ns=step_ns,
        lower_bound_ns=lower_bound_ns,
    )


def even_bounds(num_layers: int, num_stages: int) -> list[int]:
    """Return the bounds of stages with evenly many layers: where each begins, and the end of the last."""
    return [num_layers * stage // num_stages for stage in range(num_stages + 1)]


def equation_ns(provider: StageProvider, bounds: Sequence[int], submesh: Submesh, times: Sequence[int]) -> int:
    """Return a step's nanoseconds by equation 2, for stages with these times on equal submeshes."""
    entries = sum(provider.entry_ns(first, submesh) for first in bounds[1:-1])
    return sum(times) + entries + (provider.num_microbatches - 1) * max(times)
