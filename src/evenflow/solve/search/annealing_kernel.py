"""Simulated annealing over cells and recompute counts, on the exact makespan and the exact memory.

Importing this module imports the compiler; only a search does, when it starts.
"""

from typing import Any, NamedTuple

import numpy as np

from evenflow.schedule import FORWARD, FULL_BACKWARD, INPUT_GRADIENT, NUM_OPS, WEIGHT_GRADIENT
from evenflow.simulate.compiled import compiled
from evenflow.simulate.kernels import (
    held_beside,
    longest_path,
    longest_path_in_turn,
    longest_path_with_messages,
    saved_beside,
)

_longest_path = compiled(longest_path)
_longest_path_with_messages = compiled(longest_path_with_messages)
_longest_path_in_turn = compiled(longest_path_in_turn)
_saved_beside = compiled(saved_beside)
_held_beside = compiled(held_beside)
_REPAIRS = 32
"""Most random changes of kind by which a rank is made to fit in memory again."""
_COPIES = 0.3
"""Share of the moves that copy contents between neighbouring ranks, where layers are equal."""
_KIND_CHANGES = 0.5
"""Share of the other moves that change the kind of one layer and leave it in its cell."""
_MOVES_OF_MANY = 0.3
"""Share of the moves between chunks of many ranks at once, where cells share one number of recomputed layers."""
_NEAR_MOVES = 0.8
"""Share of the moves of a layer that go to a neighbouring cell, where layers differ: far ones shift all in between."""
_SAME = np.iinfo(np.int64).max
"""Mark of neighbours with equal contents."""
_LOAD_WEIGHT = 0.05
"""Weight of the mean load beside the makespan: of equally long steps, the one that recomputes less is preferred."""


class Rules(NamedTuple):
    """Sizes and rules that all plans have in common."""

    stages: Any
    """Cells of each rank, shape [num_chunks, num_ranks]."""
    ranks: Any
    """Rank of each cell."""
    splits_backward: bool
    num_units: int
    min_layers: int
    uniform: bool
    """Whether all layers are equal, so that moving one leaves the cells in between as they are."""
    families: Any
    """Sets of kinds: all kinds of a cell are in one of them, bool [num_families, num_kinds]."""
    alike: bool
    """Whether all layers of a cell are under one kind."""
    full: int
    """Index of the kind `full` where the number of layers of a cell bounds those under it, else -1."""
    least_full: int
    most_full: int
    """Bounds of these layers, as far as the cell has so many; the others are under the last kind."""
    banned: Any
    """Layers before each border that each cell may not hold (see `Placement`); empty where cells may hold any."""
    alone: Any
    """Layers before each border that must be alone in their cell, or empty."""
    filled: Any
    """Whether each cell must hold a layer, or empty."""


class Prices(NamedTuple):
    """Prefix sums over the layers (see `LayerSums`), and `fixed` [7, num_cells], the costs of head and tail.

    Times have the speeds of ranks as their first axis.
    """

    speeds: Any
    """Index of the speed of each cell's rank."""
    forward: Any
    backward: Any
    activation: Any
    parameters: Any
    weight: Any
    waiting: Any
    working: Any
    """Largest working bytes of runs of layers (see `LayerSums.working_table`)."""
    fixed: Any
    offloaded: Any
    """Bytes that the host keeps, shape [num_kinds, num_layers + 1]; empty where nothing is moved there."""
    ns_per_byte: Any
    """Time of a byte of each cell on the way there, or back."""
    segments: Any
    """Place of each kind that computes layers again in segments among the next two, or -1."""
    segment_activation: Any
    """What runs of layers keep in segments (see `SegmentRuns`), one table for each such kind."""
    segment_working: Any
    types: Any
    """Type of each layer where forwards run beside backwards (see `HalvesTable`), else empty."""
    saved: Any
    """What a forward of one type saves beside a backward of another, by speed of the rank."""
    most_saved: Any
    """Prefix sums of the most that the backward of each layer saves."""
    ends: Any
    """What head and tail keep in each cell, shape [2, num_cells]."""
    mlp: Any
    """What the MLP of each layer keeps, shape [num_kinds, num_layers]; empty where pairs hold all of both."""
    activation_back: Any
    mlp_back: Any
    """Prefix sums of what backwards beside forwards begin with, and what the MLP keeps of that."""
    releases: Any
    """Whether attention goes backward as early as it can beside a forward."""


