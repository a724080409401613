"""Pictures of named plans, and pages for the browser."""

from collections.abc import Sequence

import evenflow
from evenflow.baselines.named_plans import NamedPlan
from evenflow.draw import comparison_svg, timeline_svg
from evenflow.draw.side_by_side_picture import side_by_side_svg
from evenflow.draw.vocabulary import Vocabulary
from evenflow.report.shown import RunBlock


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
    files: Sequence[str | None] = (),
    decision: Sequence[str] = (),
    run: Sequence[RunBlock] = (),
    vocabulary: Vocabulary = Vocabulary.OURS,
) -> str:
    """Return the report of plans of one network; `files` are the plan files that it carries, of the first plans.

    `decision` and `run` are of the first plan: sentences for who decides, and what to copy to run it.
    """
    from evenflow.report import report_html, shown_simulation
    from evenflow.report.shown import Advice

    carried = [*files, *[None] * (len(plans) - len(files))]
    shown = [
        shown_simulation(
            plan.simulation,
            name=plan.name,
            memory_limit_bytes=memory_limit_bytes,
            certificate=plan.certificate,
            plan=file,
            decision=[Advice(text=sentence) for sentence in decision] if plan is plans[0] else (),
            run=run if plan is plans[0] else (),
            vocabulary=vocabulary,
        )
        for plan, file in zip(plans, carried, strict=True)
    ]
    network = plans[0].simulation.network.name
    title = f"{network}, {plans[0].name}" if len(plans) == 1 else network
    return report_html(shown, title=title, vocabulary=vocabulary, made_by=f"evenflow {evenflow.__version__}")
