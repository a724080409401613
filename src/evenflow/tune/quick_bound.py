"""A lower bound on a pipeline's step in a fraction of a millisecond: whole layers on ranks that each must fit.

A rank with n layers takes n forwards and backwards of every microbatch, waits for the ranks before it, and recomputes
as much as its memory demands. All of that only grows with n, so for a time T every rank has a largest n; the bound is
the least T for which these add up to the model. Which layers share a cell is left open, and so is the order of work but
for the microbatches that a rank holds at once under the schedule.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.model import NONE, Layer, Network, Request
from evenflow.schedule import make_schedule
from evenflow.simulate import live_vectors

_SETTLED = 3
"""Microbatches in ranks of the pipeline from which on a rank holds no more of them at once."""
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Family:
    """What a bound needs of an order of work."""

    live: tuple[NDArray[np.int64], ...]
    """Of each rank, maximal vectors of microbatches held at once, shape [num_vectors, num_chunks]."""
    tail_rank: int
    splits_backward: bool


@lru_cache(maxsize=4096)
def family_of(schedule: str, num_ranks: int, num_chunks: int, num_microbatches: int) -> Family:
    """Return what is known of a schedule with these sizes."""
    order = make_schedule(
        schedule,
        num_ranks=num_ranks,
        num_chunks=num_chunks,
        num_microbatches=min(num_microbatches, _SETTLED * num_ranks),
    )
    live = tuple(live_vectors(order, rank)[:, :num_chunks] for rank in range(num_ranks))
    return Family(live=live, tail_rank=int(order.stage_ranks[-1]), splits_backward=order.splits_backward)


def quick_bound_ns(request: Request, schedule: str) -> float:
    """Return a lower bound on the step of any plan of `request` under a schedule; infinite where nothing fits."""
    network, sizes = request.network, request.sizes
    ranks, chunks, units = sizes.num_ranks, sizes.num_chunks, sizes.num_microbatches
    family = family_of(schedule, ranks, chunks, units)
    major = max(network.runs, key=lambda run: run.count).layer
    count = sum(run.count for run in network.runs if run.layer is major)
    others = network.num_layers - count
    least = 0 if others else chunks
    numbers = np.arange(least, count - (0 if others else (ranks - 1) * chunks) + 1)
    times = np.array([_rank_ns(request, family, major, numbers, rank) for rank in range(ranks)])
    times = np.maximum.accumulate(times, axis=1)
    steps = np.unique(times)
    steps = steps[np.isfinite(steps)]
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        reached = (times <= steps[middle]).sum(axis=1)
        enough = reached.all() and int(reached.sum()) + ranks * (least - 1) >= count
        low, high = (low, middle) if enough else (middle + 1, high)
    return float(steps[low]) if low < len(steps) else float("inf")


def _rank_ns(request: Request, family: Family, layer: Layer, numbers: NDArray[np.int64], rank: int) -> Values:
    """Return the least time until a rank with these numbers of layers is done; infinite where they do not fit."""
    network, units = request.network, request.sizes.num_microbatches
    head, tail = network.head, network.tail
    shortest = min(run.layer.forward_ns for run in network.runs)
    gradient = min(run.layer.backward_ns for run in network.runs)
    wait = 0.0
    if rank:
        wait = rank * (shortest + request.message_ns) + head.forward_ns
        if not family.splits_backward:
            wait += rank * (gradient + request.message_ns) + head.backward_ns
    work = numbers * (layer.forward_ns + layer.backward_ns)
    ends = [*([head] if rank == 0 else []), *([tail] if rank == family.tail_rank else [])]
    work = work + sum(end.forward_ns + end.backward_ns for end in ends)
    return np.asarray(wait + units * (work + _recompute_ns(request, network, family, layer, numbers, rank)))


def _recompute_ns(
    request: Request, network: Network, family: Family, layer: Layer, numbers: NDArray[np.int64], rank: int
) -> Values:
    """Return the least recomputation of a microbatch with which a rank fits."""
    extra: Any = np.zeros(len(numbers))
    limit = request.memory_limit_bytes
    if limit is None:
        return np.asarray(extra)
    plain = layer.modes[NONE]
    fixed: Any
    held: Any
    kinds = [name for name in network.kinds if name != NONE and _allowed(request, name)]
    fixed = network.constant_bytes + numbers * layer.parameter_bytes
    ends = [*([network.head] if rank == 0 else []), *([network.tail] if rank == family.tail_rank else [])]
    fixed = fixed + sum(end.parameter_bytes for end in ends) + min(mode.working_bytes for mode in layer.modes.values())
    for vector in family.live[rank]:
        fewest, most = int(vector.min()), int(vector.max())
        # One layer is in every chunk; the others are where the fewest are held.
        once = min(len(vector), int(numbers[0])) if len(numbers) else 0
        held = (int(np.sort(vector)[:once].sum()) + (numbers - once) * fewest) * plain.activation_bytes
        held = held + sum(end.activation_bytes * fewest for end in ends)
        over = np.maximum(0.0, held + fixed - limit)
        price, largest = np.inf, 0
        for name in kinds:
            mode = layer.modes[name]
            less = (plain.activation_bytes - mode.activation_bytes) * most
            if less > 0:
                price = min(price, (mode.backward_ns - plain.backward_ns) / less)
                largest = max(largest, less)
        saved = numbers * largest
        cost = np.where(over > 0, over * (price if np.isfinite(price) else 0.0), 0.0)
        extra = np.maximum(extra, np.where(over > saved, np.inf, cost))
    return np.asarray(extra)


def _allowed(request: Request, kind: str) -> bool:
    kinds = request.cell_rule.kinds
    return not kinds or kind in kinds