class Memory(NamedTuple):
    """The memory of ranks: the vectors of microbatches that are live at once, and the bytes they may take."""

    live: Any
    """Live vectors of all ranks (see `live_vectors`), shape [num_rows, len(held) * num_chunks]."""
    held: Any
    """Rows of `State.costs` that they count, one part of them behind the other."""
    live_starts: Any
    """First live vector of each rank and the end of all."""
    room: Any
    """Bytes of each rank beside the constant, shape [num_ranks]."""
    keepers: Any
    """For each rank, the one in whose memory waits what it moves, or -1; empty where that is none for all."""
    away: Any
    """Vectors of what ranks have away at once (see `away_vectors`), shape [num_rows, num_chunks]."""
    away_starts: Any
    """The first of these of each rank and the end of all."""
    beside: Any
    """What is live beside pairs (see `beside_pairs`), shape [num_rows, as wide as live vectors]."""
    pair_chunks: Any
    """Chunks of their forward and backward, shape [num_rows, 2]."""
    beside_starts: Any
    """The first of these of each rank and the end of all; empty where no forward runs beside a backward."""


class GraphArrays(NamedTuple):
    """The arrays of the graph (see `Graph`), the times of messages, and room for the end times."""

    rank_predecessors: Any
    dependencies: Any
    classes: Any
    rank_lasts: Any
    messages: Any
    """Time that the input of each action travels, shape [num_actions]; empty: no time."""
    crosses_ranks: Any
    """Where messages depend on the cut, whether each input comes from another rank, shape [num_actions]; else empty."""
    border_times: Any
    """Where messages depend on the cut, the time of what a cell sends on that ends at each border; else empty."""
    links: Any
    """What the messages behind each cell take longer on their link."""
    own_classes: Any
    """The class of each action by itself (see `Graph.action_classes`)."""
    latency: int
    """Where ranks send one message at a time, the part of each that keeps no link busy."""
    receivers: Any
    senders: Any
    """Where they do, as in `Graph`, shape [num_actions]; else empty."""
    arrivals: Any
    free: Any
    """Room for when messages arrive, and when links are free."""
    ends: Any


class State(NamedTuple):
    """A plan with its costs; a candidate is changed in place and copied over the current one when accepted."""

    counts: Any
    """Layers by cell and kind, shape [num_cells, num_kinds]."""
    starts: Any
    """First layer of each cell."""
    costs: Any
    """Costs of each cell, shape [10, num_cells]: forward, backward, activation, parameters, weight gradient (a part of
    the backward), the bytes that wait for the weight gradient, the working bytes of its largest layer, the bytes that
    the host keeps, the time of a copy of these, and the most that a forward saves beside its backward.
    """


@compiled
def _num_layers(counts: Any, cell: int) -> int:
    """Return the number of layers of a cell."""
    total = 0
    for kind in range(counts.shape[1]):
        total += counts[cell, kind]
    return total


