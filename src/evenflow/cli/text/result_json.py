"""Results as the JSON of ``docs/result-schema.md``."""

from collections.abc import Mapping
from types import MappingProxyType

from evenflow.cli.shared.sizes import Sizes
from evenflow.cli.verbs.plan_search import search_fields
from evenflow.export.plan_json import PlanReport, format_object, format_plan
from evenflow.simulate import Simulation
from evenflow.simulate.bubbles import as_fractions
from evenflow.solve import Outcome
from evenflow.solve.order.alternate import OrderedOutcome
from evenflow.units import megabytes, milliseconds


def outcome_json(outcome: Outcome, sizes: Sizes) -> str:
    """The result of a solve; without a plan its numbers are null."""
    if outcome.simulation is None:
        return format_object(_no_plan(outcome, sizes))
    return _plan_json(
        outcome.simulation,
        status=outcome.status.value,
        lower_bound_ns=outcome.lower_bound_ns,
        memory_limit_bytes=outcome.memory_limit_bytes,
        solve_seconds=outcome.solve_seconds,
        more=search_fields(outcome) if isinstance(outcome, OrderedOutcome) else {},
    )


def simulation_json(simulation: Simulation, memory_limit_bytes: int | None) -> str:
    """A plan that was only simulated: nothing is known of a bound."""
    return _plan_json(
        simulation, status="simulated", lower_bound_ns=None, memory_limit_bytes=memory_limit_bytes, solve_seconds=0.0
    )


def _plan_json(
    simulation: Simulation,
    *,
    status: str,
    lower_bound_ns: int | None,
    memory_limit_bytes: int | None,
    solve_seconds: float,
    more: Mapping[str, object] = MappingProxyType({}),
) -> str:
    return format_plan(
        PlanReport(
            status=status,
            plan=simulation.plan,
            makespan_ns=simulation.makespan_ns,
            lower_bound_ns=lower_bound_ns,
            peak_memory_bytes=simulation.peak_memory_bytes,
            memory_limit_bytes=memory_limit_bytes,
            bubble=as_fractions(simulation.bubbles),
            solve_seconds=solve_seconds,
            more=more,
        )
    )


def _no_plan(outcome: Outcome, sizes: Sizes) -> dict[str, object]:
    limit, reason = outcome.memory_limit_bytes, outcome.infeasibility
    bound = outcome.lower_bound_ns
    return {
        "status": outcome.status.value,
        "makespan_ms": None,
        "lower_bound_ms": milliseconds(bound) if bound > 0 and reason is None else None,
        "gap": None,
        "ranks": sizes.num_ranks,
        "chunks": sizes.num_chunks,
        "microbatches": sizes.num_microbatches,
        "schedule": sizes.schedule,
        "sequence_splits": sizes.sequence_splits,
        "layers": None,
        "recompute": None,
        "peak_memory_mb": None,
        "memory_limit_mb": None if limit is None else megabytes(limit),
        "smallest_limit_mb": None if reason is None else megabytes(reason.smallest_limit_bytes),
        "bubble": None,
        "solve_seconds": outcome.solve_seconds,
    }
