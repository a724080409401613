"""Inner loops: plain functions over arrays, run as they are on small inputs and compiled on large ones.

Nothing here imports numba; `compiled` does, when a caller has enough work to pay for it.
"""

from typing import Any

import numpy as np

from evenflow.schedule import FORWARD, FULL_BACKWARD, INPUT_GRADIENT, WEIGHT_GRADIENT


def order_actions(
    ops: Any,
    stages: Any,
    units: Any,
    rank_starts: Any,
    stage_ranks: Any,
    num_ops: int,
    pair_classes: Any,
    done: Any,
    sequence: Any,
    dependencies: Any,
    rank_predecessors: Any,
    classes: Any,
    crosses_ranks: Any,
    rank_lasts: Any,
) -> int:
    """Put the actions of all ranks into an order that keeps each rank's order and the dependencies.

    A forward needs the forward of the stage before; a backward or input gradient that of the stage after, or, on the
    last stage, its own forward; a weight gradient nothing but its rank's order. Ranks take turns, one action each while
    it is ready, so neighbours in the result belong to different ranks and their longest-path steps overlap in the
    processor.

    A forward and the backward behind it that run beside each other begin once both are ready: the forward waits for
    its input and takes no time, the backward has the time of both, and what waits for either waits for it.
    `pair_classes` [num_actions] has the class of the pair at such a forward, else 0; it is empty without any pairs.

    Fills the arrays of `Graph` and `rank_lasts` [num_ranks], the position of each rank's last action. `done`
    [2, num_stages, num_units], for forwards and backwards, holds zeros. Returns how many actions could be placed.
    """
    num_ranks, num_stages = len(rank_starts) - 1, len(stage_ranks)
    heads = rank_starts[:-1].copy()
    placed = 0
    moved = True
    while moved:
        moved = False
        for rank in range(num_ranks):
            index = heads[rank]
            if index == rank_starts[rank + 1]:
                continue
            is_pair = len(pair_classes) > 0 and pair_classes[index] > 0
            if is_pair:
                stage, unit = stages[index + 1], units[index + 1]
                waits = stage < num_stages - 1 and done[1, stage + 1, unit] == 0
                if waits or done[0, stage, unit] == 0:
                    continue
            first = index
            while index < first + 1 + is_pair:
                op, stage, unit = ops[index], stages[index], units[index]
                source = stage
                needed = 0
                if op == FORWARD:
                    source = stage - 1
                elif op == WEIGHT_GRADIENT:
                    source = -1
                elif stage < num_stages - 1:
                    source = stage + 1
                    needed = 1
                dependency = 0
                if source >= 0:
                    dependency = done[needed, source, unit]
                    if dependency == 0:
                        break
                sequence[placed] = index
                dependencies[placed] = dependency
                rank_predecessors[placed] = rank_lasts[rank]
                classes[placed] = num_ops * stage + op
                crosses_ranks[placed] = source >= 0 and stage_ranks[source] != rank
                placed += 1
                rank_lasts[rank] = placed
                if op != WEIGHT_GRADIENT:
                    done[min(op, FULL_BACKWARD), stage, unit] = placed
                index += 1
                heads[rank] = index
                moved = True
            if is_pair and index == first + 2:
                classes[placed - 2] = num_ops * num_stages + num_stages
                classes[placed - 1] = pair_classes[first]
                done[0, stages[first], units[first]] = placed
    return placed


def saved_beside(types: Any, saved: Any, first: int, size: int, other: int, other_size: int) -> int:
    """Return what a forward of `size` layers from `first` on saves beside a backward of `other_size` from `other` on.

    Layer i of the forward runs beside layer i from the end of the backward's, as far as both have so many. `types`
    [num_layers] and `saved` [num_types, num_types] are those of `HalvesTable`.
    """
    total = 0
    last = other + other_size - 1
    for layer in range(min(size, other_size)):
        total += saved[types[first + layer], types[last - layer]]
    return total