@compiled
def _price(first: int, last: int, state: State, prices: Prices) -> None:
    """Compute the costs of the cells first…last anew."""
    for cell in range(first, last + 1):
        begin = end = state.starts[cell]
        speed = prices.speeds[cell]
        backward = prices.fixed[1, cell]
        activation = prices.fixed[2, cell]
        working = prices.fixed[6, cell]
        offloaded = 0
        for kind in range(state.counts.shape[1]):
            stop = end + state.counts[cell, kind]
            backward += prices.backward[speed, kind, stop] - prices.backward[speed, kind, end]
            segment = prices.segments[kind]
            if segment >= 0:
                activation += prices.segment_activation[segment, end, stop]
                working = max(working, prices.segment_working[segment, end, stop])
                end = stop
                continue
            activation += prices.activation[kind, stop] - prices.activation[kind, end]
            if len(prices.offloaded):
                offloaded += prices.offloaded[kind, stop] - prices.offloaded[kind, end]
            if len(prices.working) and stop > end:
                level = 0
                while 2 << level <= stop - end:
                    level += 1
                working = max(
                    working, prices.working[level, kind, end], prices.working[level, kind, stop - (1 << level)]
                )
            end = stop
        state.costs[0, cell] = prices.fixed[0, cell] + prices.forward[speed, end] - prices.forward[speed, begin]
        state.costs[1, cell] = backward
        state.costs[2, cell] = activation
        state.costs[3, cell] = prices.fixed[3, cell] + prices.parameters[end] - prices.parameters[begin]
        state.costs[4, cell] = prices.fixed[4, cell] + prices.weight[speed, end] - prices.weight[speed, begin]
        state.costs[5, cell] = prices.fixed[5, cell] + prices.waiting[end] - prices.waiting[begin]
        state.costs[6, cell] = working
        state.costs[7, cell] = offloaded
        state.costs[8, cell] = int(np.ceil(offloaded * prices.ns_per_byte[cell]))
        if len(prices.types):
            state.costs[9, cell] = prices.most_saved[speed, end] - prices.most_saved[speed, begin]


@compiled
def _pool(rank: int, state: State, memory: Memory, stages: Any) -> int:
    """Return what the keeper of a rank sets aside for it in bytes."""
    most = 0
    for row in range(memory.away_starts[rank], memory.away_starts[rank + 1]):
        total = 0
        for chunk in range(len(stages)):
            total += memory.away[row, chunk] * state.costs[7, stages[chunk, rank]]
        most = max(most, total)
    return most


@compiled
def _in_pairs(rank: int, state: State, prices: Prices, memory: Memory, stages: Any) -> int:
    """Return the most that a rank holds of microbatches while a forward runs beside a backward."""
    num_chunks = len(stages)
    highest = together = 0
    forward = backward = -1
    for row in range(memory.beside_starts[rank], memory.beside_starts[rank + 1]):
        ahead, back = stages[memory.pair_chunks[row, 0], rank], stages[memory.pair_chunks[row, 1], rank]
        if ahead != forward or back != backward:
            forward, backward = ahead, back
            if len(prices.mlp):
                together = _held_beside(
                    prices.activation, prices.mlp, prices.activation_back, prices.mlp_back,
                    prices.ends, prices.releases,
                    forward, state.starts[forward], state.counts[forward],
                    backward, state.starts[backward], state.counts[backward],
                )  # fmt: skip
            else:
                together = state.costs[2, forward] + state.costs[2, backward]
        total = together
        for part in range(len(memory.held)):
            for chunk in range(num_chunks):
                total += (
                    memory.beside[row, part * num_chunks + chunk] * state.costs[memory.held[part], stages[chunk, rank]]
                )
        highest = max(highest, total)
    return highest


@compiled
def _peak(rank: int, state: State, prices: Prices, memory: Memory, stages: Any) -> int:
    """Return the peak memory of a rank in bytes beside the constant."""
    num_chunks = len(stages)
    highest = 0
    for row in range(memory.live_starts[rank], memory.live_starts[rank + 1]):
        total = 0
        for part in range(len(memory.held)):
            for chunk in range(num_chunks):
                live = memory.live[row, part * num_chunks + chunk]
                total += live * state.costs[memory.held[part], stages[chunk, rank]]
        highest = max(highest, total)
    if len(memory.beside_starts):
        highest = max(highest, _in_pairs(rank, state, prices, memory, stages))
    for other in range(len(memory.keepers)):
        if memory.keepers[other] == rank:
            highest += _pool(other, state, memory, stages)
    working = 0
    for chunk in range(num_chunks):
        highest += state.costs[3, stages[chunk, rank]]
        working = max(working, state.costs[6, stages[chunk, rank]])
    return highest + working


@compiled
def _may_hold(content: Any, rules: Rules) -> bool:
    """Return whether the kinds of these counts may share a cell."""
    for family in rules.families:
        fits = True
        for kind in range(len(content)):
            fits = fits and (family[kind] or content[kind] == 0)
        if fits:
            return True
    return False


