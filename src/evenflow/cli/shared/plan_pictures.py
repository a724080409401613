"""Pictures of named plans, and pages for the browser."""

from collections.abc import Callable, Mapping, Sequence

import evenflow
from evenflow.baselines.named_plans import NamedPlan
from evenflow.draw import comparison_svg, timeline_svg
from evenflow.draw.side_by_side_picture import side_by_side_svg
from evenflow.draw.vocabulary import Vocabulary
from evenflow.export.results.json_text import format_object
from evenflow.profiles.plan_fields import plan_file_fields
from evenflow.report.shown import Shown

MADE_BY = f"evenflow {evenflow.__version__}"
"""What a page says of itself."""


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


def plans_html(
    plans: Sequence[NamedPlan],
    *,
    memory_limit_bytes: int | None,
    files: Sequence[Mapping[str, object]] = (),
    decide: Callable[[list[Shown]], list[Shown]] = list,
    vocabulary: Vocabulary = Vocabulary.OURS,
) -> str:
    """Return the report of plans of one network.

    `files` are the fields of the plan files that it carries, of the first plans; by default those of plans that were
    only simulated. `decide` adds what is needed to decide for the first plan.
    """
    from evenflow.report import report_html, shown_simulation

    carried = [*files, *(plan_file_fields(plan.simulation, memory_limit_bytes) for plan in plans[len(files) :])]
    shown = [
        shown_simulation(
            plan.simulation,
            name=plan.name,
            memory_limit_bytes=memory_limit_bytes,
            certificate=plan.certificate,
            plan=format_object(file),
            vocabulary=vocabulary,
        )
        for plan, file in zip(plans, carried, strict=True)
    ]
    network = plans[0].simulation.network.name
    title = f"{network}, {plans[0].name}" if len(plans) == 1 else network
    return report_html(decide(shown), title=title, vocabulary=vocabulary, made_by=MADE_BY)
