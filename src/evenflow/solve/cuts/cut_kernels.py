"""Walks along the network and shortest paths through their graph: plain loops over arrays, compiled when used."""

from typing import Any

import numpy as np


def walk(
    first: Any,
    second: Any,
    live: Any,
    room: int,
    loads: Any,
    states: Any,
    done_range: Any,
    works: Any,
    sources: Any,
    arcs: Any,
) -> int:
    """Take up the cells of one rank from every state in `states` [num_states, 2]; returns the number of arcs.

    They may be more than there is space for; then only the first of them are filled in. Fills `arcs` [capacity, 2] with
    an option of each chunk and `sources` [capacity] with the state.

    The options of the chunks, `first` and `second`, are `PlacedOptions`. Of those that are taken up at a place of the
    first chunk, both together take at most ``loads[place]``. A combination is kept when it fits in `room` for each row
    of `live` [num_rows, 4] (activations of both chunks, then what waits for their weight gradients), no cell could take
    its next faster option and still fit, which would be better, and the ranks up to here have then done as much as is
    in `done_range`: the sum of `works` [2, num_places] at both places.
    """
    num_arcs = 0
    for state in range(len(states)):
        place, place_beside = states[state]
        most = loads[place]
        for at in range(first.starts[place], first.starts[place + 1]):
            load = first.loads[at]
            if load > most:
                continue
            for beside in range(second.starts[place_beside], second.starts[place_beside + 1]):
                if load + second.loads[beside] > most:
                    continue
                ahead, behind = first.targets[at], second.targets[beside]
                done = works[0, ahead] + works[1, behind]
                if done < done_range[0] or done > done_range[1]:
                    continue
                static = first.parameters[at] + second.parameters[beside]
                highest = max(first.working[at], second.working[beside])
                faster_at, faster_beside = first.faster[at], second.faster[beside]
                may_at, may_beside = faster_at >= 0, faster_beside >= 0
                fits = True
                for row in range(len(live)):
                    needed = (
                        static
                        + live[row, 0] * first.activations[at]
                        + live[row, 1] * second.activations[beside]
                        + live[row, 2] * first.waiting[at]
                        + live[row, 3] * second.waiting[beside]
                    )
                    if needed + highest > room:
                        fits = False
                        break
                    if may_at:
                        more = live[row, 0] * (first.activations[faster_at] - first.activations[at])
                        above = max(first.working[faster_at], second.working[beside])
                        may_at = needed + more + above <= room
                    if may_beside:
                        more = live[row, 1] * (second.activations[faster_beside] - second.activations[beside])
                        above = max(first.working[at], second.working[faster_beside])
                        may_beside = needed + more + above <= room
                if not fits or may_at or may_beside:
                    continue
                if num_arcs < len(arcs):
                    sources[num_arcs] = state
                    arcs[num_arcs, 0], arcs[num_arcs, 1] = at, beside
                num_arcs += 1
    return num_arcs


def sweep(
    starts: Any,
    sources: Any,
    targets: Any,
    durations: Any,
    weights: Any,
    limit: float,
    behind: Any,
    before: Any,
    lengths: Any,
    alive: Any,
) -> None:
    """Find shortest paths from the first state to the last one; arcs of step s are ``durations @ weights[s]`` long.

    Fills `lengths` [num_arcs], `behind` [num_steps + 1, num_states] with the distances to the last state, and `alive`
    [num_arcs] with whether an arc is on a path of at most `limit`. `before` is scratch.
    """
    num_steps = len(starts) - 1
    before[:] = np.inf
    behind[:] = np.inf
    behind[num_steps, 0] = 0.0
    for step in range(num_steps - 1, -1, -1):
        for arc in range(starts[step], starts[step + 1]):
            length = 0.0
            for slot in range(durations.shape[1]):
                length += durations[arc, slot] * weights[step, slot]
            lengths[arc] = length
            whole = length + behind[step + 1, targets[arc]]
            if whole < behind[step, sources[arc]]:
                behind[step, sources[arc]] = whole
    before[0, 0] = 0.0
    for step in range(num_steps):
        for arc in range(starts[step], starts[step + 1]):
            reached = before[step, sources[arc]] + lengths[arc]
            alive[arc] = reached + behind[step + 1, targets[arc]] <= limit
            if alive[arc] and reached < before[step + 1, targets[arc]]:
                before[step + 1, targets[arc]] = reached


def follow(starts: Any, sources: Any, targets: Any, lengths: Any, behind: Any, path: Any) -> None:
    """Fill `path` [num_steps] with the arcs of a shortest path, after `sweep` has found one."""
    state = 0
    for step in range(len(path)):
        best = np.inf
        for arc in range(starts[step], starts[step + 1]):
            whole = lengths[arc] + behind[step + 1, targets[arc]]
            if sources[arc] == state and whole < best:
                best = whole
                path[step] = arc
        state = targets[path[step]]
