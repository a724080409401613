"""Several schedules: the outcome of ``--schedule best`` with the bound over all, and the neighbours of a plan."""

from dataclasses import replace

from evenflow.export.results.outcome_fields import outcome_fields
from evenflow.model import Sizes
from evenflow.solve import BestOutcome, Neighbours, ScheduleCandidate
from evenflow.units import milliseconds


def best_fields(best: BestOutcome, sizes: Sizes, *, schedule: str = "best") -> dict[str, object]:
    """Return the fields of the best schedule, then the bound over all schedules and the fields of the others.

    `schedule` is what was asked for: ``best``, or the name of a family of which every group size was tried.
    """
    has_plan = best.outcome.simulation is not None
    return {
        **outcome_fields(best.outcome, sizes, schedule=schedule),
        "bound_over_all_ms": milliseconds(best.lower_bound_ns) if has_plan else None,
        "gap_over_all": best.gap,
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


def _alternative(candidate: ScheduleCandidate, sizes: Sizes) -> dict[str, object]:
    """Return the fields of another schedule; of one that was not tried only the reason."""
    groups: dict[str, object] = {} if candidate.group_size is None else {"group_size": candidate.group_size}
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
