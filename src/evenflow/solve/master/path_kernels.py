"""Longest paths through chosen actions: plain loops over arrays, compiled when used."""

from typing import Any

import numpy as np


def heads_and_tails(
    rank_predecessors: Any, dependencies: Any, classes: Any, durations: Any, messages: Any, heads: Any, tails: Any
) -> None:
    """Fill `heads` with longest paths to the end of each position, `tails` with those from there to the step's end."""
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

    `successors` [num_actions + 1, 3 or more] holds the next action of the rank, then the dependent ones; 0: none.
    """
    length = 0
    moved = True
    while moved:
        moved = False
        for kind in range(successors.shape[1]):
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


def count_paths(
    ranks: Any,
    rank_predecessors: Any,
    dependencies: Any,
    successors: Any,
    classes: Any,
    own_classes: Any,
    durations: Any,
    messages: Any,
    heads: Any,
    tails: Any,
    above: int,
    counts: Any,
    message_counts: Any,
    message_times: Any,
) -> int:
    """Count the actions on a longest path through each rank, if it is longer than `above`.

    A rank gets none if the action through which its path goes is on the path of a rank before it. Returns the number of
    paths; fills `counts` [num_ranks, num_classes] with their actions of each class, `message_counts` with those whose
    input the path waits for, by the class that they have by themselves (`own_classes`), and `message_times` [num_ranks]
    with the time of their messages. `ranks` [num_actions] has the rank of every position but the first.
    """
    tops = np.zeros(len(counts), dtype=np.int64)
    for index in range(len(classes)):
        through = heads[index + 1] + tails[index + 1]
        top = tops[ranks[index]]
        if through > above and (top == 0 or through > heads[top] + tails[top]):
            tops[ranks[index]] = index + 1
    covered = np.zeros(len(classes) + 1, dtype=np.bool_)
    num_paths = 0
    for top in tops:
        if top == 0 or covered[top]:
            continue
        counts[num_paths] = 0
        message_counts[num_paths] = 0
        message_times[num_paths] = 0
        position = top
        while position > 0:
            covered[position] = True
            counts[num_paths, classes[position - 1]] += 1
            ready = heads[dependencies[position - 1]] + messages[position - 1]
            if heads[rank_predecessors[position - 1]] >= ready:
                position = rank_predecessors[position - 1]
            else:
                message_times[num_paths] += messages[position - 1]
                message_counts[num_paths, own_classes[position - 1]] += 1
                position = dependencies[position - 1]
        position = top
        moved = True
        while moved:
            moved = False
            for kind in range(successors.shape[1]):
                after = successors[position, kind]
                if after == 0:
                    continue
                message = messages[after - 1] if kind > 0 else 0
                if tails[after] + durations[classes[after - 1]] + message == tails[position]:
                    covered[after] = True
                    counts[num_paths, classes[after - 1]] += 1
                    message_times[num_paths] += message
                    message_counts[num_paths, own_classes[after - 1]] += kind > 0
                    position = after
                    moved = True
                    break
        num_paths += 1
    return num_paths


VIA_RANK = 1
"""Mark of the edge into a position from the action before it on the rank."""
VIA_DEPENDENCY = 2
"""Mark of the edge into a position from its dependency."""


def mark(path: Any, length: int, rank_predecessors: Any, marks: Any) -> bool:
    """Mark the edges of `path`, last first, in `marks` [num_actions + 1]; returns whether any was new."""
    is_new = False
    for at in range(length):
        position = path[at]
        before = path[at + 1] if at + 1 < length else 0
        edge = VIA_RANK if rank_predecessors[position - 1] == before else VIA_DEPENDENCY
        if not marks[position] & edge:
            marks[position] |= edge
            is_new = True
    return is_new


def find_junctions(marks: Any, ends: Any, rank_predecessors: Any, dependencies: Any, junctions: Any) -> int:
    """Set `junctions` where marked edges part, meet or end; returns the number of chains of edges between them.

    `junctions` [num_actions + 1] first counts the edges that leave each position.
    """
    junctions[:] = 0
    for position in range(1, len(marks)):
        if marks[position] & VIA_RANK:
            junctions[rank_predecessors[position - 1]] += 1
        if marks[position] & VIA_DEPENDENCY:
            junctions[dependencies[position - 1]] += 1
    chains = 0
    for position in range(1, len(marks)):
        both = marks[position] == VIA_RANK | VIA_DEPENDENCY
        if marks[position] and (both or junctions[position] != 1 or ends[position]):
            junctions[position] = 1
            chains += 2 if both else 1
        else:
            junctions[position] = 0
    junctions[0] = 1
    return chains


def walk_chains(
    marks: Any,
    junctions: Any,
    rank_predecessors: Any,
    dependencies: Any,
    classes: Any,
    messages: Any,
    times: Any,
    ends: Any,
    own_messages: Any,
    starts: Any,
    kinds: Any,
    counts: Any,
) -> int:
    """Walk each chain from its target back to its source; returns the number of (duration class, count) pairs.

    `ends` [num_chains, 3] takes source, target and the mark of the target's edge, `own_messages` the messages of a
    chain, `starts` [num_chains + 1] where its pairs begin in `kinds` and `counts`. `times` [num_classes] is scratch.
    """
    chain, pairs = 0, 0
    for target in range(1, len(marks)):
        if not junctions[target]:
            continue
        for edge in (VIA_RANK, VIA_DEPENDENCY):
            if not marks[target] & edge:
                continue
            starts[chain] = pairs
            position, via, message = target, edge, 0
            while True:
                kind = classes[position - 1]
                if times[kind] == 0:
                    kinds[pairs] = kind
                    pairs += 1
                times[kind] += 1
                if via == VIA_DEPENDENCY:
                    message += messages[position - 1]
                    position = dependencies[position - 1]
                else:
                    position = rank_predecessors[position - 1]
                if junctions[position]:
                    break
                via = marks[position]
            for pair in range(starts[chain], pairs):
                counts[pair] = times[kinds[pair]]
                times[kinds[pair]] = 0
            ends[chain, 0], ends[chain, 1], ends[chain, 2] = position, target, edge
            own_messages[chain] = message
            chain += 1
    starts[chain] = pairs
    return pairs


def keep_chains(kept: Any, ends: Any, marks: Any, junctions: Any, rank_predecessors: Any, dependencies: Any) -> None:
    """Clear the marks of the chains that are not `kept`."""
    for chain in range(len(kept)):
        if kept[chain]:
            continue
        position, via = ends[chain, 1], ends[chain, 2]
        while True:
            marks[position] &= ~via
            position = rank_predecessors[position - 1] if via == VIA_RANK else dependencies[position - 1]
            if junctions[position]:
                break
            via = marks[position]
