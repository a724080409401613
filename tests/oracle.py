"""A second, slow simulator over `Action` values: what the fast one is held against."""

from collections.abc import Callable

from evenflow.schedule import Action, Op, Schedule
from strategies import input_of

Duration = Callable[[Action], int]


def orders_of(schedule: Schedule) -> list[list[Action]]:
    return [schedule.order(rank) for rank in range(schedule.num_ranks)]


def end_times(
    orders: list[list[Action]], num_stages: int, duration: Duration, *, message_ns: int = 0
) -> dict[Action, int]:
    """When every action ends; what can never start is missing."""
    num_ranks = len(orders)
    ends: dict[Action, int] = {}
    known = -1
    while known < len(ends):
        known = len(ends)
        for rank, order in enumerate(orders):
            free = 0
            for action in order:
                if action not in ends:
                    needed = input_of(action, num_stages)
                    if needed is not None and needed not in ends:
                        break
                    ready = 0
                    if needed is not None:
                        ready = ends[needed] + (message_ns if needed.stage % num_ranks != rank else 0)
                    ends[action] = max(free, ready) + duration(action)
                free = ends[action]
    return ends


def live_peak(order: list[Action], amount: Callable[[int], int]) -> int:
    """The most that one rank holds when stage s keeps ``amount(s)`` from each forward to the end of its backward."""
    held = peak = 0
    for action in order:
        held += amount(action.stage) if action.op == Op.F else -amount(action.stage)
        peak = max(peak, held)
    return peak
