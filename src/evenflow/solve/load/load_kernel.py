"""Whether a pipeline can be done in a time, and the least such time."""

from typing import Any, NamedTuple

import numba
import numpy as np

from evenflow.solve.load.layer_table import LayerTable
from evenflow.solve.load.rank_kernel import least_recompute

_BISECTIONS = 18
_GROWTH = 1.3
_ENDLESS_NS = 1e29


class Pipeline(NamedTuple):
    """The sizes of a pipeline, and what is known of its order of work."""

    num_units: int
    min_layers: int
    tail_rank: int
    message_ns: float
    live: Any
    turns: Any
    """Both of `OrderFacts`."""


class Tables(NamedTuple):
    """What a search for a time works with."""

    sums: Any
    """Forwards, gradients and weight gradients of the layers before each place, shape [3, num_layers + 1]."""
    fixed: Any
    """The type that a layer of each stage surely has, -1 without, shape [num_stages]."""
    recompute: Any
    """The least recomputation of a rank by its layers of the first and of the second type, NaN where it has not been
    asked for; empty where there are more types."""


class Place(NamedTuple):
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


@numba.njit(cache=True, nogil=True)
def least_time(table: LayerTable, pipeline: Pipeline) -> float:
    """Return a time in ns below which no plan ends; infinite where none fits."""
    num_ranks, num_chunks = pipeline.live.shape[0], pipeline.live.shape[3]
    layers = table.counts.shape[1] - 1
    sums = _sums(table)
    rare = int(table.counts[1, layers]) if len(table.counts) == 2 else 0
    shape = (num_ranks if len(table.counts) <= 2 else 0, layers + 1, rare + 1)
    tables = Tables(sums, _fixed(table, num_ranks, num_chunks, pipeline.min_layers), np.full(shape, np.nan))
    work = sums[:, layers].sum() + table.ends[:, :3].sum()
    low = high = work * pipeline.num_units / num_ranks
    while not _ends_by(high, table, pipeline, tables):
        if low == high and not _ends_by(_ENDLESS_NS, table, pipeline, tables):
            return np.inf
        low, high = high, _GROWTH * high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _ends_by(middle, table, pipeline, tables):
            high = middle
        else:
            low = middle
    return float(low)


@numba.njit(cache=True, nogil=True)
def _sums(table: LayerTable) -> Any:
    """Return forwards, gradients and weight gradients of the layers before each place, shape [3, num_layers + 1]."""
    sums = np.zeros((3, table.counts.shape[1]))
    for kind in range(len(table.counts)):
        for what in range(3):
            sums[what] += table.counts[kind] * table.times[kind, what]
    return sums


@numba.njit(cache=True, nogil=True)
def _fixed(table: LayerTable, num_ranks: int, num_chunks: int, min_layers: int) -> Any:
    """Return the type that a layer of each stage surely has, -1 without, shape [num_stages].

    Each stage before has a layer at least, and each behind.
    """
    stages, layers = num_ranks * num_chunks, table.counts.shape[1] - 1
    fixed = np.full(stages, -1)
    if min_layers == 0 or layers < stages:
        return fixed
    for stage in range(stages):
        for kind in range(len(table.counts)):
            first, last = stage * min_layers, layers - (stages - 1 - stage) * min_layers
            if table.counts[kind, last] - table.counts[kind, first] == last - first:
                fixed[stage] = kind
    return fixed


@numba.njit(cache=True, nogil=True)
def _ends_by(time_ns: float, table: LayerTable, pipeline: Pipeline, tables: Tables) -> bool:
    if pipeline.live.shape[3] == 1:
        return bool(_cuts_end_by(time_ns, table, pipeline, tables))
    return bool(_contents_end_by(time_ns, table, pipeline, tables))


@numba.njit(cache=True, nogil=True)
def _cuts_end_by(time_ns: float, table: LayerTable, pipeline: Pipeline, tables: Tables) -> bool:
    """Return whether a cut into one stage for each rank can end by a time.

    Each rank takes as many layers as it can: with a layer more on the ranks before, it begins later by one pass of
    that layer, and has less work by as many as there are microbatches.
    """
    num_ranks, layers = len(pipeline.live), table.counts.shape[1] - 1
    least = pipeline.min_layers
    place = Place(0, 0, 0, np.full(1, -1), np.zeros(2))
    for rank in range(num_ranks):
        place = Place(rank, place.first, 0, place.own, place.before)
        most = layers - place.first - (num_ranks - 1 - rank) * least
        number = _most(time_ns, table, pipeline, tables, place, most if rank == num_ranks - 1 else least, most)
        if number < 0:
            return False
        place = Place(rank, place.first + number, 0, place.own, place.before)
    return True


