"""Why degrees cannot be written for a framework."""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.plan_degrees import PlannedDegrees


def check_no_capacity(planned: PlannedDegrees, *, title: str) -> None:
    """Raise InputError where experts have a capacity, which the framework does not know."""
    if planned.expert_capacity is not None:
        raise InputError(
            value=planned.expert_capacity,
            rule=_("must be no capacity of experts: {title} drops no token", title=title),
            place=_("the plan"),
            remedy=_("plan again without --expert-capacity, or run the plan with evenflow run"),
        )
