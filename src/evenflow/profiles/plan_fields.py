"""A plan and what is known of it, as the fields of ``docs/result-schema.md``."""

from collections.abc import Mapping
from dataclasses import dataclass

from evenflow.model import BOTH, COMM, FULL, SELECT, Cells, Plan
from evenflow.simulate import FillDrain, Simulation, as_fractions
from evenflow.solve import BindingLimit
from evenflow.units import megabytes, milliseconds

_ALWAYS_LISTED = (FULL, SELECT, COMM, BOTH)
_BUBBLES = ("real", "ideal", "imbalance", "recompute", "communication")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """A plan, its simulated step and the evidence of a search."""

    status: str
    plan: Plan
    makespan_ns: int
    lower_bound_ns: int | None
    """Nanoseconds below which no plan can be; None where nothing is known of other plans."""
    peak_memory_bytes: tuple[int, ...]
    """Highest memory of each rank."""
    memory_limit_bytes: int | None
    """Bytes that each rank may use; None where no limit was checked."""
    bubble: Mapping[str, float]
    """Fractions of the model time: real, ideal, imbalance, recompute, communication."""
    solve_seconds: float
    binding: tuple[BindingLimit, ...] | None = None
    """Memory limits that bind; None where that was not looked for."""
    fill_drain: FillDrain | None = None
    """Idle time of equal stages under the same order; None where that was not looked for."""


def report_of(
    simulation: Simulation,
    *,
    status: str,
    lower_bound_ns: int | None,
    memory_limit_bytes: int | None,
    solve_seconds: float,
    binding: tuple[BindingLimit, ...] | None = None,
) -> PlanReport:
    """Return the report of a simulated plan."""
    return PlanReport(
        status=status,
        plan=simulation.plan,
        makespan_ns=simulation.makespan_ns,
        lower_bound_ns=lower_bound_ns,
        peak_memory_bytes=simulation.peak_memory_bytes,
        memory_limit_bytes=memory_limit_bytes,
        bubble=as_fractions(simulation.bubbles),
        solve_seconds=solve_seconds,
        binding=binding,
        fill_drain=simulation.fill_drain,
    )


def plan_fields(report: PlanReport, **more: object) -> dict[str, object]:
    """Return the fields of a report, and `more` of them before the order of work.

    Recompute counts are exclusive: a layer is in one kind or in none. `evenflow.profiles.plan_file.parse_plan` reads
    the fields back.
    """
    plan = report.plan
    bound, limit = report.lower_bound_ns, report.memory_limit_bytes
    nothing: Cells = ((0,) * plan.num_ranks,) * plan.num_chunks
    named = [kind for kind in plan.recompute if kind not in _ALWAYS_LISTED]
    return {
        "status": report.status,
        "makespan_ms": milliseconds(report.makespan_ns),
        "lower_bound_ms": None if bound is None else milliseconds(bound),
        "gap": None if bound is None else 1 - bound / report.makespan_ns,
        "ranks": plan.num_ranks,
        "chunks": plan.num_chunks,
        "microbatches": plan.num_microbatches,
        "schedule": plan.schedule,
        "sequence_splits": plan.sequence_splits,
        **({} if plan.group_size is None else {"group_size": plan.group_size}),
        "layers": plan.layers,
        "recompute": {kind: plan.recompute.get(kind, nothing) for kind in (*_ALWAYS_LISTED, *sorted(named))},
        "peak_memory_mb": [megabytes(peak) for peak in report.peak_memory_bytes],
        "memory_limit_mb": None if limit is None else megabytes(limit),
        "memory_binds": None if report.binding is None else [_binding_fields(limit) for limit in report.binding],
        "bubble": {name: report.bubble[name] for name in _BUBBLES},
        "fill_drain": _fill_drain_fields(report.fill_drain),
        "solve_seconds": report.solve_seconds,
        **more,
        **({"order": plan.order} if plan.order else {}),
    }


def _binding_fields(limit: BindingLimit) -> dict[str, object]:
    return {
        "rank": limit.rank,
        "change": "take_layer" if limit.takes_layer else "recompute_less",
        "more_mb": megabytes(limit.more_bytes),
    }


def _fill_drain_fields(idle: FillDrain | None) -> dict[str, object] | None:
    if idle is None:
        return None
    known = idle.by_formula is not None
    return {
        "simulated": idle.simulated,
        "by_formula": idle.by_formula,
        "formula": idle.words if known else None,
        "no_formula": None if known else idle.words,
    }


def simulation_fields(simulation: Simulation, memory_limit_bytes: int | None) -> dict[str, object]:
    """Return the fields of a plan that was only simulated: nothing is known of a bound."""
    return plan_fields(
        report_of(
            simulation,
            status="simulated",
            lower_bound_ns=None,
            memory_limit_bytes=memory_limit_bytes,
            solve_seconds=0.0,
        )
    )
