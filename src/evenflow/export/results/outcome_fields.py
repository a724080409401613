"""The outcome of a solve, of all schedules or of one, with a plan or without; its neighbours, and named plans."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evenflow.baselines.named_plans import NamedPlan, Skipped
from evenflow.model import Sizes
from evenflow.profiles.plan_fields import plan_fields, simulation_fields
from evenflow.simulate import Simulation
from evenflow.solve import BestOutcome, Neighbours, Outcome, ScheduleCandidate
from evenflow.solve.order.ordered_outcome import OrderedOutcome
from evenflow.solve.proof import TOLERANCE
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
        binding=outcome.binding,
        **({"rank_order": list(outcome.rank_order)} if outcome.rank_order else {}),
        **(_order_fields(outcome) if isinstance(outcome, OrderedOutcome) else {}),
    )


def _order_fields(outcome: OrderedOutcome) -> dict[str, object]:
    """Return what a search for the order of work adds."""
    family = outcome.family
    return {
        "lower_bound_any_order_ms": milliseconds(outcome.lower_bound_ns),
        "lower_bound_same_cells_ms": milliseconds(outcome.order_lower_bound_ns),
        "best_family": None
        if family.plan is None or family.makespan_ns is None
        else {
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
    }


def best_fields(best: BestOutcome, sizes: Sizes, *, schedule: str = "best") -> dict[str, object]:
    """Return the fields of the best schedule, then the bound over all schedules and the fields of the others.

    `schedule` is what was asked for: ``best``, or the name of a family of which every group size was tried.
    """
    has_plan = best.outcome.simulation is not None
    return {
        **outcome_fields(best.outcome, sizes, schedule=schedule),
        "bound_over_all_ms": milliseconds(best.lower_bound_ns) if has_plan else None,
        "gap_over_all": best.gap,
        **({} if best.by_cell_bound_ns is None else {"bound_by_cell_ms": milliseconds(best.by_cell_bound_ns)}),
        "alternatives": [_alternative(candidate, sizes) for candidate in best.candidates if candidate is not best.best],
    }


def elsewhere_fields(elsewhere: BestOutcome) -> dict[str, object] | None:
    """Return the fields of the best of all schedules beside a plan for one framework; None where none was found."""
    best = elsewhere.best
    if best is None or best.makespan_ns is None:
        return None
    return {
        "schedule": best.schedule,
        "chunks": best.num_chunks,
        **({} if best.group_size is None else {"group_size": best.group_size}),
        "makespan_ms": milliseconds(best.makespan_ns),
        "bound_over_all_ms": milliseconds(elsewhere.lower_bound_ns),
    }


def neighbour_fields(neighbours: Neighbours, sizes: Sizes) -> dict[str, object]:
    """Return the fields of a quick look around a plan."""
    return {
        "same_without_limit": neighbours.same_without_limit,
        "neighbours": [_alternative(candidate, sizes) for candidate in neighbours.candidates],
    }


def other_option_fields(options: str, outcome: Outcome) -> dict[str, object]:
    """Return the fields of a plan that other `options` allow; raises AssertionError without a plan."""
    plan, step_ns = outcome.plan, outcome.makespan_ns
    assert plan is not None
    assert step_ns is not None
    return {
        "options": options,
        "schedule": plan.schedule,
        "chunks": plan.num_chunks,
        **({} if plan.group_size is None else {"group_size": plan.group_size}),
        "makespan_ms": milliseconds(step_ns),
    }


def roomier_fields(
    plans: Sequence[tuple[Simulation, int]], limit_bytes: int, most_free_bytes: int | None
) -> dict[str, object]:
    """Return the fields of plans that are hardly longer than the best and leave more memory free.

    Each has the fields of a plan file but for the network; with it comes a lower bound on the step of all plans under
    its order that hold at most as much.
    """
    return {
        "roomier": [
            plan_fields(
                simulation,
                status="optimal" if bound_ns >= simulation.makespan_ns * (1 - 2 * TOLERANCE) else "feasible",
                lower_bound_ns=bound_ns,
                memory_limit_bytes=max(simulation.peak_memory_bytes),
            )
            | {"free_mb": megabytes(limit_bytes - max(simulation.peak_memory_bytes))}
            for simulation, bound_ns in plans
        ],
        "most_free_mb": None if most_free_bytes is None else megabytes(most_free_bytes),
    }


def _alternative(candidate: ScheduleCandidate, sizes: Sizes) -> dict[str, object]:
    """Return the fields of another schedule; of one that was not tried only the reason."""
    groups: dict[str, object] = {} if candidate.group_size is None else {"group_size": candidate.group_size}
    groups |= {"rank_order": list(candidate.rank_order)} if candidate.rank_order else {}
    if candidate.host_link is not None:
        link = candidate.host_link
        groups |= {"ahead": link.ahead_entry, "behind": link.behind, "buffers": link.buffers}
        groups |= {"keepers": list(link.keepers)} if link.keepers else {}
    groups |= {"recomputation": candidate.recomputation} if candidate.recomputation else {}
    if candidate.outcome is None:
        return {
            "status": "skipped",
            "schedule": candidate.schedule,
            "chunks": candidate.num_chunks,
            **groups,
            "reason": candidate.reason,
        }
    tried_sizes = replace(sizes, num_chunks=candidate.num_chunks)
    return outcome_fields(candidate.outcome, tried_sizes, schedule=candidate.schedule) | groups


RECOMMENDED = "recommended"
"""Name of the plan that was solved for."""


def comparison_fields(
    recommended: Mapping[str, object],
    others: Sequence[NamedPlan | Skipped],
    memory_limit_bytes: int | None,
    *,
    notes: Mapping[str, Mapping[str, object]],
) -> dict[str, object]:
    """Return the fields of every plan by name, with those of its `notes`; a skipped one has only its reason."""
    return {
        RECOMMENDED: recommended,
        **{other.name: {**_other(other, memory_limit_bytes), **notes.get(other.name, {})} for other in others},
    }


def _other(other: NamedPlan | Skipped, memory_limit_bytes: int | None) -> dict[str, object]:
    if isinstance(other, Skipped):
        return {"status": "skipped", "reason": other.reason}
    return simulation_fields(other.simulation, memory_limit_bytes)
