"""Enumeration of the contents of a rank: combinations of the options of its cells that fit in memory."""

from typing import Any

import numpy as np


def combine(
    loads: Any,
    held: Any,
    working: Any,
    parameters: Any,
    first_runs: Any,
    last_runs: Any,
    faster: Any,
    option_starts: Any,
    live: Any,
    num_least: int,
    room: int,
    max_load: int,
    most_columns: int,
    most_steps: int,
    columns: Any,
) -> int:
    """Fill `columns` [capacity, num_chunks] with option indices; returns their number, which may exceed the capacity.

    Returns -1 when there are more than `most_columns`, or when that takes more than `most_steps` steps.

    Option arrays hold the options of the rank's cells one chunk after the other, from `option_starts` [chunk], and
    `held` [num_parts, num_options] the bytes that the parts of a live vector count. A combination is kept when its load
    is at most `max_load`, no chunk begins in an earlier run of layers than the chunk before it ends in, it fits in
    `room` for each of the first `num_least` rows of `live`, and no cell could take its next faster option and fit with
    all rows (that combination would be better). Of `working` the largest of a combination counts.
    """
    num_chunks = len(option_starts) - 1
    chosen = np.zeros(num_chunks, dtype=np.int64)
    chosen[0] = option_starts[0] - 1
    load = np.zeros(num_chunks + 1, dtype=np.int64)
    static = np.zeros(num_chunks + 1, dtype=np.int64)
    memory = np.zeros(len(live), dtype=np.int64)
    num_columns = 0
    steps = 0
    level = 0
    while level >= 0:
        steps += 1
        if steps > most_steps:
            return -1
        chosen[level] += 1
        option = chosen[level]
        if option >= option_starts[level + 1]:
            level -= 1
            continue
        load[level + 1] = load[level] + loads[option]
        static[level + 1] = static[level] + parameters[option]
        if load[level + 1] > max_load:
            continue
        if level > 0 and first_runs[option] < last_runs[chosen[level - 1]]:
            continue
        if level < num_chunks - 1:
            level += 1
            chosen[level] = option_starts[level] - 1
            continue
        steps += len(live)
        fits = True
        highest = 0
        for chunk in range(num_chunks):
            highest = max(highest, working[chosen[chunk]])
        for row in range(len(live)):
            needed = static[num_chunks] + highest
            for part in range(len(held)):
                for chunk in range(num_chunks):
                    needed += live[row, part * num_chunks + chunk] * held[part, chosen[chunk]]
            memory[row] = needed
            if row < num_least and needed > room:
                fits = False
                break
        if not fits:
            continue
        minimal = True
        for chunk in range(num_chunks):
            other = faster[chosen[chunk]]
            if other < 0:
                continue
            above = working[other]
            for another in range(num_chunks):
                if another != chunk:
                    above = max(above, working[chosen[another]])
            still_fits = True
            for row in range(len(live)):
                more = above - highest + parameters[other] - parameters[chosen[chunk]]
                for part in range(len(held)):
                    change = held[part, other] - held[part, chosen[chunk]]
                    more += live[row, part * num_chunks + chunk] * change
                if memory[row] + more > room:
                    still_fits = False
                    break
            if still_fits:
                minimal = False
                break
        if not minimal:
            continue
        if num_columns < len(columns):
            for chunk in range(num_chunks):
                columns[num_columns, chunk] = chosen[chunk]
        num_columns += 1
        if num_columns > most_columns:
            return -1
    return num_columns
