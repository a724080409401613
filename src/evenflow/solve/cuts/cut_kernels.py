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
    least: Any,
    most_done: Any,
    works: Any,
    sources: Any,
    arcs: Any,
) -> int:
    """Take up the cells of one rank from every state in `states` [num_states, 2]; returns the number of arcs.

    They may be more than there is space for; then only the first of them are filled in. Fills `arcs` [capacity, 2] with
    an option of each chunk and `sources` [capacity] with the state.

    The options of the chunks, `first` and `second`, are `PlacedOptions`. Of those that are taken up at a place of the
    first chunk, both together take at most ``loads[place]``; the loads of a place ascend. A combination is kept when it
    fits in `room` for each row of `live` [num_rows, 6] (activations of both chunks, then what waits for their weight
    gradients, then what the host keeps of them while it is on the device), no cell could take its next faster option
    and still fit, which would be better, and the sum of `works` [2, num_places] at both places behind is then from
    `least` to `most_done` [num_states].
    """
    num_arcs = 0
    num_rows = len(live)
    room_at = np.empty(num_rows, dtype=np.int64)
    held_beside = np.empty((len(second.loads), num_rows), dtype=np.int64)
    held_at_place = -1
    for state in range(len(states)):
        place, place_beside = states[state]
        if place_beside != held_at_place:
            held_at_place = place_beside
            for beside in range(second.starts[place_beside], second.starts[place_beside + 1]):
                for row in range(num_rows):
                    held_beside[beside, row] = (
                        second.parameters[beside]
                        + live[row, 1] * second.activations[beside]
                        + live[row, 3] * second.waiting[beside]
                        + live[row, 5] * second.moved[beside]
                    )
        most = loads[place]
        for at in range(first.starts[place], first.starts[place + 1]):
            load = first.loads[at]
            if load > most:
                break
            for row in range(num_rows):
                room_at[row] = (
                    room
                    - first.parameters[at]
                    - live[row, 0] * first.activations[at]
                    - live[row, 2] * first.waiting[at]
                    - live[row, 4] * first.moved[at]
                )
            for beside in range(second.starts[place_beside], second.starts[place_beside + 1]):
                if load + second.loads[beside] > most:
                    break
                highest = max(first.working[at], second.working[beside])
                fits = True
                for row in range(num_rows):
                    if held_beside[beside, row] + highest > room_at[row]:
                        fits = False
                        break
                if not fits:
                    continue
                ahead, behind = first.targets[at], second.targets[beside]
                done = works[0, ahead] + works[1, behind]
                if done < least[state] or done > most_done[state]:
                    continue
                faster_at, faster_beside = first.faster[at], second.faster[beside]
                may_at, may_beside = faster_at >= 0, faster_beside >= 0
                for row in range(num_rows):
                    free = room_at[row] - held_beside[beside, row]
                    if may_at:
                        more = live[row, 0] * (first.activations[faster_at] - first.activations[at])
                        more += live[row, 4] * (first.moved[faster_at] - first.moved[at])
                        may_at = more + max(first.working[faster_at], second.working[beside]) <= free
                    if may_beside:
                        more = live[row, 1] * (second.activations[faster_beside] - second.activations[beside])
                        more += live[row, 5] * (second.moved[faster_beside] - second.moved[beside])
                        may_beside = more + max(first.working[at], second.working[faster_beside]) <= free
                if may_at or may_beside:
                    continue
                if num_arcs < len(arcs):
                    sources[num_arcs] = state
                    arcs[num_arcs, 0], arcs[num_arcs, 1] = at, beside
                num_arcs += 1
    return num_arcs


def connect(
    starts: Any,
    sources: Any,
    targets: Any,
    done: Any,
    done_range: Any,
    offset: int,
    first: int,
    last: int,
    alive: Any,
) -> None:
    """Fill `alive` [num_arcs] with whether an arc is on a path from state `first` of the first step to `last`.

    At states on the way, `done` [num_steps + 1, num_states] less the `offset` is in `done_range` [num_steps + 1, 2].
    """
    num_steps = len(starts) - 1
    reached = np.zeros(done.shape, dtype=np.bool_)
    reached[0, first] = True
    for step in range(num_steps):
        least, most = done_range[step + 1, 0] + offset, done_range[step + 1, 1] + offset
        for arc in range(starts[step], starts[step + 1]):
            target = targets[arc]
            if reached[step, sources[arc]] and least <= done[step + 1, target] <= most:
                alive[arc] = True
                reached[step + 1, target] = True
    for state in range(done.shape[1]):
        reached[num_steps, state] = reached[num_steps, state] and state == last
    for step in range(num_steps - 1, -1, -1):
        for state in range(done.shape[1]):
            reached[step, state] = False
        for arc in range(starts[step], starts[step + 1]):
            alive[arc] = alive[arc] and reached[step + 1, targets[arc]]
            if alive[arc]:
                reached[step, sources[arc]] = True


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