def held_beside(
    until: Any,
    mlp: Any,
    until_back: Any,
    mlp_back: Any,
    ends: Any,
    releases: bool,
    forward: int,
    first: int,
    content: Any,
    backward: int,
    other: int,
    other_content: Any,
) -> int:
    """Return the most bytes that a forward and a backward which run beside each other hold together.

    Both go layer by layer, in the order of a pair of layers (see `evenflow.model.halves`): attention of F, MLP of B,
    MLP of F, attention of B, the last two the other way round with `releases`. Each keeps its part from there on, or
    frees it there. The head of F and what B has of the tail come before the layers, the tail of F behind them.

    `until` [num_kinds, num_layers + 1] has prefix sums of what layers keep, `mlp` [num_kinds, num_layers] the part of
    their MLP, the next two the same of what the backward begins with, `ends` [2, num_stages] what head and tail keep of
    each stage. The layers of stage `forward` are those from `first` on, `content` [num_kinds] of each kind in this
    order; those of `backward` likewise.
    """
    num_kinds = len(content)
    size = last = 0
    for count in content:
        size += count
    held = ends[0, forward] + ends[0, backward]
    for kind in range(num_kinds):
        begin = other + last
        last += other_content[kind]
        held += until_back[kind, other + last] - until_back[kind, begin]
    most = held + ends[1, backward]
    paired = min(size, last)
    kind, left = 0, content[0]
    other_kind, other_left = num_kinds - 1, other_content[num_kinds - 1]
    for place in range(paired):
        while left == 0:
            kind += 1
            left = content[kind]
        while other_left == 0:
            other_kind -= 1
            other_left = other_content[other_kind]
        left -= 1
        other_left -= 1
        layer, other_layer = first + place, other + last - 1 - place
        comes = until[kind, layer + 1] - until[kind, layer]
        goes = until_back[other_kind, other_layer + 1] - until_back[other_kind, other_layer]
        gone = goes if releases else mlp_back[other_kind, other_layer]
        most = max(most, held + comes - mlp[kind, layer], held + comes - gone)
        held += comes - goes
    for place in range(paired, size):
        while left == 0:
            kind += 1
            left = content[kind]
        left -= 1
        held += until[kind, first + place + 1] - until[kind, first + place]
    for place in range(paired, last):
        while other_left == 0:
            other_kind -= 1
            other_left = other_content[other_kind]
        other_left -= 1
        other_layer = other + last - 1 - place
        held -= until_back[other_kind, other_layer + 1] - until_back[other_kind, other_layer]
    return int(max(most, held + ends[1, forward]))


def longest_path(rank_predecessors: Any, dependencies: Any, classes: Any, durations: Any, ends: Any) -> None:
    """Fill `ends` with the end of every action at its topological position (from 1; position 0 is time 0).

    Index arrays are unsigned: the compiled loop then needs no test for negative indices and runs twice as fast.
    """
    for index in range(len(classes)):
        ready = ends[dependencies[index]]
        free = ends[rank_predecessors[index]]
        ends[index + 1] = (ready if ready > free else free) + durations[classes[index]]


def longest_path_with_messages(
    rank_predecessors: Any, dependencies: Any, classes: Any, durations: Any, messages: Any, ends: Any
) -> None:
    """Do the same as `longest_path`, where each action's input travels for `messages` [num_actions] ns."""
    for index in range(len(classes)):
        ready = ends[dependencies[index]] + messages[index]
        free = ends[rank_predecessors[index]]
        ends[index + 1] = (ready if ready > free else free) + durations[classes[index]]


def longest_path_in_turn(
    rank_predecessors: Any,
    dependencies: Any,
    classes: Any,
    durations: Any,
    messages: Any,
    latency: int,
    receivers: Any,
    senders: Any,
    arrivals: Any,
    free: Any,
    ends: Any,
) -> None:
    """Do the same where a rank sends one message at a time: each but its `latency` keeps the rank's link busy.

    `receivers` [num_actions] has the position of the action that waits for what each sends to another rank (0: none),
    `senders` [num_actions] its rank. `arrivals` [num_actions + 1] takes when what each action waits for is there; it
    holds zeros where that is no message. `free` [num_ranks] takes when each link is free.
    """
    for rank in range(len(free)):
        free[rank] = 0
    for index in range(len(classes)):
        ready = max(ends[dependencies[index]], arrivals[index + 1])
        end = max(ready, ends[rank_predecessors[index]]) + durations[classes[index]]
        ends[index + 1] = end
        receiver = receivers[index]
        if receiver > 0:
            sender = senders[index]
            free[sender] = max(end, free[sender]) + messages[receiver - 1] - latency
            arrivals[receiver] = free[sender] + latency


def pareto_live(ops: Any, chunks: Any, num_chunks: int, vectors: Any) -> int:
    """Find the maximal live vectors along one rank's order, one of which gives the peak of its memory.

    Fills `vectors` [capacity, num_chunks or twice as many] with the number of microbatches of each chunk between
    forward and backward (or input gradient), then between input and weight gradient. Returns the number of vectors, or
    -1 if the capacity is too small.
    """
    size = vectors.shape[1]
    live = np.zeros(size, dtype=np.int64)
    count = 0
    for index in range(len(ops)):
        op, chunk = ops[index], chunks[index]
        if op == FORWARD:
            live[chunk] += 1
        elif op == WEIGHT_GRADIENT:
            live[num_chunks + chunk] -= 1
        else:
            live[chunk] -= 1
            if op == INPUT_GRADIENT:
                live[num_chunks + chunk] += 1
        if op in (FULL_BACKWARD, WEIGHT_GRADIENT):
            continue  # only frees
        if index + 1 < len(ops) and ops[index + 1] == FORWARD:
            continue  # the next forward only adds
        dominated = False
        for other in range(count):
            larger = True
            for place in range(size):
                if vectors[other, place] < live[place]:
                    larger = False
                    break
            if larger:
                dominated = True
                break
        if dominated:
            continue
        kept = 0
        for other in range(count):
            smaller = True
            for place in range(size):
                if vectors[other, place] > live[place]:
                    smaller = False
                    break
            if not smaller:
                for place in range(size):
                    vectors[kept, place] = vectors[other, place]
                kept += 1
        if kept == len(vectors):
            return -1
        for place in range(size):
            vectors[kept, place] = live[place]
        count = kept + 1
    return count
