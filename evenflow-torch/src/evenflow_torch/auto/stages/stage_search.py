"""The inter-operator pass: finds stages and their submeshes for a network, or what it would need to fit."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from evenflow.cluster import submeshes
from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.stages.candidates import Asker, Candidates, evaluate
from evenflow_torch.auto.stages.dynamic_program import StagePlan, StagePlans, has_plan, least_memory_bytes
from evenflow_torch.auto.stages.in_flight import assumed_schedule, in_flight_microbatches
from evenflow_torch.auto.stages.mixed_recompute import MixedRecompute
from evenflow_torch.auto.stages.stage_provider import StageCost, StageProvider
from evenflow_torch.auto.stages.threshold_search import NEAR_PERCENT, best_stages
from evenflow_torch.auto.stages.two_level_plan import (
    Shortage,
    StageChoice,
    StagesOutcome,
    TwoLevelPlan,
    equation_ns,
    even_bounds,
    laid_out,
)

_MOST_DEVICES = 4096
"""Clusters with more devices than this are not tried."""


def plan_stages(
    provider: StageProvider,
    *,
    schedule: str = "1f1b",
    num_stages: int | None = None,
    deadline: Deadline | None = None,
) -> StagesOutcome:
    """Choose stages and submeshes that minimise the step by equation 2, within the memory of the devices.

    `provider` gives the costs on its cluster; those of larger clusters are asked for only to say how many devices would
    do. There are `num_stages` stages where that is given. From `deadline` on the best so far is taken.

    Raises InputError for sizes that make no sense.
    """
    family = assumed_schedule(schedule)
    deadline = deadline or Deadline.after(math.inf)
    search = _StageSearch(provider=provider, schedule=family, num_stages=num_stages, deadline=deadline)
    candidates = search.candidates()
    plans = search.best(candidates)
    shortage = None
    if plans.best is None:
        shortage = Shortage(memory_bytes=search.least_memory(), num_nodes=_enough_nodes(search))
    laid_out = {plan: search.laid_out(plan, candidates) for plan in plans.alternatives}
    return StagesOutcome(
        plan=laid_out[plans.best] if plans.best else None,
        alternatives=tuple(laid_out.values()),
        shortage=shortage,
        num_evaluated=candidates.num_evaluated,
        num_possible=candidates.num_possible,
        simulated_bound_ns=plans.simulated_bound_ns,
    )


def has_even_plan(provider: StageProvider, *, schedule: str, num_stages: int | None = None) -> bool:
    """Tell quickly whether there is a plan: whether a pipeline of even stages on equal submeshes fits."""
    family, never = assumed_schedule(schedule), Deadline.after(math.inf)
    search = _StageSearch(provider=provider, schedule=family, num_stages=num_stages, deadline=never)
    return any(True for _step in search._even_steps())


@dataclass(frozen=True, kw_only=True)
class _StageSearch:
    """A search on one cluster, with the costs of its stages."""

    provider: StageProvider
    schedule: str
    num_stages: int | None
    """Stages that there must be; None: any number."""
    deadline: Deadline

    @cached_property
    def asker(self) -> Asker:
        mixed = MixedRecompute(
            provider=self.provider, memory_limit_bytes=self.provider.cluster.memory_bytes, in_flight=self.in_flight
        )
        return Asker(self.provider, mixed)

    @property
    def num_layers(self) -> int:
        return len(self.provider.kinds)

    @cached_property
    def in_flight(self) -> tuple[int, ...]:
        most = min(self.num_layers, self.provider.cluster.num_devices)
        return in_flight_microbatches(self.schedule, num_microbatches=self.provider.num_microbatches, most_stages=most)

    def candidates(self) -> Candidates:
        """The stages that can be part of a plan about as good as the even ones."""
        even_ns = min(self._even_steps(), default=None)
        near_ns = None if even_ns is None else even_ns * NEAR_PERCENT // 100
        return self.candidates_within(self.provider.cluster.memory_bytes, near_ns)

    def candidates_within(self, memory_limit_bytes: int | None, incumbent_ns: int | None) -> Candidates:
        """The stages that fit and are not too slow."""
        return evaluate(
            self.asker,
            submeshes(self.provider.cluster),
            num_microbatches=self.provider.num_microbatches,
            first_in_flight=self.in_flight[1],
            memory_limit_bytes=memory_limit_bytes,
            incumbent_ns=incumbent_ns,
        )

    def _even_steps(self) -> Iterator[int]:
        """Yield the steps of fitting plans with equal submeshes and evenly many layers, as a first incumbent."""
        cuts = {}
        for shape in submeshes(self.provider.cluster):
            count, rest = divmod(self.provider.cluster.num_devices, shape.num_devices)
            if not rest and count <= self.num_layers and self.num_stages in (None, count):
                cuts[shape] = even_bounds(self.num_layers, count)
        runs = [(first, end, shape) for shape, bounds in cuts.items() for first, end in pairwise(bounds)]
        options = dict(zip(runs, self.asker.ask(runs), strict=True))
        for shape, bounds in cuts.items():
            costs = [options[first, end, shape] for first, end in pairwise(bounds)]
            times = [self._fastest_ns(some, len(costs) - place) for place, some in enumerate(costs)]
            fitting = [cost_ns for cost_ns in times if cost_ns is not None]
            if len(fitting) == len(times):
                yield equation_ns(self.provider, bounds, shape, fitting)

    def _fastest_ns(self, options: Sequence[StageCost], position: int) -> int | None:
        """The cost of the fastest option that fits at a position counted from the end; None where none does."""
        room, live = self.provider.cluster.memory_bytes, self.in_flight[position]
        fitting = (cost.cost_ns for cost in options if cost.static_bytes + live * cost.activation_bytes <= room)
        return min(fitting, default=None)

    def best(self, candidates: Candidates) -> StagePlans:
        """Return the best plans over these candidates, found by the dynamic program."""
        return best_stages(
            candidates.costs,
            num_devices=self.provider.cluster.num_devices,
            num_microbatches=self.provider.num_microbatches,
            in_flight=self.in_flight,
            memory_limit_bytes=self.provider.cluster.memory_bytes,
            num_stages=self.num_stages,
            deadline=self.deadline,
        )

    def least_memory(self) -> int:
        """The smallest memory of a device with which a plan exists."""
        costs = self.candidates_within(None, None).costs
        least = least_memory_bytes(
            costs, num_devices=self.provider.cluster.num_devices, in_flight=self.in_flight, num_stages=self.num_stages
        )
        if least is None:
            raise InputError(
                value=self.provider.cluster.num_devices,
                rule=_("must be a number of devices that some cut and sharding of the model uses up"),
                place=_("{name}, devices", name=self.provider.cluster.name),
                remedy=_("use fewer devices, or microbatches of more samples"),
            )
        return least

    def laid_out(self, plan: StagePlan, candidates: Candidates) -> TwoLevelPlan:
        """Lay stages out on devices, with what is sent between them."""
        chosen = [
            StageChoice(
                stage.first,
                stage.end,
                stage.submesh,
                candidates.options[stage.first, stage.end, stage.submesh][stage.option],
            )
            for stage in plan.stages
        ]
        return laid_out(
            self.provider, chosen, schedule=self.schedule, step_ns=plan.step_ns, lower_bound_ns=plan.lower_bound_ns
        )


def _enough_nodes(search: _StageSearch) -> int | None:
    """Return a number of nodes that suffices while one less does not, found by doubling and halving; or None."""

    def enough(num_nodes: int) -> bool:
        larger = replace(search.provider.cluster, num_nodes=num_nodes)
        other = replace(search, provider=search.provider.on(larger))
        candidates = other.candidates_within(larger.memory_bytes, None)
        try:
            return has_plan(
                candidates.costs,
                num_devices=larger.num_devices,
                in_flight=other.in_flight,
                memory_limit_bytes=larger.memory_bytes,
                num_stages=search.num_stages,
            )
        except InputError:  # too many layers and devices to tell
            return False

    too_few, nodes = search.provider.cluster.num_nodes, 2 * search.provider.cluster.num_nodes
    most_nodes = _MOST_DEVICES // search.provider.cluster.devices_per_node
    while nodes <= most_nodes and not search.deadline.is_over and not enough(nodes):
        too_few, nodes = nodes, 2 * nodes
    if nodes > most_nodes or search.deadline.is_over:
        return None
    while nodes - too_few > 1:
        middle = (too_few + nodes) // 2
        too_few, nodes = (too_few, middle) if enough(middle) else (middle, nodes)
    return nodes
