"""A first plan of a configuration in milliseconds: layers dealt by time, each rank with what it must recompute."""

from evenflow.predict.training import Training
from evenflow.solve.search.dealing import first_plan
from evenflow.tune.candidate import Found, Pricing


def coarse(pricing: Pricing, training: Training) -> Found | None:
    """Return the step of a good plan that fits; None where none is found."""
    request = pricing.request(training, transfer_ns=pricing.message_ns(training))
    if request.network.num_layers < request.sizes.num_cells:
        return None
    problem = pricing.problem(request, training)
    counts = first_plan(problem)
    return None if counts is None else pricing.found(training, problem.plan(counts))
