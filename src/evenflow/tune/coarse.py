"""A first plan of a configuration in milliseconds: layers dealt by time, each rank with what it must recompute.

While the loops that deal them are compiled, it is an even cut, by plain code.
"""

from collections.abc import Iterator
from dataclasses import replace

from evenflow.model import Plan
from evenflow.predict.training import Training
from evenflow.simulate import Integers
from evenflow.solve.known_plans import even_known
from evenflow.solve.machine_code import MachineCode
from evenflow.solve.problem import Problem
from evenflow.solve.recompute_ways import RecomputeWay
from evenflow.solve.search.dealing import dealt, first_plan
from evenflow.solve.start import recomputing_less
from evenflow.tune.candidate import PlannedStep, Pricing
from evenflow.tune.variants import variants_of

MACHINE_CODE = MachineCode()
"""Of bounds and first plans."""


def coarse(pricing: Pricing, training: Training) -> PlannedStep | None:
    """Return the step of a good plan that fits; None where none is found."""
    request = pricing.request(training, transfer_ns=pricing.message_ns(training))
    if request.network.num_layers < request.sizes.num_cells * request.min_layers:
        return None
    variants = variants_of(pricing, training, request)
    for size in variants.group_sizes:
        free = pricing.problem(replace(request, group_size=size), training)
        plans = [(problem, counts) for problem, counts in _plans(free, variants.ways) if counts is not None]
        if plans:
            problem, counts = min(
                plans, key=lambda problem_and_counts: problem_and_counts[0].simulate(problem_and_counts[1]).makespan_ns
            )
            return pricing.planned_step(training, problem.plan(counts))
    return None


def recomputing_what_it_must(pricing: Pricing, training: Training, plan: Plan) -> Plan:
    """Return a plan of a configuration with fewer layers that recompute, where memory has room for what they keep.

    A plan that recomputes layers in another way than each as it likes stays as it is.
    """
    if not plan.num_recomputed:
        return plan
    request = replace(pricing.request(training, transfer_ns=pricing.message_ns(training)), group_size=plan.group_size)
    free = pricing.problem(request, training)
    counts = free.counts(plan)
    for way in variants_of(pricing, training, request).ways:
        problem = _under(free, way)
        if way.bounds is None and way.count is None and all(problem.may_hold(content) for content in counts):
            return problem.plan(recomputing_less(problem, counts))
    return plan


def _plans(free: Problem, ways: tuple[RecomputeWay, ...]) -> Iterator[tuple[Problem, Integers | None]]:
    """Yield first plans of the ways to recompute that may be the best, each with the fewest layers that fit."""
    plan, fitting = (first_plan, dealt) if MACHINE_CODE.is_made else (_even_plan, even_known)
    own = [way for way in ways if way.bounds is None]
    counted = sorted((way for way in own if way.count is not None), key=lambda way: way.count or 0)
    for way in own:
        if way.count is None:
            problem = _under(free, way)
            counts = plan(problem)
            yield problem, counts
            if counts is not None and way.rule.kinds == ("none",):
                return  # nothing recomputed: no other way is shorter
    low, high = 0, len(counted)
    while low < high:
        middle = (low + high) // 2
        fits = fitting(_under(free, counted[middle])) is not None
        low, high = (low, middle) if fits else (middle + 1, high)
    if low < len(counted):
        problem = _under(free, counted[low])
        yield problem, plan(problem)


def _even_plan(problem: Problem) -> Integers | None:
    """Return the counts of an even cut that fits; None where none does."""
    counts = even_known(problem)
    return None if counts is None else recomputing_less(problem, counts)


def _under(free: Problem, way: RecomputeWay) -> Problem:
    return replace(free, request=replace(free.request, cell_rule=way.rule))
