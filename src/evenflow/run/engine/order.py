"""Which order of work a plan runs in, and with how many processes. Imports no torch."""

from evenflow.cluster.mesh_plan import MeshPlan
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


def check_world(plan: Plan, num_processes: int, mesh_plan: MeshPlan | None = None) -> None:
    """Refuse a number of processes that is not the plan's number of ranks, or of devices where stages have several.

    And stages on devices that are not those of the plan's ranks.
    """
    needed = plan.num_ranks if mesh_plan is None else mesh_plan.cluster.num_devices
    if num_processes != needed:
        raise InputError(
            value=num_processes,
            rule=f"one process a {'rank' if mesh_plan is None else 'device'}: the plan has {needed}",
            place="world size",
            remedy=f"start {needed} processes, or make a plan for this number",
        )
    if mesh_plan is not None and mesh_plan.num_ranks != plan.num_ranks:
        raise InputError(
            value=mesh_plan.num_ranks, rule=f"the stages lie on the plan's {plan.num_ranks} ranks", place="plan, stages"
        )
