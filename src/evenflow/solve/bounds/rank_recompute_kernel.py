"""The least recomputation with which a rank fits, layers taken in fractions: the cheapest bytes are saved first."""

from typing import Any

import numpy as np

from evenflow.simulate.compiled import compiled
from evenflow.solve.bounds.layer_table import LayerTable

_ROUNDING = 1e-9
"""Share of the limit that sums in floating point may be off."""


@compiled
def least_recompute(table: LayerTable, live: Any, counts: Any, fixed: Any, has_head: bool, has_tail: bool) -> float:
    """Return the least recomputation in ns of a microbatch with which a rank fits; infinite where nothing does.

    `counts` [num_types] are its layers. `live` [num_vectors, 2, num_chunks] are microbatches that it holds at once.
    `fixed` [num_chunks] is the type of one layer of each chunk, -1 where that is not known; all other layers may be in
    whichever chunk holds the fewest microbatches.
    """
    static = table.constant
    layers = 0.0
    for kind in range(len(counts)):
        static += counts[kind] * table.parameters[kind]
        layers += counts[kind]
    ends_working = 0.0
    for end in range(2):
        if (has_head and end == 0) or (has_tail and end == 1):
            static += table.ends[end, 3]
            ends_working = max(ends_working, table.ends[end, 6])
    best = np.inf
    for selection in range(len(table.working)):
        working = max(ends_working, table.working[selection] if layers else 0.0)
        room = table.limit * (1 + _ROUNDING) - static - working
        if room < 0:
            continue
        worst = 0.0
        for vector in range(len(live)):
            cost = _of_vector(table, selection, live[vector], counts, fixed, room, has_head, has_tail)
            worst = max(worst, cost)
            if worst >= best:
                break
        best = min(best, worst)
        if best == 0:
            break
    return best


@compiled
def in_every_cell(table: LayerTable, counts: Any, recompute_ns: float, num_chunks: int, min_layers: int) -> float:
    """Return the least recomputation of a rank, from that of any layers, where every cell has a number under `full`.

    All layers but the fewest in one cell recompute least; more than the largest number in each cell save nothing. And
    layers are whole.
    """
    least, most = table.full_range
    if np.isinf(recompute_ns) or recompute_ns > num_chunks * most * table.longest_full * (1 + _ROUNDING):
        return np.inf
    if least == 0:
        return recompute_ns
    whole = np.ceil(recompute_ns / table.longest_full - _ROUNDING) if table.longest_full > 0 else 0.0
    others = (num_chunks - 1) * min_layers
    left = max(min(least, counts.sum() - others), 0.0) + (num_chunks - 1) * min(least, min_layers)
    left = max(left, whole)
    again = 0.0
    for kind in np.argsort(table.full):
        number = min(left, counts[kind])
        again += number * table.full[kind]
        left -= number
    return max(recompute_ns, again)


@compiled
def _of_vector(
    table: LayerTable, selection: int, live: Any, counts: Any, fixed: Any, room: float, has_head: bool, has_tail: bool
) -> float:
    """Return the least recomputation with which layers fit in `room` while a rank holds what `live` says."""
    num_types, num_chunks, num_steps = len(counts), live.shape[1], table.steps.shape[2]
    # One class for each type, its layers in whichever chunk they take least, and one for each layer known.
    size = num_types + num_chunks
    number = np.zeros(size)
    number[:num_types] = counts
    for chunk in range(num_chunks):
        if fixed[chunk] >= 0:
            number[num_types + chunk] = 1.0
            number[fixed[chunk]] -= 1.0
    saved, prices = np.zeros(size * num_steps), np.full(size * num_steps, np.inf)
    extra, over, most = 0.0, -room, 0.0
    for group in range(size):
        if number[group] < 0:
            return np.inf
        if number[group] == 0:
            continue
        kind = group if group < num_types else fixed[group - num_types]
        activation = table.activations[selection, kind]
        if np.isinf(activation):
            return np.inf
        waits = table.until_weight[kind]
        extra += number[group] * table.extra[selection, kind]
        used = _least_used(live, activation, waits, group - num_types)
        over += number[group] * used
        for step in range(num_steps):
            activation -= table.steps[selection, kind, step, 0]
            less = used - _least_used(live, activation, waits, group - num_types)
            if less > 0:
                place = group * num_steps + step
                saved[place], prices[place] = number[group] * less, table.steps[selection, kind, step, 1] / less
                # A later step that is cheaper comes with a mixture of kinds: no step before it costs more.
                for earlier in range(group * num_steps, place):
                    prices[earlier] = min(prices[earlier], prices[place])
                used -= less
                most += number[group] * less
    if has_head:
        over += live[0, 0] * table.ends[0, 4] + live[1, 0] * table.ends[0, 5]
    if has_tail:
        over += live[0, num_chunks - 1] * table.ends[1, 4] + live[1, num_chunks - 1] * table.ends[1, 5]
    if most < over:
        return np.inf
    while over > 0:
        best = np.argmin(prices)
        if np.isinf(prices[best]):
            return np.inf
        extra += prices[best] * min(over, saved[best])
        over -= saved[best]
        prices[best] = np.inf
    return extra


@compiled
def _least_used(live: Any, activation: float, waits: float, chunk: int) -> float:
    """Return the fewest bytes that the microbatches of a layer take: in `chunk` or, where that is negative, in any."""
    if chunk >= 0:
        return float(live[0, chunk] * activation + live[1, chunk] * waits)
    least = np.inf
    for place in range(live.shape[1]):
        least = min(least, live[0, place] * activation + live[1, place] * waits)
    return float(least)
