"""The loop of the game of plans and paths (see `play`) and its parts: plain loops over arrays, compiled when used.

Importing this module imports the compiler; only a game does, when it starts.
"""

from typing import Any, NamedTuple

import numpy as np

from evenflow.simulate.compiled import compiled
from evenflow.solve.cuts.cut_kernels import follow, sweep
from evenflow.solve.master.path_kernels import count_paths, heads_and_tails

_sweep, _follow = compiled(sweep), compiled(follow)
_heads_and_tails, _count_paths = compiled(heads_and_tails), compiled(count_paths)

GOES_ON, REFUTED, WITHIN, CLOSED, SHRUNK = 0, 1, 2, 3, 4
"""What turns came to: nothing yet; a mixture that no plan is within the target under; a plan that is; that there is no
such mixture, or hardly a better one than the best; or that most arcs are on no plan within the target any more."""
_MOST_ROUNDS, _ROUNDS = 100, 25
"""Rounds of a mixing at most, and those between two looks at how good it is."""
_VIOLATION = 1e-5
"""Fraction by which a path must exceed the longest one of a game to be missing from it."""


class Board(NamedTuple):
    """What a game is played on."""

    starts: Any
    """This and the next three: the arcs that are left (see `CutGraph`)."""
    sources: Any
    targets: Any
    durations: Any
    arcs: Any
    """The index of each in the whole graph."""
    alive: Any
    """Takes whether each is on a plan within the target under the latest mixture."""
    slot_classes: Any
    """Class of each duration of an arc, shape [num_steps, num_slots]."""
    ranks: Any
    """This and the next six: the dependency graph of a step (see `Graph` and `CriticalPaths`)."""
    rank_predecessors: Any
    dependencies: Any
    successors: Any
    classes: Any
    action_classes: Any
    messages: Any


class GameState(NamedTuple):
    """Where a game stands. There is room for more plans and paths than it has."""

    plans: Any
    """Durations of each plan, shape [most_plans, num_steps * num_slots]."""
    plan_arcs: Any
    """Its arcs in the whole graph, shape [most_plans, num_steps]."""
    paths: Any
    """Counts of each duration, then the time of messages, shape [most_paths, num_steps * num_slots + 1]."""
    times: Any
    """By how much each path exceeds the target under each plan, as a fraction of it, shape [most_paths, most_plans]."""
    plan_regrets: Any
    """How much better each would have been than what was mixed so far, but at least 0; shape [most_plans]."""
    path_regrets: Any
    """The same of paths."""
    plan_shares: Any
    """The latest mixture."""
    path_shares: Any
    mixture: Any
    """The mixture of paths that is to be answered, shape [num_steps * num_slots + 1]."""
    best: Any
    """The one that bounds best."""
    mean: Any
    """Scratch for mean durations."""
    numbers: Any
    """Plans, paths and turns so far."""
    bound: Any
    """The best bound in ns, shape [1]."""


class Scratch(NamedTuple):
    """Room for what a turn computes."""

    weights: Any
    """Of each duration, shape [num_steps, num_slots]."""
    behind: Any
    """Of `sweep`, as are the next two."""
    before: Any
    lengths: Any
    plan: Any
    """An arc of each step."""
    table: Any
    """Durations of each class."""
    heads: Any
    """Of `heads_and_tails`."""
    tails: Any
    counts: Any
    """Of `count_paths`, as are the next two."""
    message_counts: Any
    message_times: Any


