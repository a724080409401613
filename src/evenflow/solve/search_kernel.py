"""Simulated annealing over cells and recompute counts, on the exact makespan and the exact memory.

Importing this module imports the compiler; only `search` does, when it starts.
"""

from typing import Any

import numba
import numpy as np

from evenflow.simulate.compiled import compiled
from evenflow.simulate.kernels import longest_path, longest_path_with_messages

_longest_path = compiled(longest_path)
_longest_path_with_messages = compiled(longest_path_with_messages)


@numba.njit(cache=True, nogil=True)
def cost_cells(
    first: int,
    last: int,
    counts: Any,
    starts: Any,
    sums_forward: Any,
    sums_parameters: Any,
    sums_backward: Any,
    sums_activation: Any,
    fixed: Any,
    costs: Any,
) -> None:
    """Recompute `costs` [4, num_cells] (forward, backward, activation, parameters) of the cells first…last.

    `fixed` [4, num_cells] is what head and tail add.
    """
    num_kinds = counts.shape[1]
    for cell in range(first, last + 1):
        begin = starts[cell]
        backward = fixed[1, cell]
        activation = fixed[2, cell]
        end = begin
        for kind in range(num_kinds):
            count = counts[cell, kind]
            if count > 0:
                stop = end + count
                backward += sums_backward[kind, stop] - sums_backward[kind, end]
                activation += sums_activation[kind, stop] - sums_activation[kind, end]
                end = stop
        costs[0, cell] = fixed[0, cell] + sums_forward[end] - sums_forward[begin]
        costs[1, cell] = backward
        costs[2, cell] = activation
        costs[3, cell] = fixed[3, cell] + sums_parameters[end] - sums_parameters[begin]


@numba.njit(cache=True, nogil=True)
def rank_memory(rank: int, costs: Any, live: Any, live_starts: Any, num_ranks: int) -> int:
    """Peak memory of a rank beside the constant."""
    num_chunks = live.shape[1]
    highest = 0
    for row in range(live_starts[rank], live_starts[rank + 1]):
        total = 0
        for chunk in range(num_chunks):
            total += live[row, chunk] * costs[2, chunk * num_ranks + rank]
        if total > highest:
            highest = total
    for chunk in range(num_chunks):
        highest += costs[3, chunk * num_ranks + rank]
    return highest


@numba.njit(cache=True, nogil=True)
def _may_hold(cell: int, kind: int, counts: Any, exclusive: Any) -> bool:
    """Whether the rule on kinds that may not share a cell lets `cell` take a layer of `kind`."""
    if kind == exclusive[0]:
        return bool(counts[cell, exclusive[1]] == 0)
    if kind == exclusive[1]:
        return bool(counts[cell, exclusive[0]] == 0)
    return True


@numba.njit(cache=True, nogil=True)
def _change_kind(cell: int, source: int, target: int, counts: Any, exclusive: Any) -> bool:
    """Give one layer of `cell` another kind if it has one and the rule allows it."""
    if source == target or counts[cell, source] == 0:
        return False
    counts[cell, source] -= 1
    if not _may_hold(cell, target, counts, exclusive):
        counts[cell, source] += 1
        return False
    counts[cell, target] += 1
    return True


