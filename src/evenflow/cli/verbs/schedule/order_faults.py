"""Faults of an order of work, explained: where they stand, and which actions wait for which."""

import re

from evenflow.errors import ScheduleError
from evenflow.language import _
from evenflow.schedule import Schedule
from evenflow.schedule.waiting_circle import waiting_circle

_AROUND = 4
"""Number of actions shown on both sides of a fault."""
_MOST_FAULTS = 3


def explained(error: ScheduleError, schedule: Schedule, *, place: str) -> ScheduleError:
    """Return the fault with its place in the file, a grid that marks it and, for a deadlock, the circle of waits."""
    if error.grid:  # made by the graph: complete, but stuck
        circle = "\n".join(f"  {wait}" for wait in waiting_circle(schedule))
        grid = "\n".join((error.grid, _("the circle:"), circle))
    else:
        grid = _marked(schedule, str(error.value))
    return ScheduleError(value=error.value, rule=error.rule, place=place, remedy=error.remedy, grid=grid)


def _marked(schedule: Schedule, value: str) -> str:
    """Return every rank's order around the action that `value` begins with, marked ``->``; else nothing."""
    match = re.match(r"\d+[A-Z]+\d+", value)
    if match is None:
        return ""
    lines = []
    for rank in range(schedule.num_ranks):
        order = [str(action) for action in schedule.order(rank)]
        faults = [index for index, token in enumerate(order) if token == match[0]]
        if faults:
            lines.append(_("rank {rank}: {around}", rank=rank, around=_around(order, faults[:_MOST_FAULTS])))
    return "\n".join(lines)


def _around(order: list[str], faults: list[int]) -> str:
    """Return the parts of an order around its faults."""
    shown = sorted({index for fault in faults for index in range(fault - _AROUND, fault + _AROUND + 1)})
    tokens = []
    before = -1
    for index in shown:
        if not 0 <= index < len(order):
            continue
        if index > before + 1:
            tokens.append("…")
        tokens.append(f"->{order[index]}" if index in faults else order[index])
        before = index
    return " ".join(tokens if before == len(order) - 1 else [*tokens, "…"])