@compiled
def _change_kind(cell: int, source: int, target: int, state: State, rules: Rules) -> int:
    """Change layers of a cell from kind `source` to `target`; returns their number, 0 where that is not allowed.

    It is one layer, or the whole cell where all of its layers must be alike.
    """
    content = state.counts[cell]
    moved = content[source] if rules.alike else min(1, content[source])
    content[source] -= moved
    content[target] += moved
    allowed = _may_hold(content, rules)
    if rules.full >= 0:
        total = _num_layers(state.counts, cell)
        allowed = allowed and min(rules.least_full, total) <= content[rules.full] <= min(rules.most_full, total)
    if allowed:
        return int(moved)
    content[source] += moved
    content[target] -= moved
    return 0


@compiled
def _give_layer(giver: int, taker: int, source: int, target: int, state: State, rules: Rules) -> bool:
    """Move a layer of kind `source` to another cell as kind `target`, if allowed; returns whether it was.

    Where the number of layers bounds those of a kind, the others of both cells change theirs as far as needed.
    """
    counts = state.counts
    if counts[giver, source] == 0:
        return False
    counts[giver, source] -= 1
    counts[taker, target] += 1
    if rules.full >= 0:
        for cell in (giver, taker):
            total = _num_layers(counts, cell)
            full = min(max(counts[cell, rules.full], rules.least_full), rules.most_full, total)
            for kind in range(counts.shape[1]):
                counts[cell, kind] = 0
            counts[cell, rules.full] = full
            counts[cell, -1] = total - full
    elif not _may_hold(counts[taker], rules):
        counts[giver, source] += 1
        counts[taker, target] -= 1
        return False
    return True


@compiled
def _gain_by_copy(rank: int, other: int, state: State, stages: Any) -> int:
    """Return the number of layers that `rank` would gain with the contents of `other`; _SAME when they are equal."""
    gain, same = 0, True
    for chunk in range(len(stages)):
        for kind in range(state.counts.shape[1]):
            difference = state.counts[stages[chunk, other], kind] - state.counts[stages[chunk, rank], kind]
            gain += difference
            same = same and difference == 0
    return _SAME if same else gain


@compiled
def _copy_neighbours(state: State, rules: Rules, prices: Prices) -> tuple[int, int]:
    """Copy a neighbour's contents to a rank, and where that changes the number of layers, to a second rank likewise.

    Returns the first cells of both ranks, or (-1, -1) where no copy is made. Good plans have the same contents on many
    ranks in a row; this moves the borders between such ranks.
    """
    stages, num_cells = rules.stages, len(state.starts)
    ranks = stages.shape[1]
    first = last = np.random.randint(ranks)
    neighbour = first + (1 if np.random.random() < 0.5 else -1)
    if neighbour < 0 or neighbour >= ranks:
        return -1, -1
    gain = _gain_by_copy(first, neighbour, state, stages)
    if gain == _SAME:
        return -1, -1
    last_neighbour = neighbour
    if gain != 0:
        for _ in range(ranks):
            last = np.random.randint(ranks)
            last_neighbour = last + (1 if np.random.random() < 0.5 else -1)
            if (
                last not in (first, neighbour)
                and last_neighbour != first
                and 0 <= last_neighbour < ranks
                and _gain_by_copy(last, last_neighbour, state, stages) == -gain
            ):
                break
        else:
            return -1, -1
    for own in stages:
        for kind in range(state.counts.shape[1]):
            state.counts[own[first], kind] = state.counts[own[neighbour], kind]
            state.counts[own[last], kind] = state.counts[own[last_neighbour], kind]
    for cell in range(1, num_cells):
        state.starts[cell] = state.starts[cell - 1] + _num_layers(state.counts, cell - 1)
    for own in stages:
        _price(own[first], own[first], state, prices)
        _price(own[last], own[last], state, prices)
    return stages[0, first], stages[0, last]


@compiled
def _shift(giver: int, taker: int, state: State, rules: Rules) -> bool:
    """Move a layer from one cell to another of many, where the number of layers says how many are recomputed."""
    if _num_layers(state.counts, giver) <= rules.min_layers:
        return False
    source = rules.full if state.counts[giver, rules.full] > 0 else state.counts.shape[1] - 1
    return bool(_give_layer(giver, taker, source, source, state, rules))


