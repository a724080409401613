"""A second, slow simulator over `Action` values, against which the fast one is held."""

from collections.abc import Callable

import numpy as np

from evenflow.schedule import Action, Op, Schedule
from evenflow.simulate import Timeline, build_graph, run
from tests.strategies import inputs_of, is_ready

Duration = Callable[[Action], int]
PairDuration = Callable[[Action, Action], int]


def equal_stages(schedule: Schedule, forward_ns: int, backward_ns: int, weight_ns: int = 0) -> Timeline:
    """The real simulator on stages that are all alike."""
    times = np.array([forward_ns, backward_ns, backward_ns - weight_ns, weight_ns], dtype=np.int64)
    return run(build_graph(schedule), np.tile(times, schedule.num_stages))


def orders_of(schedule: Schedule) -> list[list[Action]]:
    return [schedule.order(rank) for rank in range(schedule.num_ranks)]


def end_times(
    orders: list[list[Action]],
    num_stages: int,
    duration: Duration,
    *,
    message_ns: int = 0,
    pair_duration: PairDuration | None = None,
) -> dict[Action, int]:
    """When every action ends, both of a pair at its end; what can never start is missing.

    A pair takes as long as its two parts unless `pair_duration` says otherwise.
    """
    last_of = {}
    for order in orders:
        for place, action in enumerate(order):
            last_of[action] = order[place + 1] if action.is_paired else action
    rank_of = {action: rank for rank, order in enumerate(orders) for action in order}
    ends: dict[Action, int] = {}
    known = -1
    while known < len(ends):
        known = len(ends)
        for rank, order in enumerate(orders):
            free = 0
            for action in order:
                if action not in ends:
                    together = dict.fromkeys((action, last_of[action]))
                    if not all(is_ready(each, num_stages, ends) for each in together):
                        break
                    ready = [
                        ends[needed] + (message_ns if rank_of[needed] != rank else 0)
                        for each in together
                        for needed in inputs_of(each, num_stages)
                        if needed in ends
                    ]
                    taken = sum(map(duration, together))
                    if len(together) > 1 and pair_duration is not None:
                        taken = pair_duration(*together)
                    ends |= dict.fromkeys(together, max(free, *ready, 0) + taken)
                free = ends[action]
    return ends


def live_peak(
    order: list[Action], amount: Callable[[int], int], waiting: Callable[[int], int] = lambda stage: 0
) -> int:
    """The most that one rank holds when stage s keeps ``amount(s)`` from each forward to the end of its (input)
    gradient, and then ``waiting(s)`` to the end of a split-off weight gradient. Without backwards nothing is kept.
    """
    if all(action.op == Op.F for action in order):
        return max((amount(action.stage) for action in order), default=0)
    held: dict[tuple[int, int], int] = {}
    peak = 0
    for action in order:
        key = (action.stage, action.microbatch)
        if action.op == Op.F:
            held[key] = amount(action.stage)
        elif action.op == Op.I:
            held[key] = waiting(action.stage)
        else:
            del held[key]
        peak = max(peak, sum(held.values()))
    return peak
