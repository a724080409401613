"""Dealing layers to ranks so that the slowest is as fast as can be, each with the least recomputation that fits.

Importing this module imports the compiler; only a search does, when it starts.
"""

from typing import Any

import numpy as np

from evenflow.simulate.compiled import compiled
from evenflow.solve.search.annealing_kernel import (
    Memory,
    Prices,
    Rules,
    State,
    _change_kind,
    _in_pairs,
    _new_state,
    _num_layers,
    _placed,
    _price,
)

_TAKERS = 4
"""Ranks that are tried to take a layer of the slowest one."""


@compiled
def _excess(rank: int, state: State, prices: Prices, memory: Memory, stages: Any) -> int:
    """Return by how many bytes a rank does not fit, summed over its live vectors and once for its pairs.

    Less is nearer to fitting.
    """
    num_chunks = len(stages)
    static = working = 0
    for chunk in range(num_chunks):
        static += state.costs[3, stages[chunk, rank]]
        working = max(working, state.costs[6, stages[chunk, rank]])
    excess = 0
    for row in range(memory.live_starts[rank], memory.live_starts[rank + 1]):
        total = static + working - memory.room[rank]
        for part in range(len(memory.held)):
            for chunk in range(num_chunks):
                live = memory.live[row, part * num_chunks + chunk]
                total += live * state.costs[memory.held[part], stages[chunk, rank]]
        excess += max(0, total)
    if len(memory.beside_starts):
        in_pairs = _in_pairs(rank, state, prices, memory, stages)
        excess += max(0, static + working - memory.room[rank] + in_pairs)
    return excess


@compiled
def _make_plain(cell: int, layers: int, state: State, rules: Rules) -> None:
    """Give a cell so many layers, under the last kind that they may be under: `none` where that is allowed."""
    content = state.counts[cell]
    content[:] = 0
    if rules.full >= 0:
        content[rules.full] = min(rules.least_full, layers)
        content[-1] = layers - content[rules.full]
        return
    last = 0
    for family in rules.families:
        for kind in range(len(content)):
            if family[kind]:
                last = max(last, kind)
    content[last] = layers


@compiled
def _try(
    cell: int, source: int, target: int, rank: int, state: State, rules: Rules, prices: Prices, memory: Memory
) -> tuple[int, int, int]:
    """Return how many layers a change of kind moves, and excess and backward of the cell after it; change nothing."""
    moved = _change_kind(cell, source, target, state, rules)
    if moved == 0:
        return 0, 0, 0
    _price(cell, cell, state, prices)
    excess, backward = _excess(rank, state, prices, memory, rules.stages), state.costs[1, cell]
    state.counts[cell, source] += moved
    state.counts[cell, target] -= moved
    _price(cell, cell, state, prices)
    return moved, excess, backward


@compiled
def _fit_least(rank: int, state: State, rules: Rules, prices: Prices, memory: Memory) -> int:
    """Recompute on a rank where a byte costs least until it fits, then no more than needed; returns the excess left."""
    num_kinds = state.counts.shape[1]
    excess = _excess(rank, state, prices, memory, rules.stages)
    changed = False
    while excess > 0:
        best, best_cell, best_source, best_target = np.inf, -1, 0, 0
        for own in rules.stages:
            cell = own[rank]
            for source in range(num_kinds):
                for target in range(num_kinds):
                    if source == target or state.counts[cell, source] == 0:
                        continue
                    moved, left, backward = _try(cell, source, target, rank, state, rules, prices, memory)
                    if moved == 0 or left >= excess:
                        continue
                    price = (backward - state.costs[1, cell] + 1) / (excess - left)
                    if price < best:
                        best, best_cell, best_source, best_target = price, cell, source, target
        if best_cell < 0:
            return int(excess)
        _change_kind(best_cell, best_source, best_target, state, rules)
        _price(best_cell, best_cell, state, prices)
        excess = _excess(rank, state, prices, memory, rules.stages)
        changed = True
    while changed:
        changed = False
        best, best_cell, best_source, best_target = 0.0, -1, 0, 0
        for own in rules.stages:
            cell = own[rank]
            for source in range(num_kinds):
                for target in range(num_kinds):
                    if source == target or state.counts[cell, source] == 0:
                        continue
                    moved, left, backward = _try(cell, source, target, rank, state, rules, prices, memory)
                    if moved > 0 and left == 0 and state.costs[1, cell] - backward > best:
                        best = float(state.costs[1, cell] - backward)
                        best_cell, best_source, best_target = cell, source, target
        if best_cell >= 0:
            _change_kind(best_cell, best_source, best_target, state, rules)
            _price(best_cell, best_cell, state, prices)
            changed = True
    return 0