@compiled
def _price_from(first: int, last: int, state: State, prices: Prices) -> None:
    """Compute starts and costs of the cells first…last anew."""
    for cell in range(first, last):
        state.starts[cell + 1] = state.starts[cell] + _num_layers(state.counts, cell)
    _price(first, last, state, prices)


@compiled
def _move_on_many(state: State, rules: Rules, prices: Prices, memory: Memory) -> tuple[int, int]:
    """Move a layer from one chunk to another on ranks in a row, as far as these fit then; returns as `_propose`.

    Where every cell recomputes K layers, a rank recomputes less with the same layers in fewer cells:

        K = 1   1 1 1 1   four of four   ->   2 1 1 0   three   ->   2 2 0 0   two   ->   4 0 0 0   one

    That makes the step no shorter before the ranks beside it do the same.
    """
    stages = rules.stages
    num_chunks, num_ranks = stages.shape
    source, target = np.random.randint(num_chunks), np.random.randint(num_chunks)
    if source == target:
        return -1, -1
    begin, end = np.random.randint(num_ranks), np.random.randint(num_ranks)
    if np.random.random() < 0.5:
        begin, end = 0, num_ranks - 1
    begin, end = min(begin, end), max(begin, end)
    moved = np.zeros(num_ranks, dtype=np.bool_)
    first, last = len(state.starts), -1
    for rank in range(begin, end + 1):
        if _shift(stages[source, rank], stages[target, rank], state, rules):
            moved[rank] = True
            first = min(first, stages[source, rank], stages[target, rank])
            last = max(last, stages[source, rank], stages[target, rank])
    if last < 0:
        return -1, -1
    _price_from(first, last, state, prices)
    for rank in range(begin, end + 1):
        if moved[rank] and _peak(rank, state, prices, memory, stages) > memory.room[rank]:
            _shift(stages[target, rank], stages[source, rank], state, rules)
    _price_from(first, last, state, prices)
    return first, last


@compiled
def _propose(state: State, rules: Rules, prices: Prices, memory: Memory) -> tuple[int, int]:
    """Change the candidate at random; returns the first and last cell touched, or (-1, -1)."""
    num_cells, num_kinds = state.counts.shape
    if rules.full >= 0 and len(rules.stages) > 1 and np.random.random() < _MOVES_OF_MANY:
        return _move_on_many(state, rules, prices, memory)  # type: ignore[no-any-return]
    if rules.uniform and rules.stages.shape[1] > 2 and np.random.random() < _COPIES:
        return _copy_neighbours(state, rules, prices)  # type: ignore[no-any-return]
    source, target = np.random.randint(num_kinds), np.random.randint(num_kinds)
    giver = np.random.randint(num_cells)
    if num_cells == 1 or np.random.random() < _KIND_CHANGES:
        if source == target or not _change_kind(giver, source, target, state, rules):
            return -1, -1
        _price(giver, giver, state, prices)
        return giver, giver
    taker = np.random.randint(num_cells)
    if not rules.uniform and np.random.random() < _NEAR_MOVES:
        taker = giver + (1 if np.random.random() < 0.5 else -1)
    if taker < 0 or taker >= num_cells or taker == giver or _num_layers(state.counts, giver) <= rules.min_layers:
        return -1, -1
    if np.random.random() < 0.5:
        target = source
    if not _give_layer(giver, taker, source, target, state, rules):
        return -1, -1
    first, last = min(giver, taker), max(giver, taker)
    for cell in range(first, last):
        state.starts[cell + 1] = state.starts[cell] + _num_layers(state.counts, cell)
    if rules.uniform:
        _price(first, first, state, prices)
        _price(last, last, state, prices)
    else:
        _price(first, last, state, prices)
    return first, last


