"""The least recomputation with which a rank fits, layers taken in fractions: the cheapest bytes are saved first."""

from typing import Any

import numba
import numpy as np

from evenflow.solve.load.layer_table import LayerTable

_ROUNDING = 1e-9
"""Share of the limit that sums in floating point may be off."""


@numba.njit(cache=True, nogil=True)
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
    return best


@numba.njit(cache=True, nogil=True)
def _of_vector(
    table: LayerTable, selection: int, live: Any, counts: Any, fixed: Any, room: float, has_head: bool, has_tail: bool
) -> float:
    num_types, num_chunks, num_steps = len(counts), live.shape[1], table.steps.shape[2]
    # One class for each type, its layers in the chunk with the fewest microbatches, and one for each layer known.
    size = num_types + num_chunks
    of_type, number, held = np.empty(size, dtype=np.int64), np.zeros(size), np.empty(size)
    fewest, waiting = live[0].min(), live[1].min()
    extra, used = 0.0, 0.0
    for one in range(size):
        chunk = one - num_types
        if chunk < 0:
            of_type[one], number[one], held[one] = one, counts[one], fewest
            waits = waiting
        else:
            of_type[one], number[one], held[one] = fixed[chunk], 0.0, live[0, chunk]
            if fixed[chunk] < 0:
                continue
            number[one] = 1.0
            number[fixed[chunk]] -= 1.0
            waits = live[1, chunk]
            used += live[1, chunk] * table.until_weight[fixed[chunk]] - waiting * table.until_weight[fixed[chunk]]
        kind = of_type[one]
        if chunk < 0:
            used += number[one] * waits * table.until_weight[kind]
    for one in range(size):
        if number[one] < 0:
            return np.inf
        if number[one] > 0:
            kind = of_type[one]
            if np.isinf(table.activations[selection, kind]):
                return np.inf
            extra += number[one] * table.extra[selection, kind]
            used += number[one] * held[one] * table.activations[selection, kind]
    if has_head:
        used += live[0, 0] * table.ends[0, 4] + live[1, 0] * table.ends[0, 5]
    if has_tail:
        used += live[0, num_chunks - 1] * table.ends[1, 4] + live[1, num_chunks - 1] * table.ends[1, 5]
    over = used - room
    taken = np.zeros(size, dtype=np.int64)
    while over > 0:
        best, price = -1, np.inf
        for one in range(size):
            if number[one] <= 0 or held[one] <= 0 or taken[one] == num_steps:
                continue
            step = table.steps[selection, of_type[one], taken[one]]
            if step[0] > 0 and step[1] / (step[0] * held[one]) < price:
                best, price = one, step[1] / (step[0] * held[one])
        if best < 0:
            return np.inf
        saved = number[best] * held[best] * table.steps[selection, of_type[best], taken[best], 0]
        extra += price * min(over, saved)
        over -= saved
        taken[best] += 1
    return extra