@numba.njit(cache=True, nogil=True)
def _stage_ns(table: LayerTable, pipeline: Pipeline, tables: Tables, rank: int, first: int, last: int) -> float:
    """Return the time until a rank with the layers [first, last) is done, and until what needs it is.

    Paths through its order: all of its work one after the other; or, at its first gradient, a wait until a microbatch
    has gone through the whole network; or, behind its last forward, one until that has come back; or both.
    """
    sums = tables.sums
    num_ranks, units, layers = len(pipeline.live), pipeline.num_units, sums.shape[1] - 1
    has_head, has_tail = rank == 0, rank == num_ranks - 1
    counts = table.counts[:, last] - table.counts[:, first]
    again = _recompute_ns(table, pipeline, tables, rank, counts, np.full(1, -1))
    if np.isinf(again):
        return np.inf
    work = sums[:, last] - sums[:, first]
    before, behind = sums[:, first].copy(), sums[:, layers] - sums[:, last]
    if has_head:
        work += table.ends[0, :3]
    else:
        before += table.ends[0, :3]
    if has_tail:
        work += table.ends[1, :3]
    else:
        behind += table.ends[1, :3]
    forward, gradient, weight = work[0], work[1] + again, work[2]
    come = before[0] + rank * pipeline.message_ns
    trip = behind[0] + behind[1] + 2 * (num_ranks - 1 - rank) * pipeline.message_ns
    early, late, weights_late, weights_end = pipeline.turns[rank]
    # After the last gradient either its own weight gradients follow, or the gradients of all stages before.
    go = max(weights_end * weight, before[1] + rank * pipeline.message_ns if rank else 0.0)
    end = gradient + go
    back = come + forward + trip
    whole = come + units * (forward + gradient) + (units - weights_end) * weight + go
    turned = back + (units - early) * forward + units * gradient + (units - weights_end) * weight + go
    closed = come + units * forward + (units - late) * gradient + (units - weights_late) * weight + trip + end
    both = 0.0
    if early < units:
        both = back + (units - early) * forward + (units - late) * gradient + (units - weights_late) * weight
        both += trip + end
    return float(max(whole, turned, closed, both))


@numba.njit(cache=True, nogil=True)
def _contents_end_by(time_ns: float, table: LayerTable, pipeline: Pipeline, tables: Tables) -> bool:
    """Return whether ranks with several stages can end by a time, wherever their layers are in the network.

    The layers of up to two types are dealt to the ranks: with each number of the second type, a rank takes as many of
    the first as it can.
    """
    num_ranks, num_chunks, layers = pipeline.live.shape[0], pipeline.live.shape[3], table.counts.shape[1] - 1
    least = pipeline.min_layers * num_chunks
    most = layers - (num_ranks - 1) * least
    rare = int(table.counts[1, layers]) if len(table.counts) > 1 else 0
    dealt = np.full(rare + 1, -1)
    dealt[0] = 0
    before = np.zeros(2)
    for rank in range(num_ranks):
        ahead = np.full(rare + 1, -1)
        own = np.full(num_chunks, -1)
        for chunk in range(num_chunks):
            own[chunk] = tables.fixed[_stage_of(chunk, rank, num_ranks, pipeline.tail_rank)]
        first, second = int((own == 0).sum()), int((own == 1).sum())
        for others in range(second, rare + 1):
            place = Place(rank, 0, others, own, before)
            if _time_ns(table, pipeline, tables, place, first) > time_ns:
                break
            number = _most(
                time_ns, table, pipeline, tables, place, max(least - others, first),
                min(most - others, layers - rare),
            )  # fmt: skip
            if number < 0:
                continue
            for already in range(rare + 1 - others):
                if dealt[already] >= 0:
                    ahead[already + others] = max(ahead[already + others], dealt[already] + number)
        dealt = ahead
        kind = tables.fixed[rank]
        for what in range(2):
            shortest = table.times[kind, what] if kind >= 0 else table.times[:, what].min()
            before[what] += pipeline.min_layers * shortest + pipeline.message_ns
            if rank == 0:
                before[what] += table.ends[0, what]
    return bool(dealt[rare] >= layers - rare)