@compiled
def _fit(rank: int, state: State, rules: Rules, prices: Prices, memory: Memory) -> bool:
    """Change kinds on a rank at random, never for more memory, until it fits; returns whether it does."""
    num_kinds = state.counts.shape[1]
    needed = _peak(rank, state, prices, memory, rules.stages)
    for _ in range(_REPAIRS):
        if needed <= memory.room[rank]:
            return True
        cell = rules.stages[np.random.randint(len(rules.stages)), rank]
        source, target = np.random.randint(num_kinds), np.random.randint(num_kinds)
        moved = 0 if source == target else _change_kind(cell, source, target, state, rules)
        if moved == 0:
            continue
        _price(cell, cell, state, prices)
        now = _peak(rank, state, prices, memory, rules.stages)
        if now > needed:
            state.counts[cell, source] += moved
            state.counts[cell, target] -= moved
            _price(cell, cell, state, prices)
        else:
            needed = now
    return bool(needed <= memory.room[rank])


@compiled
def _placed(first: int, last: int, state: State, rules: Rules) -> bool:
    """Return whether the cells first…last hold layers that they may."""
    if not len(rules.banned):
        return True
    for cell in range(first, last + 1):
        start = state.starts[cell]
        end = start + _num_layers(state.counts, cell)
        if rules.banned[cell, end] != rules.banned[cell, start]:
            return False
        if end - start > 1 and rules.alone[end] != rules.alone[start]:
            return False
        if end == start and rules.filled[cell]:
            return False
    return True


@compiled
def _fit_touched(first: int, last: int, state: State, rules: Rules, prices: Prices, memory: Memory) -> bool:
    """Make the ranks of the touched cells fit in memory, then those that keep for them; returns whether all do."""
    begin, end = min(first, last), max(first, last)
    between = max(1, end - begin) if rules.uniform else 1  # equal layers in between stay as they are
    for cell in range(begin, end + 1, between):
        if not _fit(rules.ranks[cell], state, rules, prices, memory):
            return False
    if len(memory.keepers):
        for cell in range(begin, end + 1, between):
            keeper = memory.keepers[rules.ranks[cell]]
            if keeper >= 0 and not _fit(keeper, state, rules, prices, memory):
                return False
    return True


@compiled
def _loads(state: State, stages: Any) -> tuple[int, int]:
    """Return the largest and the summed load of the ranks in ns, for one microbatch.

    Forwards beside backwards save as much as they may: the largest load is a lower bound.
    """
    heaviest = total = 0
    for rank in range(stages.shape[1]):
        load = 0
        for chunk in range(len(stages)):
            cell = stages[chunk, rank]
            load += state.costs[0, cell] + state.costs[1, cell] - state.costs[9, cell]
        heaviest = max(heaviest, load)
        total += load
    return heaviest, total


@compiled
def _price_messages(state: State, order: GraphArrays) -> None:
    """Compute the time that every input travels anew: it is that of the cut between its two cells."""
    for index in range(len(order.messages)):
        if order.crosses_ranks[index]:
            stage, op = order.own_classes[index] // NUM_OPS, order.own_classes[index] % NUM_OPS
            behind = stage if op == FORWARD else stage + 1
            order.messages[index] = order.border_times[state.starts[behind]] + order.links[behind - 1]


@compiled
def _price_pairs(state: State, stages: Any, prices: Prices, durations: Any) -> None:
    """Compute the durations of forwards beside backwards, which have the last classes (see `pair_class`)."""
    num_cells, num_chunks = len(state.starts), len(stages)
    first = len(durations) - num_cells * num_chunks
    for rank in range(stages.shape[1]):
        for chunk in range(num_chunks):
            forward = stages[chunk, rank]
            size = _num_layers(state.counts, forward)
            saved = prices.saved[prices.speeds[forward]]
            for other in range(num_chunks):
                backward = stages[other, rank]
                durations[first + forward * num_chunks + other] = (
                    state.costs[0, forward]
                    + state.costs[1, backward]
                    - _saved_beside(
                        prices.types, saved, state.starts[forward], size, state.starts[backward],
                        _num_layers(state.counts, backward),
                    )
                )  # fmt: skip


