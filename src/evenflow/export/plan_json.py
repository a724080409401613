"""A plan with its evidence as JSON: what ``--json`` writes, documented in ``docs/result-schema.md``."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.model import BOTH, COMM, FULL, SELECT, Cells, Plan
from evenflow.units import megabytes, milliseconds

_ALWAYS_LISTED = (FULL, SELECT, COMM, BOTH)
_BUBBLES = ("real", "ideal", "imbalance", "recompute", "communication")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """A plan and what is known of it."""

    status: str
    plan: Plan
    makespan_ns: int
    lower_bound_ns: int | None
    """None when nothing is known of other plans."""
    peak_memory_bytes: tuple[int, ...]
    """By rank."""
    memory_limit_bytes: int | None
    """None when no limit was checked."""
    bubble: Mapping[str, float]
    """Fractions of the model time: real, ideal, imbalance, recompute, communication."""
    solve_seconds: float
    more: Mapping[str, object] = field(default_factory=dict)
    """Further fields, by their names in the file."""


def format_plan(report: PlanReport) -> str:
    """One JSON object, one field a line; recompute counts are exclusive: a layer is in one kind or in none.

    `evenflow.profiles.plan_file.parse_plan` reads it back.
    """
    return format_object(plan_fields(report))


def plan_fields(report: PlanReport) -> dict[str, object]:
    """The object's fields, for those that write it into a larger one."""
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
        "layers": plan.layers,
        "recompute": {kind: plan.recompute.get(kind, nothing) for kind in (*_ALWAYS_LISTED, *sorted(named))},
        "peak_memory_mb": [megabytes(peak) for peak in report.peak_memory_bytes],
        "memory_limit_mb": None if limit is None else megabytes(limit),
        "bubble": {name: report.bubble[name] for name in _BUBBLES},
        "solve_seconds": report.solve_seconds,
        **report.more,
        **({"order": plan.order} if plan.order else {}),
    }


def format_object(fields: Mapping[str, object]) -> str:
    """A JSON object, one field a line."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"
