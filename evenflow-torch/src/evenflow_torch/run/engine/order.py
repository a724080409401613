"""The order of work of a plan: whether it can be run, and with how many processes. Imports no torch."""

from collections.abc import Mapping, Sequence

from evenflow.cluster import MeshPlan
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import HostLink, Plan
from evenflow.schedule import Op, Schedule, schedule_of


def runnable_order(plan: Plan) -> Schedule:
    """Return the order of work of `plan` if the runtime can execute it.

    Raises:
        InputError: an order that is incomplete, has split sequences, or has no backwards.
    """
    if plan.sequence_splits != 1:
        raise InputError(
            value=plan.sequence_splits,
            rule=_("must be 1: whole sequences can be run, their parts not yet"),
            place=_("plan, sequence_splits"),
            remedy=_("plan with --sequence-splits 1"),
        )
    schedule = schedule_of(plan).in_turn()
    if schedule.is_forward_only:
        raise InputError(value=schedule.name, rule=_("must have backwards, since it trains"), place="schedule")
    return schedule


def check_keepers(host_link: HostLink | None) -> None:
    """Raise InputError for activations that wait in the memory of another rank: they move to the host alone here."""
    if host_link is not None and host_link.keepers_text:
        raise InputError(
            value=host_link.keepers_text,
            rule=_("must be empty: evenflow run moves activations to the host, not to other ranks"),
            place=_("plan, keepers"),
            remedy=_("plan without --offload-to"),
        )


def check_world(
    plan: Plan,
    num_processes: int,
    mesh_plan: MeshPlan | None = None,
    *,
    num_replicas: int = 1,
    place: str | None = None,
) -> None:
    """Raise InputError unless there is one process per rank of each replica, or per device where stages have several.

    The stages of a `mesh_plan` must lie on the ranks of `plan`. `place` names what has these processes.
    """
    needed = num_replicas * (plan.num_ranks if mesh_plan is None else mesh_plan.cluster.num_devices)
    if num_processes != needed:
        raise InputError(
            value=num_processes,
            rule=_("must be {needed}, one process per device", needed=needed)
            if mesh_plan is not None
            else _("must be {needed}, one process per rank", needed=needed)
            if num_replicas == 1
            else _("must be {needed}, one process per rank of each replica", needed=needed),
            place=_("world size") if place is None else place,
            remedy=_("start {needed} processes, or make a plan for this number", needed=needed)
            if place is None
            else _("make the mesh, or a plan, for this number"),
        )
    if mesh_plan is not None and mesh_plan.num_ranks != plan.num_ranks:
        raise InputError(
            value=mesh_plan.num_ranks,
            rule=_("must lie on the plan's {num_ranks} ranks", num_ranks=plan.num_ranks),
            place=_("plan, stages"),
        )


def answered_backwards(schedule: Schedule, stage: int) -> Mapping[int, Sequence[int]]:
    """Return, for each forward that `stage` receives, the backwards whose gradients it knows to have arrived by then.

    These are the backwards that the stage before has done since its last forward, by the order of its rank.

    >>> from evenflow.schedule import make_schedule
    >>> answered_backwards(make_schedule("1f1b", num_ranks=2, num_chunks=1, num_microbatches=4), 1)
    {0: [], 1: [], 2: [0], 3: [1]}
    """
    answered: dict[int, list[int]] = {}
    done: list[int] = []
    if stage > 0:
        for action in schedule.order(schedule.stage_ranks[stage - 1]):
            if action.stage == stage - 1 and action.op == Op.F:
                answered[action.microbatch] = done
                done = []
            elif action.stage == stage - 1 and action.op in (Op.B, Op.I):
                done.append(action.microbatch)
    return answered
