"""What to copy to run a plan in every framework that runs it, or something near, with what that loses."""

from collections.abc import Iterator

from evenflow.cli.shared.targets.fitted_plan import FittedPlan, fit_plan
from evenflow.cli.shared.targets.target_text import shown_piece, written_for
from evenflow.errors import InputError
from evenflow.interruption import was_interrupted
from evenflow.language import _, joined
from evenflow.model import Plan
from evenflow.profiles.plan_degrees import MissingDegrees
from evenflow.profiles.plan_file import PlanFile
from evenflow.report.shown import RunBlock
from evenflow.solve.clock import now_s
from evenflow.targets.registry import all_targets
from evenflow.targets.target import Target

_TARGET_SECONDS = 1.5
"""Most seconds for the plan that a framework runs instead."""


def run_blocks(planned: PlanFile, *, first: Target | None = None, time_limit_s: float = 10.0) -> list[RunBlock]:
    """Return what to copy for each framework: `first`, then those that run the plan unchanged, then the others.

    A framework that runs nothing near it, or for which the time did not suffice, has none.
    """
    began = now_s()
    targets = sorted(all_targets().values(), key=lambda known: (known is not first, not known.can_run(planned.plan)))
    blocks: list[RunBlock] = []
    known: list[Plan] = []
    for target in targets:
        left_s = time_limit_s - (now_s() - began)
        if was_interrupted() or (left_s <= 0 and not target.can_run(planned.plan)):
            break
        if isinstance(planned.degrees, MissingDegrees) and target.write_degrees is not None:
            continue
        version = target.versions[-1]
        try:
            seconds = max(0.1, min(_TARGET_SECONDS, left_s))
            fitted_plan = fit_plan(planned, target, version, time_limit_s=seconds, quiet=True, known=known)
            known.append(fitted_plan.plan)
            blocks += _blocks(fitted_plan, planned, target, version)
        except InputError:  # it runs nothing of the kind
            continue
    return blocks


def _blocks(fitted_plan: FittedPlan, planned: PlanFile, target: Target, version: str) -> Iterator[RunBlock]:
    written = written_for(fitted_plan.plan, planned.degrees, target, version)
    note = joined([_loss(fitted_plan, target), *written.notes])
    title = f"{target.title} {version}"
    for piece in written.pieces:
        yield RunBlock(title=title, what=piece.title, text=shown_piece(piece).rstrip() + "\n", note=note)
    if written.environment:
        settings = "".join(f"export {name}={value}\n" for name, value in written.environment.items())
        yield RunBlock(title=title, what=_("environment variables"), text=settings, note=note)


def _loss(fitted_plan: FittedPlan, target: Target) -> str:
    """Return what the framework loses, as one sentence."""
    if fitted_plan.fitted is None or not fitted_plan.fitted.losses:
        return _("runs the plan as it is")
    losses = joined([loss.sentence for loss in fitted_plan.fitted.losses])
    if fitted_plan.is_over:
        return _("{losses}; over the memory limit", losses=losses)
    return losses