def play_turns(
    board: Board, game: GameState, scratch: Scratch, target: float, close: float, noise: float, shrunk: float, most: int
) -> int:
    """Play at most `most` turns; returns what they came to.

    The game is closed once its value is within `close` of the best bound, a fraction of the target. Under a mixture,
    plans are within the target up to `noise`, a fraction of it. The arcs have shrunk where fewer than the fraction
    `shrunk` of them are left. (All are arguments since machine code that is kept on the disk keeps constants too.)
    """
    num_steps, num_slots = board.slot_classes.shape
    numbers, mixture, best = game.numbers, game.mixture, game.best
    plans, paths, times, mean = game.plans, game.paths, game.times, game.mean
    plan_regrets, path_regrets = game.plan_regrets, game.path_regrets
    plan_shares, path_shares = game.plan_shares, game.path_shares
    num_arcs = len(board.sources)
    table, heads, counts = scratch.table, scratch.heads, scratch.counts
    for _turn in range(most):
        numbers[2] += 1
        message_ns = mixture[len(mixture) - 1]
        for step in range(num_steps):
            for slot in range(num_slots):
                scratch.weights[step, slot] = mixture[step * num_slots + slot]
        _sweep(
            board.starts, board.sources, board.targets, board.durations, scratch.weights,
            target * (1 + noise) - message_ns, scratch.behind, scratch.before, scratch.lengths, board.alive,
        )  # fmt: skip
        num_alive = 0
        for arc in range(num_arcs):
            num_alive += board.alive[arc]
        if num_alive == 0:
            return REFUTED
        bound = scratch.behind[0, 0] + message_ns
        if bound > game.bound[0]:
            game.bound[0] = bound
            for place in range(len(mixture)):
                best[place] = mixture[place]
        _follow(board.starts, board.sources, board.targets, scratch.lengths, scratch.behind, scratch.plan)
        number = numbers[0]
        for step in range(num_steps):
            game.plan_arcs[number, step] = board.arcs[scratch.plan[step]]
            for slot in range(num_slots):
                plans[number, step * num_slots + slot] = board.durations[scratch.plan[step], slot]
        numbers[0] += 1
        plan_regrets[number] = 0.0
        for path in range(numbers[1]):
            times[path, number] = _excess(paths, path, plans, number, target)
        value, above = 0.0, -1
        for of_mean in range(2):
            for step in range(num_steps):
                for slot in range(num_slots):
                    place = step * num_slots + slot
                    table[board.slot_classes[step, slot]] = int(mean[place] if of_mean else plans[number, place])
            _heads_and_tails(
                board.rank_predecessors, board.dependencies, board.classes, table, board.messages, heads, scratch.tails
            )
            longest = 0
            for position in range(len(heads)):
                longest = max(longest, heads[position])
            if longest <= target:
                # No mixture of paths refutes plans that have a mixture within the target.
                return CLOSED if of_mean else WITHIN
            if longest > above:
                for rank in range(len(counts)):
                    scratch.message_times[rank] = 0
                    for kind in range(counts.shape[1]):
                        counts[rank, kind] = 0
                num_new = _count_paths(
                    board.ranks, board.rank_predecessors, board.dependencies, board.successors, board.classes,
                    board.action_classes, table, board.messages, heads, scratch.tails, above, counts,
                    scratch.message_counts, scratch.message_times,
                )  # fmt: skip
                if numbers[1] + num_new > len(paths):
                    numbers[1] = _drop_paths(paths, times, path_regrets, path_shares, numbers[1])
                numbers[1] = _add_paths(
                    counts, num_new, scratch.message_times, board.slot_classes, plans, paths, times, path_regrets,
                    path_shares, numbers[1], numbers[0], target,
                )  # fmt: skip
            elif value <= max(target, game.bound[0] + close * target):
                return CLOSED
            if not of_mean:
                value = mix(
                    times, plan_regrets, path_regrets, plan_shares, path_shares, numbers[0], numbers[1], target
                )  # fmt: skip
                above = int(value * (1 + _VIOLATION))
                for place in range(len(mean)):
                    mean[place] = 0.0
                    for number in range(numbers[0]):
                        mean[place] += plan_shares[number] * plans[number, place]
        # Between the best and the latest mixture the bound is steadier than at either.
        steady = numbers[2] % 3 != 0
        for place in range(len(mixture)):
            latest = 0.0
            for path in range(numbers[1]):
                latest += path_shares[path] * paths[path, place]
            mixture[place] = (best[place] + latest) / 2 if steady else latest
        if numbers[0] == len(plans):
            return CLOSED
        if num_alive < shrunk * num_arcs:
            return SHRUNK
    return GOES_ON


@compiled
def _excess(paths: Any, path: int, plans: Any, plan: int, target: float) -> float:
    """Return by how much a path exceeds the target under a plan, as a fraction of it."""
    num_slots = plans.shape[1]
    total = paths[path, num_slots]
    for slot in range(num_slots):
        total += paths[path, slot] * plans[plan, slot]
    return float(total / target - 1)


@compiled
def _add_paths(
    counts: Any,
    num_new: int,
    message_times: Any,
    slot_classes: Any,
    plans: Any,
    paths: Any,
    times: Any,
    regrets: Any,
    shares: Any,
    num_paths: int,
    num_plans: int,
    target: float,
) -> int:
    """Add paths with the first of `counts` [num_ranks, num_classes] if they are new; returns how many there are."""
    num_steps, num_slots = slot_classes.shape
    last = num_steps * num_slots
    for new in range(num_new):
        if num_paths == len(paths):
            break
        for step in range(num_steps):
            for slot in range(num_slots):
                paths[num_paths, step * num_slots + slot] = counts[new, slot_classes[step, slot]]
        paths[num_paths, last] = message_times[new]
        is_known = False
        for known in range(num_paths):
            place = 0
            while place <= last and paths[known, place] == paths[num_paths, place]:
                place += 1
            if place > last:
                is_known = True
                break
        if not is_known:
            regrets[num_paths], shares[num_paths] = 0.0, 0.0
            for plan in range(num_plans):
                times[num_paths, plan] = _excess(paths, num_paths, plans, plan, target)
            num_paths += 1
    return num_paths


