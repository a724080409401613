"""Insertion: the actions of a pattern, one after the other, each into the first gap of its rank that holds it.

A serial generation of schedules (Kolisch, European Journal of Operational Research 90, 1996) with memory: an action
goes before others only where the rank could hold its activation all the while. So the steady phase keeps the order of
the pattern, and the warm-up and the cool-down fill up.

The function runs as it is and is compiled by the solver, so it takes arrays and numbers only.
"""

from typing import Any

import numpy as np

from evenflow.schedule.action import FORWARD, INPUT_GRADIENT, NUM_OPS, WEIGHT_GRADIENT

STUCK = -1
"""Makespan of a pattern that needs an input before it is made, or more memory than there is."""


def insert(
    pattern: Any,
    stage_ranks: Any,
    durations: Any,
    messages: Any,
    activations: Any,
    waiting: Any,
    room: Any,
    gradient_units: Any,
    rank_starts: Any,
    codes: Any,
) -> Any:
    """Fill `codes` [3, num_actions] with the ops, stages and units of all ranks; returns the makespan, or `STUCK`.

    `pattern` [3, num_actions] has ops, stages and places in order (see `unrolled`); `durations`, and the times of
    `messages` that actions wait for, stand by ``NUM_OPS * stage + op``, and the bytes of `activations`, and of those
    `waiting` for weight gradients, by stage. A rank may hold `room` bytes.
    """
    num_stages, num_units, count = len(stage_ranks), len(gradient_units), pattern.shape[1]
    starts = np.zeros(count, dtype=np.int64)
    ends = np.zeros(count, dtype=np.int64)
    held = np.zeros(count, dtype=np.int64)
    heads = rank_starts[:-1].copy()
    passes = np.full((2, num_stages, num_units), -1, dtype=np.int64)  # ends of forwards and gradients
    kind_ends = np.zeros((NUM_OPS, num_stages), dtype=np.int64)
    makespan = 0
    for index in range(count):
        op, stage, place = pattern[0, index], pattern[1, index], pattern[2, index]
        rank, unit = stage_ranks[stage], place
        change = activations[stage]
        needed, travels = 0, False
        if op == FORWARD:
            if stage > 0:
                needed = passes[0, stage - 1, place]
                travels = stage_ranks[stage - 1] != rank
        else:
            unit = gradient_units[place]
            change = -waiting[stage]
            if op == WEIGHT_GRADIENT:
                needed = passes[1, stage, place]
            else:
                change = -activations[stage]
                if op == INPUT_GRADIENT:
                    change += waiting[stage]
                needed = passes[0, stage, unit]
                if stage + 1 < num_stages and needed >= 0:
                    needed = passes[1, stage + 1, place]
                    travels = stage_ranks[stage + 1] != rank
        first, head = rank_starts[rank], heads[rank]
        last_held = held[head - 1] if head > first else 0
        if needed < 0 or last_held + change > room[rank]:
            return STUCK
        ready = max(kind_ends[op, stage], needed + (messages[NUM_OPS * stage + op] if travels else 0))
        if op != FORWARD and op != WEIGHT_GRADIENT:
            ready = max(ready, passes[0, stage, unit])
        length = durations[NUM_OPS * stage + op]
        target, start = head, max(ready, ends[head - 1] if head > first else 0)
        for later in range(head - 1, first - 1, -1):
            if held[later] + change > room[rank] or starts[later] <= ready:  # what takes no time may have begun then
                break
            begin = max(ready, ends[later - 1] if later > first else 0)
            if begin + length <= starts[later] and (later == first or held[later - 1] + change <= room[rank]):
                target, start = later, begin
        for later in range(head, target, -1):
            starts[later], ends[later] = starts[later - 1], ends[later - 1]
            held[later] = held[later - 1] + change
            codes[0, later], codes[1, later], codes[2, later] = (
                codes[0, later - 1], codes[1, later - 1], codes[2, later - 1],
            )  # fmt: skip
        starts[target], ends[target] = start, start + length
        held[target] = (held[target - 1] if target > first else 0) + change
        codes[0, target], codes[1, target], codes[2, target] = op, stage, unit
        heads[rank] += 1
        kind_ends[op, stage] = start + length
        if op != WEIGHT_GRADIENT:
            passes[0 if op == FORWARD else 1, stage, place] = start + length
        makespan = max(makespan, start + length)
    return makespan
