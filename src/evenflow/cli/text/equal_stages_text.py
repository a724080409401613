"""A plan beside equal stages, which everybody can write."""

from collections.abc import Iterator, Sequence

from evenflow.baselines.named_plans import NAIVE_PLANS, NamedPlan, naive_plans
from evenflow.cli.text.beside_text import beside_line
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.schedule import FAMILIES, default_family
from evenflow.simulate import Simulation

MOST_ACTIONS = 100_000
"""Actions of a step beyond which no other plan is simulated beside it: that is no part of any time limit."""


def equal_stages_lines(
    simulation: Simulation, memory_limit_bytes: int | None, *, allow_empty: bool = True
) -> Iterator[str]:
    """Give a line for equal stages that recompute nothing; where these do not fit, for those that recompute all too."""
    if simulation.timeline.schedule.num_actions > MOST_ACTIONS:
        return
    for named in _equal_stages(simulation, memory_limit_bytes, allow_empty):
        yield beside_line(simulation, _words(named, simulation), named.simulation, memory_limit_bytes)


def _equal_stages(simulation: Simulation, memory_limit_bytes: int | None, allow_empty: bool) -> Sequence[NamedPlan]:
    try:
        made = naive_plans(
            simulation.network,
            simulation.plan.sizes,
            schedule=_family(simulation.plan),
            communication=simulation.communication,
            allow_empty=allow_empty,
        )
    except InputError:  # the network cannot be cut evenly
        return ()
    by_name = {plan.name: plan for plan in made if isinstance(plan, NamedPlan)}
    recomputing, plain = (by_name.get(name) for name in NAIVE_PLANS)
    if plain is not None and plain.simulation.fits(memory_limit_bytes):
        return (plain,)
    return [plan for plan in (plain, recomputing) if plan is not None]


def _family(plan: Plan) -> str:
    if plan.order or plan.schedule not in FAMILIES:
        return default_family(num_chunks=plan.num_chunks)
    return plan.schedule


def _words(named: NamedPlan, simulation: Simulation) -> str:
    schedule = named.simulation.plan.schedule
    nothing = not any(named.simulation.plan.recompute.values())
    kind = next(iter(named.simulation.plan.recompute), "")
    words = (
        _("equal stages, nothing recomputed") if nothing else _("equal stages, recompute {kind} everywhere", kind=kind)
    )
    return words if schedule == simulation.plan.schedule else _("{words}, {schedule}", words=words, schedule=schedule)
