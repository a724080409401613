"""What is wrong with an order of work, explained: where it stands, and which actions wait for which."""

import re

from evenflow.errors import ScheduleError
from evenflow.schedule import Schedule
from evenflow.schedule.waiting_circle import waiting_circle

_AROUND = 4


def explained(error: ScheduleError, schedule: Schedule, *, place: str) -> ScheduleError:
    """The same fault, with the place in the file, a grid that marks it and, for a deadlock, the circle of waits."""
    if error.grid:  # made by the graph: complete, but stuck
        circle = "\n".join(f"  {wait}" for wait in waiting_circle(schedule))
        grid = f"{error.grid}\nthe circle:\n{circle}"
    else:
        grid = _marked(schedule, str(error.value))
    return ScheduleError(value=error.value, rule=error.rule, place=place, remedy=error.remedy, grid=grid)


def _marked(schedule: Schedule, value: str) -> str:
    """Every rank's order around the action that `value` begins with, marked ``->``; empty where it is not there."""
    match = re.match(r"\d+[A-Z]+\d+", value)
    if match is None:
        return ""
    lines = []
    for rank in range(schedule.num_ranks):
        order = [str(action) for action in schedule.order(rank)]
        at = [index for index, token in enumerate(order) if token == match[0]]
        if at:
            first, last = max(0, at[0] - _AROUND), at[-1] + 1 + _AROUND
            shown = [
                f"->{order[index]}" if index in at else order[index] for index in range(first, min(last, len(order)))
            ]
            lines.append(f"rank {rank}: {'… ' if first else ''}{' '.join(shown)}{' …' if last < len(order) else ''}")
    return "\n".join(lines)