@compiled
def _load(rank: int, state: State, rules: Rules) -> int:
    """Return how long a rank works and waits for others before its first and after its last work, in ns."""
    first = len(state.starts)
    work = 0
    for own in rules.stages:
        cell = own[rank]
        first = min(first, cell)
        work += state.costs[0, cell] + state.costs[1, cell]
    wait = 0
    for cell in range(first):
        wait += state.costs[0, cell]
        if not rules.splits_backward:
            wait += state.costs[1, cell]
    return rules.num_units * work + wait


@compiled
def _move(giver: int, taker: int, state: State, rules: Rules, prices: Prices, memory: Memory, excess: Any) -> None:
    """Move a layer from one cell to another, with those between where layers differ, and fit all ranks touched."""
    for cell, change in ((giver, -1), (taker, 1)):
        _make_plain(cell, _num_layers(state.counts, cell) + change, state, rules)
    first, last = min(giver, taker), max(giver, taker)
    for cell in range(first, last):
        state.starts[cell + 1] = state.starts[cell] + _num_layers(state.counts, cell)
    fitted = np.zeros(len(excess), dtype=np.bool_)
    for place in range(first, last + 1):
        if rules.uniform and place not in (giver, taker):
            continue
        fitted[rules.ranks[place]] = True
    for rank in range(len(excess)):
        if not fitted[rank]:
            continue
        for own in rules.stages:
            _make_plain(own[rank], _num_layers(state.counts, own[rank]), state, rules)
            _price(own[rank], own[rank], state, prices)
        excess[rank] = _fit_least(rank, state, rules, prices, memory)


@compiled
def _is_worse(excess: int, load: int, other_excess: int, other_load: int) -> bool:
    return excess > other_excess or (excess == other_excess and load > other_load)


@compiled
def _worst(state: State, rules: Rules, excess: Any, loads: Any) -> int:
    """Return the rank that fits least, or takes longest where all fit; fills the loads."""
    worst = 0
    for rank in range(len(excess)):
        loads[rank] = _load(rank, state, rules)
        if _is_worse(excess[rank], loads[rank], excess[worst], loads[worst]):
            worst = rank
    return worst


@compiled
def deal(counts: Any, moves: int, rules: Rules, prices: Prices, memory: Memory) -> bool:
    """Move layers of `counts` [num_cells, num_kinds] off the worst rank, one at a time; returns whether all ranks fit.

    At most `moves` are made; with none the layers stay where they are, and only their kinds are chosen.
    """
    num_ranks = rules.stages.shape[1]
    state = _new_state(counts, prices)
    for cell in range(len(counts)):
        _make_plain(cell, _num_layers(counts, cell), state, rules)
    _price(state.starts[0], len(counts) - 1, state, prices)
    excess = np.zeros(num_ranks, dtype=np.int64)
    loads = np.zeros(num_ranks, dtype=np.int64)
    for rank in range(num_ranks):
        excess[rank] = _fit_least(rank, state, rules, prices, memory)
    worst = _worst(state, rules, excess, loads)
    for _ in range(moves):
        kept = (state.counts.copy(), state.starts.copy(), state.costs.copy(), excess.copy(), loads.copy())
        giver = -1
        for own in rules.stages:
            cell = own[worst]
            if _num_layers(state.counts, cell) > rules.min_layers and (
                giver < 0 or _num_layers(state.counts, cell) > _num_layers(state.counts, giver)
            ):
                giver = cell
        if giver < 0:
            break
        order = np.argsort(loads)
        better = False
        tried = 0
        for rank in order:
            if rank == worst or excess[rank] > 0:
                continue
            tried += 1
            if tried > _TAKERS:
                break
            taker = rules.stages[0, rank]
            for own in rules.stages:
                if _num_layers(state.counts, own[rank]) < _num_layers(state.counts, taker):
                    taker = own[rank]
            _move(giver, taker, state, rules, prices, memory, excess)
            now = _worst(state, rules, excess, loads)
            placed = _placed(state.starts[0], len(counts) - 1, state, rules)  # a literal 0 is another type
            if placed and _is_worse(kept[3][worst], kept[4][worst], excess[now], loads[now]):
                worst, better = now, True
                break
            state.counts[:], state.starts[:], state.costs[:] = kept[0], kept[1], kept[2]
            excess[:], loads[:] = kept[3], kept[4]
        if not better:
            break
    counts[:] = state.counts
    return bool(excess.max() == 0)
