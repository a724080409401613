"""Enumeration of the contents of a rank: combinations of the options of its cells that fit in time and memory.

Importing it imports the compiler.
"""

from typing import Any

import numpy as np

from evenflow.simulate.compiled import compiled
from evenflow.simulate.kernels import held_beside, saved_beside

NEVER = 1 << 60
"""The work, or memory, of more layers than chunks can hold."""

_saved_beside = compiled(saved_beside)
_held_beside = compiled(held_beside)


@compiled
def _fits_in_pairs(chosen: Any, above: int, starts: Any, counts: Any, held: Any, in_pairs: Any, room: int) -> bool:
    """Return whether a combination that needs `above` beside what is live fits while forwards run beside backwards.

    `in_pairs` is what `pair_memory` returns.
    """
    (live, pair_chunks, cells, until, mlp, until_back, mlp_back, ends, releases, is_whole, is_most) = in_pairs
    num_chunks = len(chosen)
    ahead = back = -1
    together = -1
    for row in range(len(live)):
        if pair_chunks[row, 0] != ahead or pair_chunks[row, 1] != back:
            ahead, back = pair_chunks[row]
            together = -1
        needed = above
        for part in range(len(held)):
            for chunk in range(num_chunks):
                needed += live[row, part * num_chunks + chunk] * held[part, chosen[chunk]]
        first, other = chosen[ahead], chosen[back]
        whole = held[0, first] + held[0, other]
        if needed + whole <= room and (is_most or is_whole):
            continue
        if together < 0:
            together = whole
            if not is_whole:
                together = _held_beside(
                    until, mlp, until_back, mlp_back, ends, releases,
                    cells[ahead], starts[first], counts[first], cells[back], starts[other], counts[other],
                )  # fmt: skip
        if needed + together > room:
            return False
    return True


@compiled
def combine(
    work: Any,
    held: Any,
    working: Any,
    parameters: Any,
    starts: Any,
    layers: Any,
    first_runs: Any,
    last_runs: Any,
    faster: Any,
    option_starts: Any,
    span_ends: Any,
    pairs: Any,
    types: Any,
    saved_of: Any,
    most_saved: Any,
    live: Any,
    counts: Any,
    in_pairs: Any,
    room: int,
    most_work: int,
    fewest: int,
    least_work: Any,
    least_memory: Any,
    most_columns: int,
    most_steps: int,
    columns: Any,
) -> int:
    """Fill `columns` [capacity, num_chunks] with option indices; returns their number, which may exceed the capacity.

    Stops at the first beyond `most_columns`; returns -1 when that takes more than `most_steps` steps.

    Option arrays hold the options of the rank's cells one chunk after the other, from `option_starts` [chunk], `work`
    the time of all their actions and `held` [num_parts, num_options] the bytes that the parts of a live vector count.
    Options of the same layers follow one another with rising work, up to `span_ends`. Forwards of a chunk run beside
    backwards of another `pairs` [forward chunk, backward chunk] times, which saves what `types` and `saved_of` say (see
    `HalvesTable`), and for each backward of an option `most_saved` at the most.

    A combination is kept when it has at least `fewest` layers, takes at most `most_work`, no chunk begins in an earlier
    run of layers than the chunk before it ends in, it fits in `room` for each row of `live` and in pairs, with layers
    of each kind `counts` [num_options, num_kinds] (see `_fits_in_pairs`), and no cell could take its next faster
    option, nor the last one any faster one, and still fit (that combination would be better). Of `working` the largest
    of a combination counts. `least_work` and `least_memory` are those of `fill_least`.
    """
    num_chunks, num_rows = len(option_starts) - 1, len(live)
    chosen = np.zeros(num_chunks, dtype=np.int64)
    chosen[0] = option_starts[0] - 1
    spent = np.zeros(num_chunks + 1, dtype=np.int64)
    highest = np.zeros(num_chunks + 1, dtype=np.int64)
    missing = np.zeros(num_chunks + 1, dtype=np.int64)
    missing[0] = max(0, fewest)
    memory = np.zeros((num_chunks + 1, num_rows), dtype=np.int64)
    has_pairs = pairs.max() > 0
    has_rows_in_pairs = len(in_pairs[0]) > 0
    saves = np.zeros(num_chunks, dtype=np.int64)
    may_save = np.zeros(num_chunks, dtype=np.int64)
    num_columns = 0
    steps = 0
    fullest = 0
    level = 0
    while level >= 0:
        steps += 1
        if steps > most_steps:
            return -1
        before = chosen[level]
        chosen[level] += 1
        option = chosen[level]
        if option >= option_starts[level + 1]:
            level -= 1
            continue
        missing[level + 1] = max(0, missing[level] - layers[option])
        is_new = before < option_starts[level] or span_ends[before] != span_ends[option]
        if has_pairs and is_new:  # what pairs save depends on layers alone
            saves[level] = may_save[level] = 0
            for chunk in range(level + 1):
                other = chosen[chunk]
                if pairs[level, chunk]:
                    saves[level] += pairs[level, chunk] * _saved_beside(
                        types, saved_of, starts[option], layers[option], starts[other], layers[other]
                    )
                if chunk < level and pairs[chunk, level]:
                    saves[level] += pairs[chunk, level] * _saved_beside(
                        types, saved_of, starts[other], layers[other], starts[option], layers[option]
                    )
                for behind in range(level + 1, num_chunks):
                    may_save[level] += pairs[behind, chunk] * most_saved[other]
        spent[level + 1] = spent[level] + work[option] - saves[level]
        if spent[level + 1] - may_save[level] + least_work[level + 1, missing[level + 1]] > most_work:
            chosen[level] = span_ends[option] - 1  # so do those behind it
            continue
        if level > 0 and first_runs[option] < last_runs[chosen[level - 1]]:
            continue
        highest[level + 1] = max(highest[level], working[option])
        steps += num_rows
        fits = True
        for place in range(num_rows + 1 if num_rows else 0):
            row = fullest if place == 0 else place - 1  # the row that was too full before is so again, as a rule
            needed = memory[level, row] + parameters[option]
            for part in range(len(held)):
                needed += live[row, part * num_chunks + level] * held[part, option]
            memory[level + 1, row] = needed
            if needed + highest[level + 1] + least_memory[level + 1, row, missing[level + 1]] > room:
                fits = False
                fullest = row
                break
        if not fits:
            continue
        if level < num_chunks - 1:
            level += 1
            chosen[level] = option_starts[level] - 1
            continue
        if has_rows_in_pairs:
            static = highest[num_chunks]
            for chunk in range(num_chunks):
                static += parameters[chosen[chunk]]
            if not _fits_in_pairs(chosen, static, starts, counts, held, in_pairs, room):
                continue
        # Options of the same layers behind it are slower.
        skipped = option
        while skipped + 1 < span_ends[option] and faster[skipped + 1] >= option:
            skipped += 1
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
            for row in range(num_rows):
                more = above + parameters[other] - parameters[chosen[chunk]]
                for part in range(len(held)):
                    change = held[part, other] - held[part, chosen[chunk]]
                    more += live[row, part * num_chunks + chunk] * change
                if memory[num_chunks, row] + more > room:
                    still_fits = False
                    break
            if still_fits and has_rows_in_pairs:
                slower = chosen[chunk]
                chosen[chunk] = other
                static = above
                for another in range(num_chunks):
                    static += parameters[chosen[another]]
                still_fits = _fits_in_pairs(chosen, static, starts, counts, held, in_pairs, room)
                chosen[chunk] = slower
            if still_fits:
                minimal = False
                break
        chosen[level] = skipped
        if not minimal:
            continue
        if num_columns < len(columns):
            for chunk in range(level):
                columns[num_columns, chunk] = chosen[chunk]
            columns[num_columns, level] = option
        num_columns += 1
        if num_columns > most_columns:
            break
    return num_columns