@numba.njit(cache=True, nogil=True)
def _stage_of(chunk: int, rank: int, num_ranks: int, tail_rank: int) -> int:
    """Return the stage of a cell: looped, or on a V where rank 0 has the tail."""
    if num_ranks > 1 and tail_rank == 0 and chunk % 2:
        return (chunk + 1) * num_ranks - 1 - rank
    return chunk * num_ranks + rank


@numba.njit(cache=True, nogil=True)
def _most(
    time_ns: float, table: LayerTable, pipeline: Pipeline, tables: Tables, place: Place, fewest: int, most: int
) -> int:
    """Return how many layers of the first type a rank can have, from `fewest` to `most`; -1 where none can be.

    The search begins at the average, near which most ranks end.
    """
    if fewest > most:
        return -1
    number = min(max(tables.sums.shape[1] // len(pipeline.live) - place.others, fewest), most)
    step = 1
    if _time_ns(table, pipeline, tables, place, number) <= time_ns:
        fewest = number
        while number < most:
            number = min(number + step, most)
            if _time_ns(table, pipeline, tables, place, number) > time_ns:
                most = number - 1
                break
            fewest = number
            step *= 2
    else:
        while True:
            if number == fewest:
                return -1
            most = number - 1
            number = max(number - step, fewest)
            if _time_ns(table, pipeline, tables, place, number) <= time_ns:
                fewest = number
                break
            step *= 2
    while fewest < most:
        middle = (fewest + most + 1) // 2
        if _time_ns(table, pipeline, tables, place, middle) <= time_ns:
            fewest = middle
        else:
            most = middle - 1
    return fewest


@numba.njit(cache=True, nogil=True)
def _time_ns(table: LayerTable, pipeline: Pipeline, tables: Tables, place: Place, number: int) -> float:
    """Return the time until a rank with so many layers of the first type is done."""
    if pipeline.live.shape[3] == 1:
        return float(_stage_ns(table, pipeline, tables, place.rank, place.first, place.first + number))
    return float(_rank_ns(table, pipeline, tables, place, number))


@numba.njit(cache=True, nogil=True)
def _rank_ns(table: LayerTable, pipeline: Pipeline, tables: Tables, place: Place, number: int) -> float:
    """Return the time until a rank with these numbers of layers is done."""
    rank, others, own, before = place.rank, place.others, place.own, place.before
    counts = np.zeros(len(table.counts))
    counts[0] = number
    if others:
        counts[1] = others
    has_head, has_tail = rank == 0, rank == pipeline.tail_rank
    again = _recompute_ns(table, pipeline, tables, rank, counts, own)
    if np.isinf(again):
        return np.inf
    work = np.zeros(3)
    for kind in range(len(counts)):
        work += counts[kind] * table.times[kind]
    if has_head:
        work += table.ends[0, :3]
    if has_tail:
        work += table.ends[1, :3]
    units = pipeline.num_units
    busy = units * (work[0] + work[1] + again)
    after = 0.0 if rank == 0 else before[1]
    weights_end = pipeline.turns[rank, 3]
    return float(before[0] + busy + max(units * work[2], (units - weights_end) * work[2] + after))


@numba.njit(cache=True, nogil=True)
def _recompute_ns(table: LayerTable, pipeline: Pipeline, tables: Tables, rank: int, counts: Any, own: Any) -> float:
    """Return the least recomputation of a rank, from the table where it has been asked for before."""
    has_head, has_tail = rank == 0, rank == pipeline.tail_rank
    if not len(tables.recompute):
        return float(least_recompute(table, pipeline.live[rank], counts, own, has_head, has_tail))
    first, second = int(counts[0]), int(counts[1]) if len(counts) > 1 else 0
    found = tables.recompute[rank, first, second]
    if np.isnan(found):
        found = least_recompute(table, pipeline.live[rank], counts, own, has_head, has_tail)
        tables.recompute[rank, first, second] = found
    return float(found)
