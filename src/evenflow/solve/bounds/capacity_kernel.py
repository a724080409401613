"""Whether a pipeline can be done in a time, and the least such time."""

from typing import Any, NamedTuple

import numpy as np

from evenflow.simulate.compiled import compiled
from evenflow.solve.bounds.layer_table import LayerTable
from evenflow.solve.bounds.rank_recompute_kernel import least_recompute
from evenflow.solve.bounds.rank_time_kernel import PipelineFacts, RankPlace, most_anywhere, most_in_a_row, stage_ns

_BISECTIONS = 18
_GROWTH = 1.3
_ENDLESS_NS = 1e29


class SearchTables(NamedTuple):
    """What a search for a time works with."""

    sums: Any
    """Forwards, gradients and weight gradients of the layers before each place, shape [3, num_layers + 1]."""
    fixed: Any
    """The type that a layer of each stage surely has, -1 without, shape [num_stages]."""
    recompute: Any
    """The least recomputation of a rank by its layers of the first and of the second type, NaN where it has not been
    asked for; empty where ranks have layers of several types in a row."""


@compiled
def least_time(table: LayerTable, pipeline: PipelineFacts) -> float:
    """Return a time in ns below which no plan ends; infinite where none fits."""
    num_ranks, num_chunks = pipeline.live.shape[0], pipeline.live.shape[3]
    layers = table.counts.shape[1] - 1
    sums = _sums(table)
    rare = int(table.counts[1, layers]) if len(table.counts) == 2 else 0
    known = num_ranks if num_chunks > 1 or len(table.counts) == 1 else 0
    tables = SearchTables(
        sums, _fixed(table, num_ranks, num_chunks, pipeline.min_layers), np.full((known, layers + 1, rare + 1), np.nan)
    )
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


@compiled
def _sums(table: LayerTable) -> Any:
    """Return forwards, gradients and weight gradients of the layers before each place, shape [3, num_layers + 1]."""
    sums = np.zeros((3, table.counts.shape[1]))
    for kind in range(len(table.counts)):
        for pass_kind in range(3):
            sums[pass_kind] += table.counts[kind] * table.times[kind, pass_kind]
    return sums


@compiled
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


@compiled
def _ends_by(time_ns: float, table: LayerTable, pipeline: PipelineFacts, tables: SearchTables) -> bool:
    if pipeline.live.shape[3] == 1:
        return bool(_cuts_end_by(time_ns, table, pipeline, tables))
    return bool(_contents_end_by(time_ns, table, pipeline, tables))


@compiled
def _cuts_end_by(time_ns: float, table: LayerTable, pipeline: PipelineFacts, tables: SearchTables) -> bool:
    """Return whether a cut into one stage for each rank can end by a time.

    Each rank takes as many layers as it can: with a layer more on the ranks before, it begins later by one pass of
    that layer, and has less work by as many as there are microbatches.
    """
    num_ranks, layers = len(pipeline.live), table.counts.shape[1] - 1
    least = pipeline.min_layers
    place = RankPlace(0, 0, 0, np.full(1, -1), np.zeros(2))
    for rank in range(num_ranks):
        place = RankPlace(rank, place.first, 0, place.own, place.before)
        most = layers - place.first - (num_ranks - 1 - rank) * least
        number = _most(time_ns, table, pipeline, tables, place, most if rank == num_ranks - 1 else least, most)
        if number < 0:
            return False
        place = RankPlace(rank, place.first + number, 0, place.own, place.before)
    return True


@compiled
def _contents_end_by(time_ns: float, table: LayerTable, pipeline: PipelineFacts, tables: SearchTables) -> bool:
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
            place = RankPlace(rank, 0, others, own, before)
            if most_anywhere(time_ns, table, pipeline, place, most) < first:
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
        for pass_kind in range(2):
            shortest = table.times[kind, pass_kind] if kind >= 0 else table.times[:, pass_kind].min()
            before[pass_kind] += pipeline.min_layers * shortest + pipeline.message_ns
            if rank == 0:
                before[pass_kind] += table.ends[0, pass_kind]
    return bool(dealt[rare] >= layers - rare)


@compiled
def _stage_of(chunk: int, rank: int, num_ranks: int, tail_rank: int) -> int:
    """Return the stage of a cell: looped, or on a V where rank 0 has the tail."""
    if num_ranks > 1 and tail_rank == 0 and chunk % 2:
        return (chunk + 1) * num_ranks - 1 - rank
    return chunk * num_ranks + rank


@compiled
def _most(
    time_ns: float,
    table: LayerTable,
    pipeline: PipelineFacts,
    tables: SearchTables,
    place: RankPlace,
    fewest: int,
    most: int,
) -> int:
    """Return how many layers of the first type a rank can have, from `fewest` to `most`; -1 where none can be."""
    if pipeline.live.shape[3] == 1:
        number = most_in_a_row(time_ns, table.ends, pipeline, tables.sums, place, fewest, most)
    else:
        number = most_anywhere(time_ns, table, pipeline, place, most)
    if number < fewest or _fits(time_ns, table, pipeline, tables, place, number):
        return int(number) if number >= fewest else -1
    # Fewer, because they must recompute.
    step = 1
    while number > fewest:
        lower = max(number - step, fewest)
        if _fits(time_ns, table, pipeline, tables, place, lower):
            while lower < number - 1:
                middle = (lower + number) // 2
                if _fits(time_ns, table, pipeline, tables, place, middle):
                    lower = middle
                else:
                    number = middle
            return int(lower)
        number, step = lower, 2 * step
    return -1


@compiled
def _fits(
    time_ns: float, table: LayerTable, pipeline: PipelineFacts, tables: SearchTables, place: RankPlace, number: int
) -> bool:
    """Return whether a rank fits with so many layers of the first type, and is done by a time with its recomputation.

    Without it, it is.
    """
    again = _recompute_ns(table, pipeline, tables, place, number)
    if again == 0 or np.isinf(again):
        return bool(again == 0)
    if pipeline.live.shape[3] == 1:
        return bool(stage_ns(table.ends, pipeline, tables.sums, place, number, again) <= time_ns)
    # Weight gradients may follow, but not recomputation.
    return bool(most_anywhere(time_ns - pipeline.num_units * again, table, pipeline, place, number) == number)


@compiled
def _recompute_ns(
    table: LayerTable, pipeline: PipelineFacts, tables: SearchTables, place: RankPlace, number: int
) -> float:
    """Return the least recomputation of a rank, from the table where it has been asked for before."""
    rank, is_known = place.rank, len(tables.recompute) > 0
    if is_known and not np.isnan(tables.recompute[rank, number, place.others]):
        return float(tables.recompute[rank, number, place.others])
    if pipeline.live.shape[3] == 1:
        counts = table.counts[:, place.first + number] - table.counts[:, place.first]
    else:
        counts = np.full(len(table.counts), float(place.others))
        counts[0] = number
    recompute_ns = least_recompute(table, pipeline.live[rank], counts, place.own, rank == 0, rank == pipeline.tail_rank)
    if is_known:
        tables.recompute[rank, number, place.others] = recompute_ns
    return float(recompute_ns)
