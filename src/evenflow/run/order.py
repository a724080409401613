"""Which order of work a plan runs in, and with how many processes. Imports no torch."""

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.schedule import Schedule, check_complete, make_schedule


def order_of(plan: Plan) -> Schedule:
    """The order of a plan's family.

    Raises:
        InputError: an order that cannot be run: with split sequences, or without backwards.
    """
    if plan.sequence_splits != 1:
        raise InputError(
            value=plan.sequence_splits,
            rule="whole sequences can be run, and not yet their parts",
            place="plan, sequence_splits",
            remedy="plan with --sequence-splits 1",
        )
    schedule = make_schedule(
        plan.schedule,
        num_ranks=plan.num_ranks,
        num_chunks=plan.num_chunks,
        num_microbatches=plan.num_microbatches,
    )
    check_complete(schedule)
    if schedule.is_forward_only:
        raise InputError(value=plan.schedule, rule="a schedule that trains has backwards", place="plan, schedule")
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
