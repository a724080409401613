"""Whether a plan's order of work can be run, and with how many processes. Imports no torch."""

from evenflow.cluster.mesh_plan import MeshPlan
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.schedule import Schedule, check_complete, schedule_of
from evenflow.schedule.of_plan import check_sizes_of


def runnable_order(plan: Plan, schedule: Schedule | None = None) -> Schedule:
    """Return the order of work of `plan`, or `schedule` in its place, if the runtime can execute it.

    Raises:
        InputError: an order of other sizes than the plan's, incomplete, with split sequences, or without backwards.
    """
    if plan.sequence_splits != 1:
        raise InputError(
            value=plan.sequence_splits,
            rule="must be 1: whole sequences can be run, their parts not yet",
            place="plan, sequence_splits",
            remedy="plan with --sequence-splits 1",
        )
    if schedule is None:
        schedule = schedule_of(plan)
    else:
        check_sizes_of(plan, schedule)
        check_complete(schedule)
    if schedule.is_forward_only:
        raise InputError(value=schedule.name, rule="must have backwards, since it trains", place="schedule")
    return schedule


def check_world(plan: Plan, num_processes: int, mesh_plan: MeshPlan | None = None) -> None:
    """Raise InputError unless there is one process per rank, or per device where stages have several.

    The stages of a `mesh_plan` must lie on the ranks of `plan`.
    """
    needed = plan.num_ranks if mesh_plan is None else mesh_plan.cluster.num_devices
    if num_processes != needed:
        raise InputError(
            value=num_processes,
            rule=f"must be {needed}, one process per {'rank' if mesh_plan is None else 'device'}",
            place="world size",
            remedy=f"start {needed} processes, or make a plan for this number",
        )
    if mesh_plan is not None and mesh_plan.num_ranks != plan.num_ranks:
        raise InputError(
            value=mesh_plan.num_ranks, rule=f"must lie on the plan's {plan.num_ranks} ranks", place="plan, stages"
        )
