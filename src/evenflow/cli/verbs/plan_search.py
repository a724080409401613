"""``evenflow plan --schedule search``: its options."""

import click

from evenflow.cli.shared.options import FILE, SEARCH
from evenflow.errors import InputError

SPLIT_BACKWARD = click.option(
    "--split-backward",
    is_flag=True,
    help="With --schedule search: backwards may be split into input and weight gradients.",
)
ORDER = click.option(
    "--order",
    "order_file",
    type=FILE,
    metavar="FILE.csv",
    help="Write the order of work as the CSV that torch.distributed.pipelining reads.",
)


def is_search(schedule: str | None, *, less_memory: bool, split_backward: bool, applies: bool) -> bool:
    """Whether the order is to be searched for; refuses options that do not go with it, or only with it."""
    wanted = schedule is not None and schedule.lower() == SEARCH
    if split_backward and not wanted:
        raise InputError(
            value=schedule or "none",
            rule="only a search decides which backwards to split",
            place="--split-backward",
            remedy=f"add --schedule {SEARCH}",
        )
    if wanted and less_memory:
        raise InputError(
            value="--less-memory", rule="it names an order, and the search looks for one", place="--schedule search"
        )
    if wanted and applies:
        raise InputError(
            value="--apply",
            rule="MindFormers runs the orders it knows, not one that was searched for",
            place="--schedule search",
            remedy="leave one of the two out",
        )
    return wanted
