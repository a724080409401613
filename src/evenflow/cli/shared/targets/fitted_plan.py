"""A plan file as a framework will really run it, and whether it may be written so."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evenflow.cli.shared.files.input_files import read_network, read_text
from evenflow.cli.shared.options import memory_limit
from evenflow.cli.shared.progress import shown_progress
from evenflow.cli.shared.targets.target_options import FittingOptions
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.plan_file import PlanFile, parse_plan_file
from evenflow.targets.fitting import Fitted, fitted
from evenflow.targets.refusal import refusal
from evenflow.targets.target import Target


@dataclass(frozen=True, kw_only=True)
class FittedPlan:
    """A plan as it is written for a framework, with what that loses."""

    original: Plan
    """The plan of the file."""
    plan: Plan
    """The plan that is written."""
    fitted: Fitted | None
    """The plan with its simulation and losses; None where the model is not known, and then nothing is lost."""
    memory_limit_bytes: int | None

    @property
    def is_over(self) -> bool:
        """Whether a rank holds more than the limit."""
        return self.fitted is not None and not self.fitted.simulation.fits(self.memory_limit_bytes)


def read_planned(plan_file: str, fitting: FittingOptions) -> PlanFile:
    """Return the plan file, with the model of ``--layers`` and the limit of ``--memory`` where these are given."""
    limit = memory_limit(fitting.memory)
    text, place = read_text(plan_file)
    planned = parse_plan_file(text, place=place)
    if fitting.layer_file is not None:
        planned = replace(planned, network=read_network(fitting.layer_file))
    if fitting.memory is not None:
        planned = replace(planned, memory_limit_bytes=limit)
    if planned.network is not None and not planned.network.has_memory:
        planned = replace(planned, memory_limit_bytes=None)
    return planned


def fit_plan(
    planned: PlanFile,
    target: Target,
    version: str,
    *,
    time_limit_s: float,
    allow_empty: bool = True,
    quiet: bool = False,
    known: Sequence[Plan] = (),
) -> FittedPlan:
    """Return the plan as `version` of the target runs it; `known` are other plans of the same step.

    Raises:
        InputError: the target runs nothing of the kind; or it cannot run the plan, and the model is not known.
    """
    abilities, limit = target.abilities(version), planned.memory_limit_bytes
    if planned.degrees is not None and planned.plan.num_ranks == 1 and target.write_degrees is not None:
        abilities = replace(abilities, sizes=())  # rules for pipelines, which this is not
    if planned.network is None:
        refused = refusal(planned.plan, abilities, title=target.title)
        if refused is not None:
            raise InputError(
                value=refused.value,
                rule=refused.rule,
                place=refused.place,
                remedy=_("name the model with --layers, for the nearest plan that {title} runs", title=target.title),
            )
        return FittedPlan(original=planned.plan, plan=planned.plan, fitted=None, memory_limit_bytes=limit)
    with shown_progress(time_limit_s=time_limit_s, quiet=quiet) as progress:
        nearest = fitted(
            planned.plan,
            planned.network,
            planned.communication,
            limit,
            abilities,
            target.title,
            allow_empty=allow_empty,
            time_limit_s=time_limit_s,
            progress=progress,
            known=known,
        )
    return FittedPlan(original=planned.plan, plan=nearest.plan, fitted=nearest, memory_limit_bytes=limit)
