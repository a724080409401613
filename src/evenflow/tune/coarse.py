"""A first plan of a configuration, at once: layers dealt evenly, and as little recomputation as fits."""

from evenflow.model import NONE, Plan, cells
from evenflow.predict.prediction import Prediction
from evenflow.predict.training import Training
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Pricing


def coarse(pricing: Pricing, training: Training) -> Prediction | None:
    """Return the step of the first plan that fits; None where recomputing everything does not."""
    layers = cells(training.layout)
    offered = pricing.of(training).network.kinds
    allowed = [kind for kind in offered if any(kind in family for family in pricing.allowed_kinds)]
    for kind in sorted(allowed, key=lambda kind: (kind != NONE, offered.index(kind))):
        recompute = {} if kind == NONE else {kind: layers}
        plan = Plan(
            schedule=schedule_of(training),
            num_microbatches=training.microbatches,
            layers=layers,
            recompute=recompute,
            group_size=training.group_size,
        )
        found = pricing.predicted(training, plan)
        if pricing.fits(found):
            return found
    return None
