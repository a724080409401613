"""Pictures of named plans."""

from collections.abc import Sequence

from evenflow.baselines.named_plans import NamedPlan
from evenflow.draw import comparison_svg, timeline_svg
from evenflow.draw.side_by_side_picture import side_by_side_svg
from evenflow.draw.vocabulary import Vocabulary


def plan_svg(plan: NamedPlan, *, memory_limit_bytes: int | None, vocabulary: Vocabulary = Vocabulary.OURS) -> str:
    """Return timeline and memory of one plan."""
    return timeline_svg(
        plan.simulation,
        memory_limit_bytes=memory_limit_bytes,
        title=f"{plan.simulation.network.name}, {plan.name}",
        certificate=plan.certificate,
        vocabulary=vocabulary,
    )


def beside_svg(
    left: NamedPlan, right: NamedPlan, *, memory_limit_bytes: int | None, vocabulary: Vocabulary = Vocabulary.OURS
) -> str:
    """Return two plans beside each other, on the same axes."""
    pages = [
        (f"{plan.simulation.network.name}, {plan.name}", plan.simulation, plan.certificate) for plan in (left, right)
    ]
    return side_by_side_svg(pages, memory_limit_bytes=memory_limit_bytes, vocabulary=vocabulary)


def plans_svg(plans: Sequence[NamedPlan], *, memory_limit_bytes: int | None) -> str:
    """Return all plans on one time axis."""
    pairs = [(plan.name, plan.simulation) for plan in plans]
    return comparison_svg(pairs, memory_limit_bytes=memory_limit_bytes)