@compiled
def fill_least(
    work: Any,
    held: Any,
    parameters: Any,
    layers: Any,
    option_starts: Any,
    live: Any,
    least_work: Any,
    least_memory: Any,
) -> None:
    """Fill the least work and the least memory of the chunks from each on, by the layers that they hold at least.

    `least_work` [num_chunks + 1, num_layers + 1] and `least_memory` [num_chunks + 1, num_rows, num_layers + 1] get
    `NEVER` where they cannot hold so many; the other arrays are those of `combine`, with the least `work` of options.
    """
    num_chunks, num_rows, most = len(option_starts) - 1, len(live), least_work.shape[1] - 1
    least_work[:] = NEVER
    least_memory[:] = NEVER
    least_work[num_chunks, 0] = 0
    least_memory[num_chunks, :, 0] = 0
    own = np.zeros((num_rows + 1, most + 1), dtype=np.int64)
    for chunk in range(num_chunks - 1, -1, -1):
        own[:] = NEVER
        for option in range(option_starts[chunk], option_starts[chunk + 1]):
            size = min(most, layers[option])
            own[num_rows, size] = min(own[num_rows, size], work[option])
            for row in range(num_rows):
                needed = parameters[option]
                for part in range(len(held)):
                    needed += live[row, part * num_chunks + chunk] * held[part, option]
                own[row, size] = min(own[row, size], needed)
        for size in range(most + 1):
            if own[num_rows, size] >= NEVER:
                continue
            for behind in range(most + 1):
                if least_work[chunk + 1, behind] >= NEVER:
                    continue
                total = min(most, size + behind)
                least_work[chunk, total] = min(
                    least_work[chunk, total], own[num_rows, size] + least_work[chunk + 1, behind]
                )
                for row in range(num_rows):
                    least_memory[chunk, row, total] = min(
                        least_memory[chunk, row, total], own[row, size] + least_memory[chunk + 1, row, behind]
                    )
        for size in range(most - 1, -1, -1):
            least_work[chunk, size] = min(least_work[chunk, size], least_work[chunk, size + 1])
            for row in range(num_rows):
                least_memory[chunk, row, size] = min(least_memory[chunk, row, size], least_memory[chunk, row, size + 1])
