"""Lower bounds on the step of a configuration, over all cuts, all recomputation and all group sizes of its schedule."""

from dataclasses import dataclass, field
from typing import Any

from evenflow.predict.step.data_parallel import norm_ns
from evenflow.predict.training import Training
from evenflow.solve.load.layer_table import LayerTable
from evenflow.solve.load.load_bound import load_bound_ns, table_of
from evenflow.solve.load.order_facts import order_facts
from evenflow.solve.plan_bounds import AnyPlan, any_order_lower_bound
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Pricing


@dataclass(kw_only=True)
class Bounds:
    """Bounds of configurations; equal pipelines are bounded once."""

    pricing: Pricing
    _tables: dict[Any, LayerTable] = field(default_factory=dict)
    _refined: dict[Any, int] = field(default_factory=dict)

    def step_ns(self, training: Training) -> float:
        """Return a lower bound on the step, at once; infinite where nothing fits."""
        request = self.pricing.request(training)
        schedule = schedule_of(training)
        facts = order_facts(schedule, request.sizes)
        key = (id(request.network), facts.splits_backward, facts.num_chunks > 1)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = table_of(request, facts)
        return load_bound_ns(request, schedule, table=table) + self.after_ns(training)

    def refined_ns(self, training: Training) -> float:
        """Return a lower bound on the step that takes some milliseconds."""
        request = self.pricing.request(training)
        splits = order_facts(schedule_of(training), request.sizes).splits_backward
        key = (id(request.network), request.sizes, splits)
        found = self._refined.get(key)
        if found is None:
            found = self._refined[key] = any_order_lower_bound(AnyPlan.of(request, may_split=splits))
        return found + self.after_ns(training)

    def after_ns(self, training: Training) -> float:
        """Return a lower bound on what a step takes beside its pipeline."""
        topology = self.pricing.question.topology
        return norm_ns(training, topology) + topology.accelerator.reached.step_ns
