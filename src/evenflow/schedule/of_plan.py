"""The schedule of a plan: its own order of work, or that of its family."""

from dataclasses import asdict

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.schedule.families import FAMILIES, make_schedule
from evenflow.schedule.schedule import Schedule
from evenflow.schedule.text import format_schedule, parse_schedule
from evenflow.schedule.validate import check_complete


def schedule_of(plan: Plan) -> Schedule:
    """Return the schedule that `plan` runs.

    Raises InputError for a family that does not have the plan's sizes and for an order of the plan's own that has other
    sizes, and ScheduleError for an order that is not complete.
    """
    if not plan.order:
        return make_schedule(plan.schedule, **asdict(plan.sizes), group_size=plan.group_size)
    schedule = parse_schedule(
        "\n".join(plan.order), name=plan.schedule, sequence_splits=plan.sequence_splits, place=_("order of the plan")
    )
    check_sizes_of(plan, schedule)
    check_complete(schedule)
    return schedule


def order_lines(schedule: Schedule) -> tuple[str, ...]:
    """Return the lines of the order that a plan must carry to run `schedule`; none where its name and groups say it."""
    if schedule.name in FAMILIES:
        named = make_schedule(schedule.name, **asdict(schedule.sizes), group_size=schedule.group_size)
        if schedule.same_order(named):
            return ()
    return tuple(format_schedule(schedule).splitlines())


def check_sizes_of(plan: Plan, schedule: Schedule) -> None:
    """Raise InputError unless `schedule` has the sizes of `plan`."""
    for name, wanted in asdict(plan.sizes).items():
        value = getattr(schedule, name)
        if value != wanted:
            raise InputError(
                value=value,
                rule=_("must be the {wanted} of the plan", wanted=wanted),
                place=_("schedule, {name}", name=name),
            )
