"""The loop of a trial (see `trial`) and its parts: plain loops over arrays, compiled when used.

Importing this module imports the compiler; only a trial does, when it starts.
"""

from typing import Any, NamedTuple

import numpy as np

from evenflow.simulate.compiled import compiled
from evenflow.solve.master.path_kernels import heads_and_tails, path_to

_heads_and_tails, _path_to = compiled(heads_and_tails), compiled(path_to)
NONE, FOUND, UNDECIDED = 0, 1, 2
"""Whether a plan is within the target: none is, one was found, or that is not known yet."""


class Tried(NamedTuple):
    """What is to be tried."""

    firsts: Any
    """First arc behind each state and the end of all, shape [num_steps, num_states + 1]."""
    targets: Any
    """State behind each arc."""
    durations: Any
    """As in `CutGraph`."""
    rank_predecessors: Any
    """This and the next three: the dependency graph of a step (see `Graph`)."""
    dependencies: Any
    classes: Any
    messages: Any
    slot_classes: Any
    """Class of each duration of an arc, shape [num_steps, num_slots]."""


class TrialState(NamedTuple):
    """Where a trial stands; the last axis of the first five is that of the known paths, which has room for more."""

    lengths: Any
    """What each arc adds to each path, shape [num_arcs, capacity]."""
    behind: Any
    """The least that is behind each state, shape [num_steps + 1, num_states, capacity]."""
    before: Any
    """What the arcs of the present plan add up to, before each step, shape [num_steps + 1, capacity]."""
    needs: Any
    """What each path must exceed before each step, for all that was tried behind it to fail, in the same shape."""
    order: Any
    """The known paths in the order in which they are looked at."""
    has_reason: Any
    """Whether `needs` are the whole reason why all failed that was tried, shape [num_steps]."""
    reason_paths: Any
    """Paths of each reason that is known of a state, shape [num_steps, num_states, remembered, most paths]."""
    reason_needs: Any
    """What each of these paths must exceed for the reason to hold."""
    reason_sizes: Any
    """Number of these paths, shape [num_steps, num_states, remembered]."""
    reason_numbers: Any
    """Number of reasons that became known of a state, shape [num_steps, num_states]."""
    plan: Any
    """Arc of each step of the present plan."""
    ends: Any
    """Behind the last arc that may take its place."""
    heads: Any
    """Scratch for a longest path to the end of each action, and for the next two."""
    tails: Any
    path: Any
    table: Any
    """Scratch for the durations of each class."""
    counts: Any
    """Scratch for the actions of each class on a path."""
    numbers: Any
    """The step that is tried, the number of known paths, and of those of which it is known what is behind each state.
    """


