"""Which order of work a plan runs in, and with how many processes. Imports no torch."""

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.schedule import Schedule, check_complete, make_schedule


def order_of(plan: Plan, schedule: Schedule | None = None) -> Schedule:
    """The order of a plan's family, or `schedule` when it has the plan's sizes.

    Raises:
        InputError: an order that cannot be run: of other sizes, incomplete, with split sequences, or without backwards.
    """
    if plan.sequence_splits != 1:
        raise InputError(
            value=plan.sequence_splits,
            rule="whole sequences can be run, and not yet their parts",
            place="plan, sequence_splits",
            remedy="plan with --sequence-splits 1",
        )
    sizes = {
        "num_ranks": plan.num_ranks,
        "num_chunks": plan.num_chunks,
        "num_microbatches": plan.num_microbatches,
    }
    if schedule is None:
        schedule = make_schedule(plan.schedule, **sizes)
    for name, value in (sizes | {"sequence_splits": 1}).items():
        if getattr(schedule, name) != value:
            raise InputError(value=getattr(schedule, name), rule=f"the plan has {value}", place=f"schedule, {name}")
    check_complete(schedule)
    if schedule.is_forward_only:
        raise InputError(value=schedule.name, rule="a schedule that trains has backwards", place="schedule")
    return schedule


def check_world(plan: Plan, num_processes: int) -> None:
    """Refuse a number of processes that is not the plan's number of ranks."""
    if num_processes != plan.num_ranks:
        raise InputError(
            value=num_processes,
            rule=f"one process a rank: the plan has {plan.num_ranks}",
            place="world size",
            remedy="start as many processes as the plan has ranks, or plan for this number of ranks",
        )
