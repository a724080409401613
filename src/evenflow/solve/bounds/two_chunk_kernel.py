"""The cut in two chunks per rank whose busiest rank, alone with the times of all others, needs least."""

from typing import Any

import numpy as np

from evenflow.simulate.compiled import compiled
from evenflow.solve.bounds.two_chunk_tables import TwoChunkTables

_ROUNDING = 1e-9
"""Fraction by which bytes must exceed their room not to fit."""
_NOT_YET = -1.0


@compiled
def least_on_a_v(tables: TwoChunkTables, num_ranks: int, min_layers: int, up_to: float, most: int) -> Any:
    """Return the least time of the busiest rank over all cuts on a V, `up_to` if none takes less.

    A rank takes layers from both ends of what the ranks before it left; `most` is the most layers of a rank.
    """
    layers = len(tables.forward) - 1
    cache = _cache(layers, most)
    best = np.full((layers + 1, layers + 1), np.inf)
    best[0, 0] = 0.0
    for rank in range(num_ranks):
        following = np.full((layers + 1, layers + 1), np.inf)
        behind = num_ranks - 1 - rank
        for front in range(layers + 1):
            for back in range(layers + 1 - front):
                before = best[front, back]
                left = layers - front - back
                if before >= up_to or left > (behind + 1) * most:
                    continue
                end = layers - back
                for first in range(min_layers, min(left, most) + 1):
                    low = max(min_layers, left - first - behind * most)
                    high = min(left - first - 2 * behind * min_layers, most - first)
                    for second in range(max(low, left - first) if behind == 0 else low, high + 1):
                        spot = (front, front + first, end - second, end)
                        time = _kept_time(tables, cache, spot, rank == 0, rank == 0, up_to)
                        if max(before, time) < following[front + first, back + second]:
                            following[front + first, back + second] = max(before, time)
        best = following
    least = up_to
    for front in range(layers + 1):
        least = min(least, best[front, layers - front])
    return least


@compiled
def least_on_a_loop(tables: TwoChunkTables, num_ranks: int, min_layers: int, up_to: float, most: int) -> Any:
    """Return the same for two chunks that pass the ranks in the same order."""
    layers = len(tables.forward) - 1
    cache = _cache(layers, most)
    least = up_to
    for middle in range(num_ranks * min_layers, layers - num_ranks * min_layers + 1):
        behind_middle = layers - middle
        best = np.full((middle + 1, behind_middle + 1), np.inf)
        best[0, 0] = 0.0
        for rank in range(num_ranks):
            following = np.full((middle + 1, behind_middle + 1), np.inf)
            behind = num_ranks - 1 - rank
            lives = False
            for front in range(middle + 1):
                for back in range(behind_middle + 1):
                    before = best[front, back]
                    left = layers - front - back
                    if before >= least or left > (behind + 1) * most:
                        continue
                    begin = middle + back
                    last_first = min(middle - front - behind * min_layers, most)
                    for first in range(middle - front if behind == 0 else min_layers, last_first + 1):
                        low = max(min_layers, left - first - behind * most)
                        high = min(behind_middle - back - behind * min_layers, most - first)
                        for second in range(behind_middle - back if behind == 0 else low, high + 1):
                            spot = (front, front + first, begin, begin + second)
                            time = max(before, _kept_time(tables, cache, spot, rank == 0, behind == 0, up_to))
                            if time < least and time < following[front + first, back + second]:
                                following[front + first, back + second] = time
                                lives = True
            best = following
            if not lives:
                break
        least = min(least, best[middle, behind_middle])
    return least


@compiled
def _cache(layers: int, most: int) -> Any:
    """Return the times of a rank in the middle, by where its cells begin and how many layers they have."""
    return np.full((layers + 1, layers + 1, most + 1, most + 1), _NOT_YET)


@compiled
def _kept_time(tables: TwoChunkTables, cache: Any, spot: Any, has_head: bool, has_tail: bool, up_to: float) -> Any:
    """Return the time of a rank, looked up where it has neither end of the network."""
    if has_head or has_tail:
        return rank_time(tables, spot, has_head, has_tail, up_to)
    first, first_end, second, second_end = spot
    key = (first, second, first_end - first, second_end - second)
    if cache[key] == _NOT_YET:
        cache[key] = rank_time(tables, spot, False, False, up_to)
    return cache[key]