def try_plans(tried: Tried, standing: TrialState, limit: int, most: int) -> int:
    """Go on with a trial for about `most` arcs; returns what is known of plans that take at most `limit` then."""
    firsts, targets, durations, slot_classes = tried.firsts, tried.targets, tried.durations, tried.slot_classes
    lengths, behind, before, needs = standing.lengths, standing.behind, standing.before, standing.needs
    order, has_reason, plan, ends = standing.order, standing.has_reason, standing.plan, standing.ends
    reason_paths, reason_needs = standing.reason_paths, standing.reason_needs
    reason_sizes, reason_numbers = standing.reason_sizes, standing.reason_numbers
    heads, table, counts = standing.heads, standing.table, standing.counts
    num_steps, num_states, capacity = len(firsts), firsts.shape[1] - 1, lengths.shape[1]
    at, num_paths, num_measured = standing.numbers
    for path in range(num_measured, num_paths):
        _measure_behind(firsts, targets, lengths, path, behind)
    spent = 0
    while spent <= most:
        arc = plan[at]
        if arc == ends[at]:
            if at == 0:
                return NONE
            state = targets[plan[at - 1]]
            if has_reason[at]:
                _remember(
                    needs[at, :num_paths], reason_paths[at, state], reason_needs[at, state], reason_sizes[at, state],
                    reason_numbers[at, state],
                )  # fmt: skip
                reason_numbers[at, state] += 1
            at -= 1
            has_reason[at] &= has_reason[at + 1]
            for path in range(num_paths):
                needs[at, path] = max(needs[at, path], needs[at + 1, path] - lengths[plan[at], path])
            plan[at] += 1
            continue
        spent += 1
        state = targets[arc]
        failing = -1
        for place in range(num_paths):
            path = order[place]
            length = before[at, path] + lengths[arc, path]
            before[at + 1, path] = length
            if length + behind[at + 1, state, path] > limit:
                failing = place
                break
        if failing >= 0:
            path = order[failing]
            needs[at, path] = max(needs[at, path], limit - lengths[arc, path] - behind[at + 1, state, path])
            if failing > 0:  # what fails often is looked at first
                order[failing], order[failing - 1] = order[failing - 1], path
            plan[at] += 1
            continue
        if at < num_steps - 1:
            own_paths, own_needs = reason_paths[at + 1, state], reason_needs[at + 1, state]
            own_sizes = reason_sizes[at + 1, state]
            known = _known_reason(before[at + 1], own_paths, own_needs, own_sizes)
            if known < 0:
                at += 1
                has_reason[at] = True
                needs[at, :num_paths] = -np.inf
                plan[at], ends[at] = firsts[at, state], firsts[at, state + 1]
                continue
            for place in range(own_sizes[known]):
                path = own_paths[known, place]
                needs[at, path] = max(needs[at, path], own_needs[known, place] - lengths[arc, path])
            if known > 0:  # so is what holds often
                _swap(own_paths, own_needs, own_sizes, known)
            plan[at] += 1
            continue
        spent += len(tried.classes)
        for step in range(num_steps):
            for slot in range(durations.shape[1]):
                table[slot_classes[step, slot]] = durations[plan[step], slot]
        _heads_and_tails(
            tried.rank_predecessors, tried.dependencies, tried.classes, table, tried.messages, heads, standing.tails
        )
        last = np.argmax(heads)
        if heads[last] <= limit:
            return FOUND
        if num_paths == capacity:
            has_reason[at] = False
            plan[at] += 1
            continue
        length_of_path = _path_to(
            last, tried.rank_predecessors, tried.dependencies, tried.messages, heads, standing.path
        )
        counts[:] = 0
        for place in range(length_of_path):
            counts[tried.classes[standing.path[place] - 1]] += 1
        messages = heads[last] - (counts * table).sum()
        for step in range(num_steps):
            for other in range(firsts[step, 0], firsts[step, num_states]):
                length = float(messages) if step == 0 else 0.0
                for slot in range(durations.shape[1]):
                    length += counts[slot_classes[step, slot]] * durations[other, slot]
                lengths[other, num_paths] = length
        _measure_behind(firsts, targets, lengths, num_paths, behind)
        # The plan fails by its own path when it is looked at again.
        for step in range(at):
            before[step + 1, num_paths] = before[step, num_paths] + lengths[plan[step], num_paths]
        for place in range(num_paths, 0, -1):
            order[place] = order[place - 1]
        order[0] = num_paths
        num_paths += 1
    standing.numbers[:] = at, num_paths, num_paths
    return UNDECIDED


@compiled
def _measure_behind(firsts: Any, targets: Any, lengths: Any, path: int, behind: Any) -> None:
    """Fill in the least length of a path behind each state, for `TrialState.behind`."""
    num_steps, num_states = len(firsts), firsts.shape[1] - 1
    behind[num_steps, 0, path] = 0.0
    for step in range(num_steps - 1, -1, -1):
        for state in range(num_states):
            for arc in range(firsts[step, state], firsts[step, state + 1]):
                length = lengths[arc, path] + behind[step + 1, targets[arc], path]
                behind[step, state, path] = min(behind[step, state, path], length)


@compiled
def _remember(needs: Any, paths: Any, least: Any, sizes: Any, number: int) -> None:
    """Remember, in the place of the one that held least, which paths must exceed what, if these are few."""
    size, slot = 0, min(number, len(sizes) - 1)
    for path in range(len(needs)):
        if needs[path] > -np.inf:
            if size == paths.shape[1]:
                size = 0
                break
            paths[slot, size], least[slot, size] = path, needs[path]
            size += 1
    sizes[slot] = size


@compiled
def _known_reason(before: Any, paths: Any, least: Any, sizes: Any) -> int:
    """Return a reason of a state that holds for these lengths up to it, or -1."""
    for slot in range(len(sizes)):
        holds = sizes[slot] > 0
        for place in range(sizes[slot]):
            if before[paths[slot, place]] <= least[slot, place]:
                holds = False
                break
        if holds:
            return slot
    return -1


@compiled
def _swap(paths: Any, least: Any, sizes: Any, slot: int) -> None:
    """Put a reason in front of the one before it."""
    for place in range(max(sizes[slot], sizes[slot - 1])):
        paths[slot, place], paths[slot - 1, place] = paths[slot - 1, place], paths[slot, place]
        least[slot, place], least[slot - 1, place] = least[slot - 1, place], least[slot, place]
    sizes[slot], sizes[slot - 1] = sizes[slot - 1], sizes[slot]
