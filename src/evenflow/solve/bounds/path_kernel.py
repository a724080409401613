"""Longest paths through an order of work, and what a mixture of them proves of every cut."""

from typing import Any, NamedTuple

import numpy as np

from evenflow.simulate.compiled import compiled
from evenflow.solve.bounds.game_kernel import solve_game

_ROUNDS = 24
_HALVINGS = 40
_NEAR = 1e-3
"""Share of the bound within which the step of a cut shows that no further path proves much more."""
_STEP = 0.4
"""Share of the way from the best cut to the one that known paths say is best: there, too few paths are known."""
_KEPT = 40
"""Paths from which on those that are not in the mixture are forgotten."""


class PathOrder(NamedTuple):
    """An order of work as paths go through it, and the layers that its stages share out."""

    rank_predecessors: Any
    dependencies: Any
    classes: Any
    """All three of `Graph`, but that what follows the last action of a rank is an operation too, the last one."""
    ranks: Any
    """Rank of each action, shape [num_actions]."""
    lasts: Any
    """Position of each rank's last action, shape [num_ranks]."""
    stage_ranks: Any
    """Rank of each stage, shape [num_stages]."""
    arrivals: Any
    """Time in which what an action needs arrives, by class, shape [num_stages * num_ops]."""
    fixed: Any
    """What an action takes without layers, shape [num_stages, num_ops]."""
    times: Any
    """What a layer of each type adds to it, shape [num_types, num_ops]."""
    numbers: Any
    """Layers of each type, shape [num_types]."""
    least: float
    """Fewest layers of a stage."""


@compiled
def mixture_bound(order: PathOrder) -> float:
    """Return a lower bound on the step of every cut.

    In turn, the paths that are known say which cut is best, and the longest paths near that cut become known. Layers
    are all like their mean for that, but not in the bound.
    """
    num_stages, num_ops = order.fixed.shape
    num_ranks, layers = len(order.lasts), order.numbers.sum()
    mean = (order.numbers.reshape(-1, 1) * order.times).sum(axis=0) / layers
    spare = layers - order.least * num_stages
    most = _KEPT + 2 * num_ranks + num_stages
    counts, constant = np.zeros((most, num_stages, num_ops)), np.zeros(most)
    cut = _balanced(order, mean)
    best_cut, shortest = cut, np.inf
    _along_ranks(order, cut, mean, counts[:num_ranks], constant[:num_ranks])
    bound, known = 0.0, num_ranks
    for _ in range(_ROUNDS):
        step, num_new = _longest(
            order, cut, mean, counts[known : known + num_ranks], constant[known : known + num_ranks]
        )
        known += num_new
        if step < shortest:
            best_cut, shortest = cut, step
        if shortest <= bound * (1 + _NEAR):
            break
        layer_ns = np.zeros((known, num_stages))
        for op in range(num_ops):
            layer_ns += counts[:known, :, op] * mean[op]
        pays = spare * layer_ns + (constant[:known] + order.least * layer_ns.sum(axis=1)).reshape(-1, 1)
        shares, stages = solve_game(pays)
        bound = max(bound, _least_time(order, counts[:known], constant[:known], shares))
        if known > _KEPT:
            known = _keep(counts, constant, shares)
        cut = _STEP * (order.least + spare * stages) + (1 - _STEP) * best_cut
    return bound


@compiled
def _balanced(order: PathOrder, mean: Any) -> Any:
    """Return a cut in which no rank has more to do in a microbatch than it must, fixed work included."""
    num_stages, num_ops = order.fixed.shape
    num_ranks, num_chunks = len(order.lasts), num_stages // len(order.lasts)
    fixed = np.zeros(num_ranks)
    for stage in range(num_stages):  # an action is either whole or split: half of both is its time
        fixed[order.stage_ranks[stage]] += order.fixed[stage, : num_ops - 1].sum() / 2
    layer_ns = max(mean[: num_ops - 1].sum() / 2, 1e-9)
    low, high = 0.0, (fixed.sum() + order.numbers.sum() * layer_ns)
    least = order.least * num_chunks
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if np.maximum((middle - fixed) / layer_ns, least).sum() < order.numbers.sum():
            low = middle
        else:
            high = middle
    of_rank = np.maximum((high - fixed) / layer_ns, least)
    cut = np.zeros(num_stages)
    for stage in range(num_stages):
        cut[stage] = of_rank[order.stage_ranks[stage]] / num_chunks
    return cut * (order.numbers.sum() / cut.sum())


@compiled
def _keep(counts: Any, constant: Any, shares: Any) -> int:
    """Put the paths that are in a mixture first; returns their number, at most one for each stage."""
    kept = 0
    for path in range(len(shares)):
        if shares[path] > 0:
            counts[kept], constant[kept] = counts[path], constant[path]
            kept += 1
    return kept


@compiled
def _least_time(order: PathOrder, counts: Any, constant: Any, shares: Any) -> float:
    """Return the least time of a mixture of paths over all contents of stages.

    Every layer costs what it does on the stage where its type costs least. A stage on which every type costs more than
    that has its fewest layers, and they cost as much more.
    """
    num_stages, num_ops = order.fixed.shape
    mixed = np.zeros((num_stages, num_ops))
    bound = 0.0
    for path in range(len(shares)):
        bound += shares[path] * constant[path]
        mixed += shares[path] * counts[path]
    more = np.full(num_stages, np.inf)
    for kind in range(len(order.times)):
        cost = np.zeros(num_stages)
        for op in range(num_ops):
            cost += mixed[:, op] * order.times[kind, op]
        bound += order.numbers[kind] * cost.min()
        more = np.minimum(more, cost - cost.min())
    return float(bound + order.least * more.sum())