@compiled
def rank_time(tables: TwoChunkTables, spot: Any, has_head: bool, has_tail: bool, up_to: float) -> Any:
    """Return the least time of a step with a rank whose two cells are runs of layers, or something above `up_to`.

    `spot` has the begin and end of both; the head is in the first, the tail in the second.
    """
    first, first_end, second, second_end = spot
    ends, forward, gradient = tables.ends, tables.forward, tables.gradient
    head, tail = 1.0 if has_head else 0.0, 1.0 if has_tail else 0.0
    # Until the first job can begin, and after the last gradient, of both chunks and of the second alone.
    before = 0.0 if has_head else ends[0, 0] + forward[first]
    gradients_after = 0.0 if has_head else ends[0, 1] + gradient[first]
    second_before = ends[0, 0] + forward[second]
    second_gradients_after = ends[0, 1] + gradient[second]
    after = 0.0 if tables.splits else gradients_after  # weight gradients may come last
    second_after = 0.0 if tables.splits else second_gradients_after
    sums, block_sums = tables.pairs.sums[0], tables.pairs.ends[0]
    second_work = sums[0, 0, second_end] - sums[0, 0, second] + tail * block_sums[0, 0, 1]
    work = second_work + sums[0, 0, first_end] - sums[0, 0, first] + head * block_sums[0, 0, 0]
    load = max(before + work + after, second_before + second_work + second_after)
    if load > up_to or tables.space == np.inf:
        return load
    outer, inner = (before, after, gradients_after), (second_before, second_after, second_gradients_after)
    return _with_memory(tables, spot, (head, tail), outer, inner, load, up_to)


@compiled
def _with_memory(
    tables: TwoChunkTables, spot: Any, ends_here: Any, outer: Any, inner: Any, load: float, up_to: float
) -> Any:
    """Return the same where memory is limited; `outer` and `inner` are the times around all jobs, and the second's.

    `load` is the time without the limit.
    """
    first, first_end, second, second_end = spot
    head, tail = ends_here
    ends, layers, units = tables.ends, len(tables.forward) - 1, tables.num_units
    forward, gradient = tables.forward, tables.gradient
    before, after, _gradients_after = outer
    room = tables.space - _both(tables.parameters, tables.end_parameters, spot, ends_here)
    least_second = tables.least[second_end] - tables.least[second] + tail * tables.end_least[1]
    least = least_second + tables.least[first_end] - tables.least[first] + head * tables.end_least[0]
    if least > room * (1 + _ROUNDING):
        return np.inf
    time = max(load, _area_time(tables, spot, ends_here, outer, room))
    if time > up_to:
        return time
    trip = forward[layers] - forward[second] + gradient[layers] - gradient[second] + ends[1, 0] + ends[1, 1]
    own_forward = forward[second_end] - forward[second] + tail * ends[1, 0]
    own_gradient = gradient[second_end] - gradient[second] + tail * ends[1, 1]
    # The first gradient comes after a whole trip, and all but the own forward of one after the last forward.
    turn = ends[0, 0] + forward[second] + trip - own_gradient
    last_turn = ends[0, 1] + gradient[second] + trip - own_forward
    time = max(time, _counted_time(tables, spot, ends_here, inner, (turn, last_turn, trip), (room, load, time)))
    if time > up_to:
        return time
    mixed = _mixed_time(tables, spot, ends_here, outer, inner, turn, last_turn)
    if mixed <= time:
        return time
    # Or all forwards come before all gradients, with all microbatches in memory.
    if units * least > room * (1 + _ROUNDING):
        return mixed
    forwards = units * (_both(forward, ends[:, 0], spot, ends_here))
    together = before + forwards + last_turn
    for index in range(len(tables.full_prices)):
        gradients = _both(tables.full[index], tables.full_ends[index], spot, ends_here)
        gradients -= tables.full_prices[index] * tables.space
        together = max(together, max(turn, before + forwards) + gradients + after)
    return max(time, min(mixed, together))


@compiled
def _both(prefix: Any, of_ends: Any, spot: Any, ends_here: Any) -> Any:
    """Return the sum over both cells."""
    first, first_end, second, second_end = spot
    cells = prefix[first_end] - prefix[first] + prefix[second_end] - prefix[second]
    return cells + ends_here[0] * of_ends[0] + ends_here[1] * of_ends[1]


@compiled
def _area_time(tables: TwoChunkTables, spot: Any, ends_here: Any, outer: Any, room: float) -> Any:
    """Return the time in which the rank's work and its bytes times time fit, weighed against each other."""
    first, first_end, second, second_end = spot
    before, after, gradients_after = outer
    ends, layers, forward, gradient = tables.ends, len(tables.forward) - 1, tables.forward, tables.gradient
    behind = forward[layers] + gradient[layers] + ends[1, 0] + ends[1, 1]
    lives = (
        behind - forward[first] - gradient[first] + ends_here[0] * (ends[0, 0] + ends[0, 1]),
        behind - forward[second] - gradient[second],
    )
    step, longest = tables.lives[1], 0.0
    for waits in range(2 if tables.splits else 1):
        for index in range(len(tables.shares)):
            total = 0.0
            for cell in range(2):
                begin, end = (first, first_end) if cell == 0 else (second, second_end)
                # The least over kinds is concave in the time: the chord is below it.
                low = min(int(lives[cell] / step), len(tables.lives) - 2)
                part = lives[cell] / step - low
                for near in range(2):
                    prefix = tables.held[waits, index, low + near]
                    held = prefix[end] - prefix[begin]
                    held += ends_here[cell] * tables.held_ends[waits, index, low + near, cell]
                    total += (part if near else 1 - part) * held
            memory = (1 - tables.shares[index]) * room / tables.space
            if tables.splits and waits == 0:
                total += memory * gradients_after
            longest = max(longest, before + after + total / (tables.shares[index] + memory))
    return longest


