"""The text form of a schedule, one comma-separated line a rank, and its inverse.

This is what torch.distributed.pipelining reads as a compute-only CSV; empty cells are idle slots and are skipped.
"""

from evenflow.errors import InputError
from evenflow.schedule.action import Action
from evenflow.schedule.schedule import Schedule


def format_schedule(schedule: Schedule) -> str:
    """One line a rank, like ``0F0,0F1,0B0,0B1``."""
    return "".join(
        ",".join(str(action) for action in schedule.order(rank)) + "\n" for rank in range(schedule.num_ranks)
    )


def parse_schedule(text: str, *, name: str, sequence_splits: int = 1, place: str = "schedule") -> Schedule:
    """The inverse of `format_schedule`; sizes follow from the actions. Does not validate the order."""
    orders = []
    for number, line in enumerate(text.splitlines(), start=1):
        tokens = [token for token in line.split(",") if token.strip()]
        orders.append([Action.parse(token, place=f"{place}, line {number}") for token in tokens])
    actions = [action for order in orders for action in order]
    if not actions:
        raise InputError(value=text[:40], rule="a schedule has at least one action", place=place)
    num_units = max(action.microbatch for action in actions) + 1
    return Schedule.from_actions(
        name=name,
        num_stages=max(action.stage for action in actions) + 1,
        num_microbatches=-(-num_units // sequence_splits),
        sequence_splits=sequence_splits,
        orders=orders,
    )