@compiled
def _longest(order: PathOrder, cut: Any, mean: Any, counts: Any, constant: Any) -> tuple[float, int]:
    """Return the step of a cut, and the number of different longest paths through its ranks.

    Fills `counts` [num_ranks, num_stages, num_ops] with the actions on these, and `constant` [num_ranks] with what they
    take without layers.
    """
    count = len(order.classes)
    lengths = _lengths(order, cut, mean)
    heads, tails, _onward, _arrival = lengths
    step = (heads[order.lasts] + tails[order.lasts]).max()
    tops = np.zeros(len(counts), dtype=np.int64)
    for index in range(count):
        top = tops[order.ranks[index]]
        if top == 0 or heads[index + 1] + tails[index + 1] > heads[top] + tails[top]:
            tops[order.ranks[index]] = index + 1
    is_on_path = np.zeros(count + 1, dtype=np.bool_)
    num_paths = 0
    for top in tops:
        if is_on_path[top]:
            continue
        counts[num_paths], constant[num_paths] = 0.0, 0.0
        _count(order, top, counts[num_paths])
        constant[num_paths] += _count_around(order, lengths, top, top, counts[num_paths], is_on_path)
        num_paths += 1
    return float(step), num_paths


@compiled
def _along_ranks(order: PathOrder, cut: Any, mean: Any, counts: Any, constant: Any) -> None:
    """Fill `counts` and `constant`, as `_longest` does, with the paths through all that each rank does.

    Ranks whose loads are even have equal steps: looked for one by one, their paths would need as many rounds.
    """
    lengths, num_ranks = _lengths(order, cut, mean), len(order.lasts)
    firsts, is_on_path = np.zeros(num_ranks, dtype=np.int64), np.zeros(len(order.classes) + 1, dtype=np.bool_)
    counts[:], constant[:] = 0.0, 0.0
    for index in range(len(order.classes)):
        rank = order.ranks[index]
        firsts[rank] = firsts[rank] or index + 1
        _count(order, index + 1, counts[rank])
    for rank in range(num_ranks):
        constant[rank] = _count_around(order, lengths, firsts[rank], order.lasts[rank], counts[rank], is_on_path)


@compiled
def _lengths(order: PathOrder, cut: Any, mean: Any) -> tuple[Any, Any, Any, Any]:
    """Return how long the longest paths are up to each action, and behind it; the next action there, when it comes."""
    count, num_ops = len(order.classes), order.fixed.shape[1]
    durations = (order.fixed + cut.reshape(-1, 1) * mean).ravel()
    heads, tails = np.zeros(count + 1), np.zeros(count + 1)
    for index in range(count):
        kind = order.classes[index]
        ready = heads[order.dependencies[index]] + order.arrivals[kind]
        heads[index + 1] = max(ready, heads[order.rank_predecessors[index]]) + durations[kind]
    onward, arrival = np.zeros(count + 1, dtype=np.int64), np.zeros(count + 1)
    for stage in range(len(order.fixed)):
        tails[order.lasts[order.stage_ranks[stage]]] += durations[stage * num_ops + num_ops - 1]
    for index in range(count - 1, -1, -1):
        kind = order.classes[index]
        through = tails[index + 1] + durations[kind]
        before = order.rank_predecessors[index]
        if tails[before] < through:
            tails[before], onward[before], arrival[before] = through, index + 1, 0.0
        before, through = order.dependencies[index], through + order.arrivals[kind]
        if tails[before] < through:
            tails[before], onward[before], arrival[before] = through, index + 1, order.arrivals[kind]
    return heads, tails, onward, arrival


@compiled
def _count_around(
    order: PathOrder, lengths: tuple[Any, Any, Any, Any], first: int, last: int, counts: Any, is_on_path: Any
) -> float:
    """Count the longest path before the action at `first` and behind that at `last`, all of which are then on a path.

    Returns what the path takes without layers, messages included.
    """
    heads, _tails, onward, arrival = lengths
    num_ops, constant, position = order.fixed.shape[1], 0.0, int(last)
    is_on_path[first] = is_on_path[last] = True
    while onward[position] > 0:
        constant += arrival[position]
        position = int(onward[position])
        _count(order, position, counts)
        is_on_path[position] = True
    counts[order.stage_ranks == order.ranks[position - 1], num_ops - 1] = 1.0
    position = int(first)
    while True:
        index = position - 1
        comes = order.arrivals[order.classes[index]]
        if heads[order.rank_predecessors[index]] >= heads[order.dependencies[index]] + comes:
            position = int(order.rank_predecessors[index])
        else:
            constant += comes
            position = int(order.dependencies[index])
        if position == 0:
            return float(constant + (counts * order.fixed).sum())
        _count(order, position, counts)
        is_on_path[position] = True


@compiled
def _count(order: PathOrder, position: int, counts: Any) -> None:
    """Count the action at a position as one of a path."""
    num_ops = order.fixed.shape[1]
    kind = order.classes[position - 1]
    counts[kind // num_ops, kind % num_ops] += 1