@compiled
def _counted_time(tables: TwoChunkTables, spot: Any, ends_here: Any, inner: Any, turns: Any, limits: Any) -> Any:
    """Return the least time over how many microbatches the second cell holds at once, each with all of the rank.

    As many as it is must fit, with what recomputation that takes; they are all that can go forward before the first
    gradient, and backward after the last forward. Ends at a time that is no more than another bound.
    """
    first, first_end, second, second_end = spot
    head, tail = ends_here
    turn, last_turn, trip = turns
    room, load, enough = limits
    second_before, second_after, second_gradients_after = inner
    units, ends = tables.num_units, tables.ends
    forwards = tables.forward[second_end] - tables.forward[second] + tail * ends[1, 0]
    gradients = tables.gradient[second_end] - tables.gradient[second] + tail * ends[1, 1]
    backwards = gradients + tables.weight[second_end] - tables.weight[second] + tail * ends[1, 2]
    least_second = tables.least[second_end] - tables.least[second] + tail * tables.end_least[1]
    least_first = tables.least[first_end] - tables.least[first] + head * tables.end_least[0]
    shortest = np.inf
    for held in range(1, int(units) + 1):
        if held * (least_first + least_second) > room * (1 + _ROUNDING) or shortest <= enough:
            break
        extra, second_extra = 0.0, 0.0
        for index in range(len(tables.fit_prices)):
            allowed = tables.fit_prices[index] * room / held
            in_second = tables.fits[index, second_end] - tables.fits[index, second] + tail * tables.fit_ends[index, 1]
            in_first = tables.fits[index, first_end] - tables.fits[index, first] + head * tables.fit_ends[index, 0]
            extra = max(extra, in_first + in_second - allowed)
            second_extra = max(second_extra, in_second + tables.fit_prices[index] * least_first - allowed)
        late = units - held
        time = load + units * extra
        time = max(time, turn + late * forwards + units * (backwards + second_extra) + second_after)
        done = units * forwards + late * (gradients + second_extra)
        time = max(time, second_before + done + last_turn + second_extra)
        time = max(time, second_before + second_gradients_after + units * (trip + second_extra) / held)
        if late > 0:
            time = max(time, turn + late * (forwards + gradients + second_extra) + last_turn + second_extra)
        shortest = min(shortest, time)
    return shortest


@compiled
def _mixed_time(
    tables: TwoChunkTables, spot: Any, ends_here: Any, outer: Any, inner: Any, turn: float, last_turn: float
) -> Any:
    """Return the time where a forward comes after a gradient, over all pairs of prices.

    Forwards before the first gradient hold what they make, and so does what the gradients after the last forward need.
    What is held has a price that takes the place of its time, where that is less.
    """
    first, first_end, second, second_end = spot
    head, tail = ends_here
    pairs, longest = tables.pairs, 0.0
    for pair in range(1, len(pairs.rooms)):
        on_forward, on_gradient = pairs.prices[pair]
        for is_second in range(2):
            begin, end, _gradients = inner if is_second else outer
            least = np.inf
            for held in range(2 if on_forward else 1):
                for waits in range(2 if on_gradient else 1):
                    in_second = _state_sum(pairs, 0, pair, 2 * held + waits, second, second_end, tail, 1)
                    if is_second:
                        in_first = _state_sum(pairs, 1, pair, 2 * held + waits, first, first_end, head, 0)
                        least = min(least, in_first + in_second)
                        continue
                    # What the second cell holds of a microbatch the first one holds too, but for weight gradients.
                    for first_held in range(held, 2 if on_forward else 1):
                        for first_waits in range(0 if tables.splits else waits, 2 if on_gradient else 1):
                            state = 2 * first_held + first_waits
                            in_first = _state_sum(pairs, 0, pair, state, first, first_end, head, 0)
                            least = min(least, in_first + in_second)
            start = turn if on_forward else begin
            finish = last_turn if on_gradient else end
            longest = max(longest, start + finish + least - pairs.rooms[pair])
    return longest


@compiled
def _state_sum(pairs: Any, jobs: int, pair: int, state: int, begin: int, end: int, has_end: float, block: int) -> Any:
    """Return the costs of a cell in one state, with its end of the network."""
    sums = pairs.sums[jobs, pair, state]
    return sums[end] - sums[begin] + has_end * pairs.ends[jobs, pair, state, block]
