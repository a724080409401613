"""An order of work as the CSV file that torch.distributed.pipelining loads."""

from functools import cache

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan, looped, v_shaped
from evenflow.schedule import FAMILIES, Op, Schedule, format_schedule, make_schedule, schedule_of
from evenflow.targets.target import Piece

FILE_NAME = "order.csv"
"""The usual name of the file."""


@cache
def whole_backward_families() -> tuple[str, ...]:
    """Return the families whose backwards are whole and alone, so that PyTorch's runtime takes the planned time.

    It loads the orders of all others as well: see `runtime_notes`.
    """
    return tuple(
        name
        for name, family in FAMILIES.items()
        if not family.has_pairs
        and not make_schedule(
            name, num_ranks=2, num_chunks=family.num_chunks or family.fewest_chunks, num_microbatches=4
        ).splits_backward
    )


def csv_order(plan: Plan) -> Schedule:
    """Return the order of `plan` if torch's runtime can load it and train in it.

    Raises:
        InputError: an order that has no backwards, or whose last stage takes microbatches out of turn.
    """
    schedule = schedule_of(plan)
    if schedule.is_forward_only:
        raise InputError(value=schedule.name, rule=_("must have backwards, since it trains"), place="schedule")
    last = schedule.num_stages - 1
    forwards = schedule.units[(schedule.stages == last) & (schedule.ops == Op.F)].tolist()
    if forwards != sorted(forwards):
        # The runtime keeps the losses in a list in the order of these forwards and takes them by microbatch.
        raise InputError(
            value=forwards,
            rule=_("must have the forwards of the last stage in the order of the microbatches"),
            place=_("order of the plan"),
            remedy=_("plan with a schedule family"),
        )
    return schedule


def is_v_shaped(schedule: Schedule, *, title: str) -> bool:
    """Return whether the stages lie on a V, and not in a loop; raises InputError where they do neither.

    Frameworks place stages in one of these two ways; `title` is the framework's name for people.
    """
    if schedule.stage_ranks == looped(num_ranks=schedule.num_ranks, num_chunks=schedule.num_chunks):
        return False
    if schedule.stage_ranks != v_shaped(num_ranks=schedule.num_ranks):
        raise InputError(
            value=list(schedule.stage_ranks),
            rule=_("must have its stages in a loop or on a V for {title}", title=title),
            place=_("order of the plan"),
        )
    return True


def order_piece(schedule: Schedule) -> Piece:
    """Return the file with the order, one line for each rank."""
    return Piece(
        title=_("order of work, one line for each rank"),
        syntax="csv",
        text=format_schedule(schedule),
        file_name=FILE_NAME,
    )


def runtime_notes(schedule: Schedule) -> tuple[str, ...]:
    """Return what a user must know where `schedule` splits backwards or runs forwards beside them; mostly nothing."""
    notes = []
    if schedule.has_pairs:
        notes.append(
            _(
                "the runtime runs both parts of an OVERLAP_F_B one after the other, which takes longer and holds "
                "more than planned, unless your code registers a function of its own for it"
            )
        )
    if not schedule.splits_backward:
        return tuple(notes)
    notes.append(
        _(
            "the plan splits backwards, and PyTorch splits them in a way of its own: the first stage leaves its whole "
            "backward for the weight gradient, and a recomputed layer is computed again for each group of parameters, "
            "so these actions take other times than planned"
        )
    )
    return tuple(notes)
