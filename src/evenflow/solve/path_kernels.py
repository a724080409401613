"""Longest paths through chosen actions: plain loops over arrays, compiled when used."""

from typing import Any


def heads_and_tails(
    rank_predecessors: Any, dependencies: Any, classes: Any, durations: Any, messages: Any, heads: Any, tails: Any
) -> None:
    """Longest path up to the end of each position (`heads`) and from there to the end of the step (`tails`)."""
    for index in range(len(classes)):
        ready = heads[dependencies[index]] + messages[index]
        free = heads[rank_predecessors[index]]
        heads[index + 1] = (ready if ready > free else free) + durations[classes[index]]
    tails[:] = 0
    for index in range(len(classes) - 1, -1, -1):
        through = tails[index + 1] + durations[classes[index]]
        if tails[dependencies[index]] < through + messages[index]:
            tails[dependencies[index]] = through + messages[index]
        if tails[rank_predecessors[index]] < through:
            tails[rank_predecessors[index]] = through


def path_to(position: int, rank_predecessors: Any, dependencies: Any, messages: Any, heads: Any, path: Any) -> int:
    """Fill `path` with a longest path to `position`, last first; returns its length."""
    length = 0
    while position > 0:
        path[length] = position
        length += 1
        ready = heads[dependencies[position - 1]] + messages[position - 1]
        free = heads[rank_predecessors[position - 1]]
        position = rank_predecessors[position - 1] if free >= ready else dependencies[position - 1]
    return length


def path_from(
    position: int, successors: Any, classes: Any, durations: Any, messages: Any, tails: Any, path: Any
) -> int:
    """Fill `path` with a longest path behind `position`; returns its length.

    `successors` [num_actions + 1, 3] holds the next action of the rank, then the (up to two) dependent ones; 0: none.
    """
    length = 0
    moved = True
    while moved:
        moved = False
        for kind in range(3):
            after = successors[position, kind]
            if after == 0:
                continue
            message = messages[after - 1] if kind > 0 else 0
            if tails[after] + durations[classes[after - 1]] + message == tails[position]:
                path[length] = after
                length += 1
                position = after
                moved = True
                break
    return length