@numba.njit(cache=True, nogil=True)
def anneal(
    seed: int,
    steps: int,
    hot: float,
    cold: float,
    counts: Any,
    best_counts: Any,
    best: int,
    num_ranks: int,
    num_units: int,
    min_layers: int,
    uniform: bool,
    exclusive: Any,
    sums_forward: Any,
    sums_parameters: Any,
    sums_backward: Any,
    sums_activation: Any,
    fixed: Any,
    live: Any,
    live_starts: Any,
    room: Any,
    rank_predecessors: Any,
    dependencies: Any,
    classes: Any,
    rank_lasts: Any,
    messages: Any,
    ends: Any,
) -> int:
    """Anneal from `counts` [num_cells, num_kinds], which must fit; returns the best makespan seen, at most `best`.

    `hot` and `cold` are temperatures in ns. `room` [num_ranks] is the memory beside the constant. `best_counts` is
    overwritten whenever a shorter step is found; `counts` ends as the last state. A candidate whose rank load alone
    exceeds what would be accepted is never evaluated.
    """
    np.random.seed(seed)
    num_cells, num_kinds = counts.shape
    num_chunks = num_cells // num_ranks
    starts = np.zeros(num_cells, dtype=np.int64)
    for cell in range(1, num_cells):
        starts[cell] = starts[cell - 1] + counts[cell - 1].sum()
    candidate_starts = starts.copy()
    costs = np.zeros((4, num_cells), dtype=np.int64)
    cost_cells(
        0, num_cells - 1, counts, starts, sums_forward, sums_parameters, sums_backward, sums_activation, fixed, costs
    )
    candidate = counts.copy()
    candidate_costs = costs.copy()
    durations = np.zeros(2 * num_cells, dtype=np.int64)
    energy = np.inf
    cooling = (cold / hot) ** (1.0 / max(1, steps))
    temperature = hot
    for step in range(-1, steps):
        temperature *= cooling
        first, last = 0, num_cells - 1
        if step >= 0:
            # 1. propose: move a layer between cells, or change a layer's kind
            if np.random.random() < 0.5 and num_cells > 1:
                giver = np.random.randint(num_cells)
                taker = np.random.randint(num_cells)
                if not uniform and np.random.random() < 0.8:
                    taker = giver + (1 if np.random.random() < 0.5 else -1)
                if taker < 0 or taker >= num_cells or taker == giver:
                    continue
                if counts[giver].sum() <= min_layers:
                    continue
                kind = np.random.randint(num_kinds)
                if counts[giver, kind] == 0:
                    continue
                candidate[giver, kind] -= 1
                target = kind if np.random.random() < 0.5 else np.random.randint(num_kinds)
                if not _may_hold(taker, target, candidate, exclusive):
                    candidate[giver, kind] += 1
                    continue
                candidate[taker, target] += 1
                first, last = min(giver, taker), max(giver, taker)
                for cell in range(first, last):
                    candidate_starts[cell + 1] = candidate_starts[cell] + candidate[cell].sum()
                if uniform:
                    cost_cells(
                        giver,
                        giver,
                        candidate,
                        candidate_starts,
                        sums_forward,
                        sums_parameters,
                        sums_backward,
                        sums_activation,
                        fixed,
                        candidate_costs,
                    )
                    cost_cells(
                        taker,
                        taker,
                        candidate,
                        candidate_starts,
                        sums_forward,
                        sums_parameters,
                        sums_backward,
                        sums_activation,
                        fixed,
                        candidate_costs,
                    )
                else:
                    cost_cells(
                        first,
                        last,
                        candidate,
                        candidate_starts,
                        sums_forward,
                        sums_parameters,
                        sums_backward,
                        sums_activation,
                        fixed,
                        candidate_costs,
                    )
            else:
                cell = np.random.randint(num_cells)
                if not _change_kind(
                    cell, np.random.randint(num_kinds), np.random.randint(num_kinds), candidate, exclusive
                ):
                    continue
                first = last = cell
                cost_cells(
                    cell,
                    cell,
                    candidate,
                    candidate_starts,
                    sums_forward,
                    sums_parameters,
                    sums_backward,
                    sums_activation,
                    fixed,
                    candidate_costs,
                )
            # 2. repair: where a rank no longer fits, change kinds at random, never for more memory
            fits = True
            low, high = first, last
            for cell in range(low, min(high, low + num_ranks) + 1):
                if uniform and cell != low:
                    cell = high
                rank = cell % num_ranks
                needed = rank_memory(rank, candidate_costs, live, live_starts, num_ranks)
                tries = 0
                while needed > room[rank] and tries < 32:
                    tries += 1
                    changed = np.random.randint(num_chunks) * num_ranks + rank
                    source, target = np.random.randint(num_kinds), np.random.randint(num_kinds)
                    if not _change_kind(changed, source, target, candidate, exclusive):
                        continue
                    cost_cells(
                        changed,
                        changed,
                        candidate,
                        candidate_starts,
                        sums_forward,
                        sums_parameters,
                        sums_backward,
                        sums_activation,
                        fixed,
                        candidate_costs,
                    )
                    now = rank_memory(rank, candidate_costs, live, live_starts, num_ranks)
                    if now > needed:
                        candidate[changed, source] += 1
                        candidate[changed, target] -= 1
                        cost_cells(
                            changed,
                            changed,
                            candidate,
                            candidate_starts,
                            sums_forward,
                            sums_parameters,
                            sums_backward,
                            sums_activation,
                            fixed,
                            candidate_costs,
                        )
                    else:
                        needed = now
                if needed > room[rank]:
                    fits = False
                    break
                if uniform and cell == high:
                    break
            if not fits:
                candidate[:] = counts
                candidate_starts[:] = starts
                candidate_costs[:] = costs
                continue
        # 3. evaluate, unless the load of one rank already decides
        threshold = energy - temperature * np.log(1.0 - np.random.random())
        load_sum = 0
        heaviest = 0
        for rank in range(num_ranks):
            load = 0
            for chunk in range(num_chunks):
                cell = chunk * num_ranks + rank
                load += candidate_costs[0, cell] + candidate_costs[1, cell]
            load_sum += load
            heaviest = max(heaviest, load)
        extra = 0.05 * num_units * load_sum / num_ranks
        accepted = heaviest * num_units + extra <= threshold
        if accepted:
            for cell in range(num_cells):
                durations[2 * cell] = candidate_costs[0, cell]
                durations[2 * cell + 1] = candidate_costs[1, cell]
            if len(messages):
                _longest_path_with_messages(rank_predecessors, dependencies, classes, durations, messages, ends)
            else:
                _longest_path(rank_predecessors, dependencies, classes, durations, ends)
            makespan = 0
            for rank in range(num_ranks):
                makespan = max(makespan, ends[rank_lasts[rank]])
            if makespan < best:
                best = makespan
                best_counts[:] = candidate
            accepted = makespan + extra <= threshold
        # 4. keep or undo
        if accepted:
            energy = makespan + extra
            counts[:] = candidate
            starts[:] = candidate_starts
            costs[:] = candidate_costs
        else:
            candidate[:] = counts
            candidate_starts[:] = starts
            candidate_costs[:] = costs
    return best
