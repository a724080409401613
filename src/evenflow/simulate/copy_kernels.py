"""Loops over copies to the host and back: what leaves a rank and when, and the copies among the actions of all ranks.

They run as they are on small inputs and are compiled on large ones, and in the search for orders.
"""

from typing import Any

import numpy as np

from evenflow.schedule import FORWARD, FULL_BACKWARD, INPUT_GRADIENT

STAYS = -1
"""Beginning of the fetch of what does not leave."""


def find_away(
    ops: Any,
    stages: Any,
    units: Any,
    aheads: Any,
    behind: int,
    buffers: int,
    by_pass: Any,
    backwards: Any,
    lasts: Any,
    firsts: Any,
) -> None:
    """Fill arrays with when what forwards make is away, by the position of the forward in the order of one rank.

    `backwards` gets the position of its backward or input gradient, `lasts` that of the last action behind it during
    which what it made is still on the device, and `firsts` that of the first action ahead of the backward during which
    it is there again, or `STAYS`; entries of other actions mean nothing. `aheads` [num_stages], `behind` and `buffers`
    are those of the link (see `HostLink`), and `buffers` is below 0 where any number may be on the device at a time;
    `by_pass` [num_stages, num_units] is for the loop's own use.
    """
    size = len(ops)
    for index in range(size):
        if ops[index] == FULL_BACKWARD or ops[index] == INPUT_GRADIENT:
            by_pass[stages[index], units[index]] = index
    for index in range(size):
        if ops[index] == FORWARD:
            backward = by_pass[stages[index], units[index]]
            backwards[index], lasts[index], firsts[index] = backward, index + behind, backward - aheads[stages[index]]
            if firsts[index] <= lasts[index] + 1:
                firsts[index] = STAYS
    if buffers < 0:
        return
    # No more may be on the device at a time than there are buffers.
    changes = np.zeros(size + 1, dtype=np.int64)
    of_backward = np.full(size + 1, -1, dtype=np.int64)
    for index in range(size):
        if ops[index] == FORWARD:
            changes[index] += 1
            changes[backwards[index] + 1] -= 1
            if firsts[index] != STAYS:
                changes[lasts[index] + 1] -= 1
                changes[firsts[index]] += 1
                of_backward[backwards[index]] = index
    most_ahead = aheads.max()
    held = 0
    for place in range(size + 1):
        held += changes[place]
        over = held - buffers
        if over <= 0:
            continue
        for later in range(min(place + most_ahead, size), place, -1):  # the fetch that has most time left
            moved = of_backward[later]
            if over > 0 and moved >= 0 and firsts[moved] <= place:
                firsts[moved] = place + 1
                over -= 1
        for earlier in range(max(0, place - behind), place):
            if over > 0 and ops[earlier] == FORWARD and firsts[earlier] != STAYS:
                lasts[earlier] = min(lasts[earlier], place - 1)
                over -= 1


def insert_copies(
    base: Any,
    base_dependencies: Any,
    base_classes: Any,
    base_crosses: Any,
    action_ranks: Any,
    action_stages: Any,
    leaving: Any,
    returning: Any,
    gone: Any,
    gone_starts: Any,
    fetched: Any,
    fetched_starts: Any,
    one_engine: bool,
    first_class: int,
    num_stages: int,
    sequence: Any,
    rank_predecessors: Any,
    dependencies: Any,
    classes: Any,
    ranks: Any,
    crosses_ranks: Any,
    rank_lasts: Any,
) -> None:
    """Put copies and the waits for them between the actions of `base`, which are in topological order.

    `leaving` and `returning` [num_actions] have 1 + the number of the copy that an action asks for, or waits for. Those
    of `gone` from ``gone_starts[action]`` on have left before an action, and those of `fetched` begin to come back.
    """
    count, num_copies = len(base), len(gone)
    places = np.zeros(count + 1, dtype=np.int64)
    at_copies = np.zeros((2, num_copies + 1), dtype=np.int64)
    lasts = np.zeros((2, len(rank_lasts)), dtype=np.int64)
    stages = np.zeros(num_copies + 1, dtype=np.int64)
    inward = 0 if one_engine else 1
    placed = 0
    waits = 0
    for index in range(count):
        action = base[index]
        rank = action_ranks[action]
        gone_end, fetched_end = gone_starts[action + 1], fetched_starts[action + 1]
        num_gone, num_fetched = gone_end - gone_starts[action], fetched_end - fetched_starts[action]
        for step in range(num_gone + num_fetched + 3):
            copy = 1
            before = rank_lasts[rank]
            kind = first_class + num_stages
            if step < num_gone:  # the memory of what has left
                copy = gone[gone_starts[action] + step]
                node, dependency = count + 2 * num_copies + waits, at_copies[0, copy]
                waits += 1
            elif step < num_gone + num_fetched:
                copy = fetched[fetched_starts[action] + step - num_gone]
                node, dependency = count + num_copies + copy - 1, before
                before = lasts[inward, rank]
                kind = first_class + stages[copy]
            elif step == num_gone + num_fetched:
                copy = returning[action]
                node, dependency = count + 2 * num_copies + waits, at_copies[1, copy]
                waits += copy > 0
            elif step == num_gone + num_fetched + 1:
                node, dependency = action, places[base_dependencies[index]]
                kind = base_classes[index]
                crosses_ranks[placed] = base_crosses[index]
            else:
                copy = leaving[action]
                node, dependency = count + copy - 1, before
                before = lasts[0, rank]
                kind = first_class + action_stages[action]
                stages[copy] = action_stages[action]
            if copy == 0:
                continue
            sequence[placed], rank_predecessors[placed], dependencies[placed] = node, before, dependency
            classes[placed], ranks[placed] = kind, rank
            placed += 1
            if num_gone <= step < num_gone + num_fetched:
                lasts[inward, rank] = at_copies[1, copy] = placed
            elif step == num_gone + num_fetched + 2:
                lasts[0, rank] = at_copies[0, copy] = placed
            else:
                rank_lasts[rank] = placed
                if step == num_gone + num_fetched + 1:
                    places[index + 1] = placed