@compiled
def _makespan(state: State, order: GraphArrays, rules: Rules, prices: Prices, durations: Any) -> int:
    """Return the exact makespan."""
    for cell in range(len(state.starts)):
        durations[NUM_OPS * cell + FORWARD] = state.costs[0, cell]
        durations[NUM_OPS * cell + FULL_BACKWARD] = state.costs[1, cell]
        if rules.splits_backward:
            durations[NUM_OPS * cell + INPUT_GRADIENT] = state.costs[1, cell] - state.costs[4, cell]
            durations[NUM_OPS * cell + WEIGHT_GRADIENT] = state.costs[4, cell]
        durations[NUM_OPS * len(state.starts) + cell] = state.costs[8, cell]
    if len(prices.types):
        _price_pairs(state, rules.stages, prices, durations)
    if len(order.border_times):
        _price_messages(state, order)
    if len(order.receivers):
        _longest_path_in_turn(
            order.rank_predecessors, order.dependencies, order.classes, durations, order.messages, order.latency,
            order.receivers, order.senders, order.arrivals, order.free, order.ends,
        )  # fmt: skip
    elif len(order.messages):
        _longest_path_with_messages(
            order.rank_predecessors, order.dependencies, order.classes, durations, order.messages, order.ends
        )
    else:
        _longest_path(order.rank_predecessors, order.dependencies, order.classes, durations, order.ends)
    makespan = 0
    for position in order.rank_lasts:
        makespan = max(makespan, order.ends[position])
    return makespan


@compiled
def _copy(source: State, target: State) -> None:
    """Copy a plan with its costs; element by element, as a copy of slices takes the compiler seconds."""
    num_cells, num_kinds = source.counts.shape
    for cell in range(num_cells):
        for kind in range(num_kinds):
            target.counts[cell, kind] = source.counts[cell, kind]
        target.starts[cell] = source.starts[cell]
        for cost in range(len(source.costs)):
            target.costs[cost, cell] = source.costs[cost, cell]


@compiled
def _new_state(counts: Any, prices: Prices) -> State:
    num_cells = len(counts)
    starts = np.zeros(num_cells, dtype=np.int64)
    for cell in range(1, num_cells):
        starts[cell] = starts[cell - 1] + _num_layers(counts, cell - 1)
    state = State(counts.copy(), starts, np.zeros((10, num_cells), dtype=np.int64))
    _price(starts[0], num_cells - 1, state, prices)  # a literal 0 would be compiled as another type
    return state


@compiled
def anneal(
    seed: int,
    steps: int,
    hot: float,
    cold: float,
    counts: Any,
    best_counts: Any,
    best: int,
    rules: Rules,
    prices: Prices,
    memory: Memory,
    order: GraphArrays,
) -> int:
    """Anneal from `counts` [num_cells, num_kinds], which must fit; returns the best makespan seen, at most `best`.

    `hot` and `cold` are temperatures in ns. `best_counts` is overwritten whenever a shorter step is found. The
    threshold for acceptance is drawn first, so a candidate whose heaviest rank alone exceeds it is never evaluated.
    """
    np.random.seed(seed)
    current = _new_state(counts, prices)
    candidate = _new_state(counts, prices)
    # Of copies and pairs too, whether there are any or not.
    num_durations = (NUM_OPS + 1) * len(counts) + 1 + len(counts) * len(rules.stages)
    durations = np.zeros(num_durations, dtype=np.int64)
    energy = np.inf
    cooling = (cold / hot) ** (1.0 / max(1, steps))
    temperature = hot
    for step in range(-1, steps):  # step -1 evaluates the start
        temperature *= cooling
        if step >= 0:
            first, last = _propose(candidate, rules, prices, memory)
            if first < 0:
                continue
            placed = _placed(first, last, candidate, rules)
            if not placed or not _fit_touched(first, last, candidate, rules, prices, memory):
                _copy(current, candidate)
                continue
        threshold = energy - temperature * np.log(1.0 - np.random.random())
        heaviest, total = _loads(candidate, rules.stages)
        extra = _LOAD_WEIGHT * rules.num_units * total / rules.stages.shape[1]
        if heaviest * rules.num_units + extra > threshold:
            _copy(current, candidate)
            continue
        makespan = _makespan(candidate, order, rules, prices, durations)
        if makespan < best:
            best = makespan
            for cell in range(len(counts)):
                for kind in range(counts.shape[1]):
                    best_counts[cell, kind] = candidate.counts[cell, kind]
        if makespan + extra <= threshold:
            energy = makespan + extra
            _copy(candidate, current)
        else:
            _copy(current, candidate)
    return best
