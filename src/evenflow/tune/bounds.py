"""Lower bounds on the step of a configuration, over all cuts, all recomputation and all orders of its schedule."""

from dataclasses import dataclass, field
from typing import Any

from evenflow.predict.step.data_parallel import norm_ns
from evenflow.predict.training import Training
from evenflow.solve.plan_bounds import AnyPlan, any_order_lower_bound
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Pricing
from evenflow.tune.quick_bound import family_of, quick_bound_ns


@dataclass(kw_only=True)
class Bounds:
    """Bounds of configurations; equal pipelines are bounded once."""

    pricing: Pricing
    _refined: dict[Any, int] = field(default_factory=dict)

    def step_ns(self, training: Training) -> float:
        """Return a lower bound on the step, at once; infinite where nothing fits."""
        return quick_bound_ns(self.pricing.request(training), schedule_of(training)) + self.after_ns(training)

    def refined_ns(self, training: Training) -> float:
        """Return a lower bound on the step that takes some milliseconds."""
        request, degrees = self.pricing.request(training), training.degrees
        family = family_of(schedule_of(training), degrees.pipeline, degrees.chunks, training.microbatches)
        key = (id(request.network), request.sizes, family.splits_backward)
        found = self._refined.get(key)
        if found is None:
            plans = AnyPlan.of(request, may_split=family.splits_backward)
            found = self._refined[key] = any_order_lower_bound(plans)
        return found + self.after_ns(training)

    def after_ns(self, training: Training) -> float:
        """Return a lower bound on what a step takes beside its pipeline."""
        topology = self.pricing.question.topology
        return norm_ns(training, topology) + topology.accelerator.reached.step_ns
