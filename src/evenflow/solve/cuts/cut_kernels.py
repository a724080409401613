"""Shortest paths through the graph of cuts: plain loops over arrays, compiled when used."""

from typing import Any

import numpy as np


def sweep(
    starts: Any,
    sources: Any,
    targets: Any,
    durations: Any,
    weights: Any,
    first: int,
    last: int,
    limit: float,
    behind: Any,
    before: Any,
    lengths: Any,
    alive: Any,
) -> None:
    """Find shortest paths from state `first` to state `last`; arcs of step s are ``durations @ weights[s]`` long.

    Fills `lengths` [num_arcs], `behind` [num_steps + 1, num_states] with the distances to `last`, and `alive`
    [num_arcs] with whether an arc is on a path of at most `limit`. `before` is scratch.
    """
    num_steps = len(starts) - 1
    before[:] = np.inf
    behind[:] = np.inf
    behind[num_steps, last] = 0.0
    for step in range(num_steps - 1, -1, -1):
        for arc in range(starts[step], starts[step + 1]):
            length = 0.0
            for slot in range(durations.shape[1]):
                length += durations[arc, slot] * weights[step, slot]
            lengths[arc] = length
            whole = length + behind[step + 1, targets[arc]]
            if whole < behind[step, sources[arc]]:
                behind[step, sources[arc]] = whole
    before[0, first] = 0.0
    for step in range(num_steps):
        for arc in range(starts[step], starts[step + 1]):
            reached = before[step, sources[arc]] + lengths[arc]
            alive[arc] = reached + behind[step + 1, targets[arc]] <= limit
            if alive[arc] and reached < before[step + 1, targets[arc]]:
                before[step + 1, targets[arc]] = reached


def follow(starts: Any, sources: Any, targets: Any, lengths: Any, behind: Any, first: int, path: Any) -> None:
    """Fill `path` [num_steps] with the arcs of a shortest path from `first`, after `sweep` has found one."""
    state = first
    for step in range(len(path)):
        best = np.inf
        for arc in range(starts[step], starts[step + 1]):
            whole = lengths[arc] + behind[step + 1, targets[arc]]
            if sources[arc] == state and whole < best:
                best = whole
                path[step] = arc
        state = targets[path[step]]