@compiled
def _drop_paths(paths: Any, times: Any, regrets: Any, shares: Any, num_paths: int) -> int:
    """Drop the paths that are not mixed and would not have been better than what was; returns how many are left."""
    kept = 0
    for path in range(num_paths):
        if regrets[path] > 0 or shares[path] > 0:
            for place in range(paths.shape[1]):
                paths[kept, place] = paths[path, place]
            for plan in range(times.shape[1]):
                times[kept, plan] = times[path, plan]
            regrets[kept], shares[kept] = regrets[path], shares[path]
            kept += 1
    return kept


@compiled
def mix(
    times: Any,
    plan_regrets: Any,
    path_regrets: Any,
    plan_shares: Any,
    path_shares: Any,
    num_plans: int,
    num_paths: int,
    target: float,
) -> float:
    """Fill in good mixtures of plans and of paths; returns the time of the longest path under that of plans.

    Either side mixes its strategies by what it regrets not to have played, in turns, and the mean of its mixtures
    counts, later ones more. That converges to the best mixtures, fast where regrets are never negative; it goes on from
    the regrets of the last time. [regret matching: Hart & Mas-Colell, Econometrica 68, 2000]
    """
    plans, paths = np.empty(num_plans), np.empty(num_paths)
    by_plan, by_path = np.empty(num_plans), np.empty(num_paths)
    plan_sums, path_sums = np.zeros(num_plans), np.zeros(num_paths)
    of_plans = np.empty((num_plans, num_paths))
    for path in range(num_paths):
        for plan in range(num_plans):
            of_plans[plan, path] = times[path, plan]
    _shares(plan_regrets, plans)
    _shares(path_regrets, paths)
    total, longest = 0.0, 0.0
    for turn in range(1, _MOST_ROUNDS + 1):
        mean, _shortest = _plan_times(times, paths, plans, by_plan)
        for plan in range(num_plans):
            plan_regrets[plan] = max(0.0, plan_regrets[plan] + mean - by_plan[plan])
        _shares(plan_regrets, plans)
        mean, _longest = _path_times(of_plans, plans, paths, by_path)
        for path in range(num_paths):
            path_regrets[path] = max(0.0, path_regrets[path] + by_path[path] - mean)
            path_sums[path] += turn * paths[path]
        _shares(path_regrets, paths)
        for plan in range(num_plans):
            plan_sums[plan] += turn * plans[plan]
        total += turn
        if turn % _ROUNDS == 0:
            _mean, longest = _path_times(of_plans, plan_sums, paths, by_path)
            _mean, shortest = _plan_times(times, path_sums, plans, by_plan)
            if longest - shortest <= _VIOLATION * total:
                break
    for plan in range(num_plans):
        plan_shares[plan] = plan_sums[plan] / total
    for path in range(num_paths):
        path_shares[path] = path_sums[path] / total
    return float((1 + longest / total) * target)


@compiled
def _shares(regrets: Any, shares: Any) -> None:
    """Fill `shares` in proportion to regrets; even ones where nothing is regretted."""
    total = 0.0
    for place in range(len(shares)):
        total += regrets[place]
    for place in range(len(shares)):
        shares[place] = regrets[place] / total if total > 0 else 1.0 / len(shares)


@compiled
def _plan_times(times: Any, paths: Any, plans: Any, result: Any) -> tuple[float, float]:
    """Fill `result` [num_plans] with the time of each plan under a mixture of paths.

    Returns the mean of mixed plans and the least.
    """
    for plan in range(len(result)):
        result[plan] = 0.0
    for path in range(len(paths)):
        if paths[path] > 0:
            for plan in range(len(result)):
                result[plan] += paths[path] * times[path, plan]
    mean, least = 0.0, result[0]
    for plan in range(len(result)):
        mean += plans[plan] * result[plan]
        least = min(least, result[plan])
    return mean, least


@compiled
def _path_times(times: Any, plans: Any, paths: Any, result: Any) -> tuple[float, float]:
    """Fill `result` [num_paths] with the time of each path under a mixture of plans; `times` [num_plans, num_paths].

    Returns the mean of mixed paths and the most.
    """
    for path in range(len(result)):
        result[path] = 0.0
    for plan in range(len(plans)):
        if plans[plan] > 0:
            for path in range(len(result)):
                result[path] += plans[plan] * times[plan, path]
    mean, most = 0.0, -np.inf
    for path in range(len(result)):
        mean += paths[path] * result[path]
        most = max(most, result[path])
    return mean, most
