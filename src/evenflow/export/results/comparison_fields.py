"""The recommended plan beside named ones."""

from collections.abc import Mapping, Sequence

from evenflow.baselines.named_plans import NamedPlan, Skipped
from evenflow.profiles.plan_fields import simulation_fields

RECOMMENDED = "recommended"
"""Name of the plan that was solved for."""


def comparison_fields(
    recommended: Mapping[str, object], others: Sequence[NamedPlan | Skipped], memory_limit_bytes: int | None
) -> dict[str, object]:
    """Return the fields of every plan by name; a skipped one has only its reason."""
    return {RECOMMENDED: recommended, **{other.name: _other(other, memory_limit_bytes) for other in others}}


def _other(other: NamedPlan | Skipped, memory_limit_bytes: int | None) -> dict[str, object]:
    if isinstance(other, Skipped):
        return {"status": "skipped", "reason": other.reason}
    return simulation_fields(other.simulation, memory_limit_bytes)
