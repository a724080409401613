"""The outcome of a solve, with a plan or without one."""

from evenflow.model import Sizes
from evenflow.profiles.plan_fields import plan_fields
from evenflow.solve import Outcome
from evenflow.solve.order.ordered_outcome import OrderedOutcome
from evenflow.units import megabytes, milliseconds


def outcome_fields(outcome: Outcome, sizes: Sizes, *, schedule: str) -> dict[str, object]:
    """Return the fields of a solve; without a plan, what was asked for and null for its numbers.

    `schedule` is the name of the family that was asked for, ``best`` or ``search``.
    """
    if outcome.simulation is None:
        return _no_plan_fields(outcome, sizes, schedule=schedule)
    return plan_fields(
        outcome.simulation,
        status=outcome.status.value,
        lower_bound_ns=outcome.lower_bound_ns,
        memory_limit_bytes=outcome.memory_limit_bytes,
        solve_seconds=outcome.solve_seconds,
        binding=outcome.binding,
        **(_order_fields(outcome) if isinstance(outcome, OrderedOutcome) else {}),
    )


def _order_fields(outcome: OrderedOutcome) -> dict[str, object]:
    """Return what a search for the order of work adds."""
    family = outcome.family
    assert family.plan is not None  # of every OrderedOutcome
    assert family.makespan_ns is not None
    return {
        "lower_bound_any_order_ms": milliseconds(outcome.lower_bound_ns),
        "lower_bound_same_cells_ms": milliseconds(outcome.order_lower_bound_ns),
        "best_family": {
            "schedule": family.plan.schedule,
            "makespan_ms": milliseconds(family.makespan_ns),
            "lower_bound_ms": milliseconds(family.lower_bound_ns),
        },
    }


def _no_plan_fields(outcome: Outcome, sizes: Sizes, *, schedule: str) -> dict[str, object]:
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
        "schedule": schedule,
        "sequence_splits": sizes.sequence_splits,
        "layers": None,
        "recompute": None,
        "peak_memory_mb": None,
        "memory_limit_mb": None if limit is None else megabytes(limit),
        "memory_binds": None,
        "smallest_limit_mb": None if reason is None else megabytes(reason.smallest_limit_bytes),
        "bubble": None,
        "fill_drain": None,
        "solve_seconds": outcome.solve_seconds,
    }
