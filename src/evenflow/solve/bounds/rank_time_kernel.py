"""How long a rank takes with its layers, and how many it can have by a time, by paths through its order."""

from typing import Any, NamedTuple

import numpy as np

from evenflow.simulate.compiled import compiled
from evenflow.solve.bounds.layer_table import LayerTable

_ROUNDING = 1e-9


class PipelineFacts(NamedTuple):
    """The sizes of a pipeline, and what is known of its order of work."""

    num_units: int
    min_layers: int
    tail_rank: int
    message_ns: float
    """Of each hop from a stage to the next."""
    sent_ns: float
    """Of it, what the sending rank spends: all or nothing."""
    live: Any
    turns: Any
    """Both of `OrderFacts`."""


class RankPlace(NamedTuple):
    """A rank whose layers are looked for."""

    rank: int
    first: int
    """Layers of the ranks before, with one chunk."""
    others: int
    """Its layers of the second type, with several chunks."""
    own: Any
    """The type of one layer of each of its chunks, -1 where it is not known, shape [num_chunks]."""
    before: Any
    """Forwards and gradients of the ranks before, with messages, with several chunks; shape [2]."""


@compiled
def most_in_a_row(
    time_ns: float, ends: Any, pipeline: PipelineFacts, sums: Any, place: RankPlace, fewest: int, most: int
) -> int:
    """Return how many layers in a row a rank can run by a time without recomputation."""
    low, high = fewest - 1, most
    number, step = min(max(sums.shape[1] // len(pipeline.live), fewest), most), 1
    # The search begins at the average, near which most ranks end.
    while low < high:
        if stage_ns(ends, pipeline, sums, place, number, 0.0) <= time_ns:
            low = number
            number = min(number + step, (low + high + 1) // 2 if high < most else most)
        else:
            high = number - 1
            number = max(number - step, (low + high + 1) // 2 if low >= fewest else fewest)
        step *= 2
    return low


@compiled
def stage_ns(ends: Any, pipeline: PipelineFacts, sums: Any, place: RankPlace, number: int, again: float) -> float:
    """Return the time until a rank with so many layers in a row is done, and until what needs it is.

    Paths through its order: all of its work one after the other; or, at its first gradient, a wait until a microbatch
    has gone through the whole network; or, behind its last forward, one until that has come back; or both.
    """
    rank, num_ranks, units = place.rank, len(pipeline.live), pipeline.num_units
    first, last, layers = place.first, place.first + number, sums.shape[1] - 1
    forward, gradient = sums[0, last] - sums[0, first], sums[1, last] - sums[1, first] + again
    weight = sums[2, last] - sums[2, first]
    hop, sent = pipeline.message_ns, pipeline.sent_ns
    come = sums[0, first] + rank * hop
    back = sums[1, first] + rank * hop
    trip = sums[0, layers] - sums[0, last] + sums[1, layers] - sums[1, last]
    trip += 2 * (num_ranks - 1 - rank) * hop
    if rank == 0:
        forward, gradient, weight = forward + ends[0, 0], gradient + ends[0, 1], weight + ends[0, 2]
    else:
        come, back, gradient = come + ends[0, 0], back + ends[0, 1] - sent, gradient + sent
    if rank == num_ranks - 1:
        forward, gradient, weight = forward + ends[1, 0], gradient + ends[1, 1], weight + ends[1, 2]
    else:
        trip, forward = trip + ends[1, 0] + ends[1, 1] - sent, forward + sent
    early, late, weights_late, weights_end = pipeline.turns[rank]
    # After the last gradient either its own weight gradients follow, or the gradients of all stages before.
    go = max(weights_end * weight, back if rank else 0.0)
    turn = come + forward + trip
    rest = units * gradient + (units - weights_end) * weight + go
    whole = come + units * forward + rest
    turned = turn + (units - early) * forward + rest
    middle = (units - late) * gradient + (units - weights_late) * weight + trip + gradient + go
    closed = come + units * forward + middle
    both = turn + (units - early) * forward + middle if early < units else 0.0
    return float(max(whole, turned, closed, both))


@compiled
def most_anywhere(time_ns: float, table: LayerTable, pipeline: PipelineFacts, place: RankPlace, most: int) -> int:
    """Return how many layers of the first type, wherever they are, a rank can run by a time; negative if not even 0."""
    units, rank = pipeline.num_units, place.rank
    busy, weight = 0.0, 0.0
    if rank == 0:
        busy, weight = table.ends[0, 0] + table.ends[0, 1], table.ends[0, 2]
    if rank == pipeline.tail_rank:
        busy, weight = busy + table.ends[1, 0] + table.ends[1, 1], weight + table.ends[1, 2]
    if place.others:
        busy += place.others * (table.times[1, 0] + table.times[1, 1])
        weight += place.others * table.times[1, 2]
    busy += pipeline.sent_ns * _sends(pipeline, rank)
    layer_ns, layer_weight_ns = table.times[0, 0] + table.times[0, 1], table.times[0, 2]
    left = time_ns - place.before[0] - units * busy
    # After the last gradient either its own weight gradients follow, or the gradients of all stages before.
    before_end = units - pipeline.turns[rank, 3]
    after = max(place.before[1] - pipeline.sent_ns, 0.0)
    number = min(
        (left - units * weight) / max(units * (layer_ns + layer_weight_ns), 1e-9),
        (left - before_end * weight - after) / max(units * layer_ns + before_end * layer_weight_ns, 1e-9),
    )  # fmt: skip
    if pipeline.tail_rank == 0 and rank > 0 and rank == len(pipeline.live) - 1:
        number = min(number, _most_on_a_turn(time_ns, table, pipeline, place, busy, weight))
    return int(min(max(np.floor(number * (1 + _ROUNDING) + _ROUNDING), -1.0), float(most)))


@compiled
def _most_on_a_turn(
    time_ns: float, table: LayerTable, pipeline: PipelineFacts, place: RankPlace, busy: float, weight: float
) -> float:
    """Return how many layers of the first type the last rank can have on a V, by a mean of two paths.

    It does nothing before a forward has passed the first stages of all other ranks; and before its first gradient,
    which comes after a whole forward and the gradients of their second stages, nothing but the forwards of its order.
    Whether the others' layers are in their first or second stages, a mean of the two counts them.
    """
    units, rank, ends, times = pipeline.num_units, place.rank, table.ends, table.times
    share = times[0, 1] / max(times[0, 0] + times[0, 1], 1e-9)
    early = pipeline.turns[rank, 0]
    fixed = ends[0, 0] + rank * pipeline.message_ns + units * (busy + weight)
    fixed += (1 - share) * (ends[1, 0] + ends[1, 1] + 2 * rank * pipeline.message_ns)
    fixed -= (1 - share) * 2 * early * pipeline.sent_ns
    layer_ns = 0.0
    for kind in range(len(times)):
        forward = (1 - share) * times[kind, 0]
        other = min(share * times[kind, 0], (1 - share) * times[kind, 1])
        fixed += table.counts[kind, -1] * (forward + other)
        own = -early * forward - other
        if kind == 0:
            layer_ns = units * times[0].sum() + own
        else:
            fixed += place.others * own
    return float((time_ns - fixed) / max(layer_ns, 1e-9))


@compiled
def _sends(pipeline: PipelineFacts, rank: int) -> int:
    """Return how many messages a rank with several stages sends for each microbatch, forward and backward."""
    num_ranks, num_chunks = pipeline.live.shape[0], pipeline.live.shape[3]
    if num_ranks == 1:
        return 0
    sends = 2 * num_chunks - (rank == 0) - (rank == pipeline.tail_rank)
    # On a V the stages of the last rank follow each other.
    return int(sends - 2 * (pipeline.tail_rank == 0 and rank == num_ranks - 1))
