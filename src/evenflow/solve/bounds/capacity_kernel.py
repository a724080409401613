"""Whether a pipeline can be done in a time, and the least such time."""

from typing import Any, NamedTuple

import numpy as np

from evenflow.simulate.compiled import compiled
from evenflow.solve.bounds.layer_table import LayerTable
from evenflow.solve.bounds.rank_recompute_kernel import in_every_cell, least_recompute
from evenflow.solve.bounds.rank_time_kernel import PipelineFacts, RankPlace, most_anywhere, most_in_a_row, stage_ns

_GROWTH = 1.3
_PLACES = 8
"""Places of ranks that are looked at; those between count as the one before."""
_SHARES = 4
_ROUNDING = 1e-6
_NEAR = 1e-6
"""Share of a time to which it is looked for."""
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
def least_time(table: LayerTable, pipeline: PipelineFacts, known_ns: float, aim_ns: float) -> float:
    """Return a time in ns below which no plan ends, between these two or beside them; infinite where none fits."""
    num_ranks, num_chunks = pipeline.live.shape[0], pipeline.live.shape[3]
    layers = table.counts.shape[1] - 1
    sums = _sums(table)
    rare = int(table.counts[1, layers]) if len(table.counts) == 2 else 0
    known = num_ranks if num_chunks > 1 or len(table.counts) == 1 else 0
    tables = SearchTables(
        sums, _fixed(table, num_ranks, num_chunks, pipeline.min_layers), np.full((known, layers + 1, rare + 1), np.nan)
    )
    work = sums[:, layers].sum() + table.ends[:, :3].sum()
    low = high = max(work * pipeline.num_units / num_ranks, known_ns)
    if low < aim_ns < np.inf and not _ends_by(aim_ns, table, pipeline, tables):
        return aim_ns if _ends_by(_ENDLESS_NS, table, pipeline, tables) else np.inf
    while not _ends_by(high, table, pipeline, tables):
        if low == high and not _ends_by(_ENDLESS_NS, table, pipeline, tables):
            return np.inf
        low, high = high, min(_GROWTH * high, max(high, aim_ns))
        if low == high:
            return float(high)
    while high - low > _NEAR * low:
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
    if pipeline.min_layers == 0:
        return bool(_scattered_end_by(time_ns, table, pipeline, tables))
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
def _scattered_end_by(time_ns: float, table: LayerTable, pipeline: PipelineFacts, tables: SearchTables) -> bool:
    """Return whether ranks with several stages, any of them empty, can end by a time.

    Ranks have places by their first stage with a layer: one waits for a forward of a layer on each rank before it, and
    these have a gradient left when it is done. Every place is taken once. Which rank takes which is left open: each
    has its layers in the place where they are the most beyond what is usual there, and what is usual in all places is
    added in the end: that bounds what they have in any order, whatever is called usual.
    """
    num_ranks, num_chunks, layers = pipeline.live.shape[0], pipeline.live.shape[3], table.counts.shape[1] - 1
    rare = int(table.counts[1, layers]) if len(table.counts) > 1 else 0
    step = (num_ranks + _PLACES - 1) // _PLACES
    firsts = np.arange(0, num_ranks, step)
    nowhere, passes = np.full(num_chunks, -1), _shortest(table, num_ranks)
    numbers = np.full((rare + 1, num_ranks, len(firsts)), -1.0)
    for others in range(rare + 1):
        for rank in range(num_ranks):
            most = layers - rare
            for index in range(len(firsts)):
                place = RankPlace(rank, 0, others, nowhere, _before(table, pipeline, passes, rank, firsts[index]))
                most = _most(time_ns, table, pipeline, tables, place, 0, most)
                if most < 0:
                    break
                numbers[others, rank, index] = most
            if others == 0 and numbers[0, rank, 0] >= 0:
                numbers[0, rank] = np.maximum(numbers[0, rank], 0.0)  # without layers no place counts
    dealt = np.full(rare + 1, -np.inf)
    widths = np.minimum(step, num_ranks - firsts)
    usual = _usual(numbers[0], widths)
    dealt[0] = (usual * widths).sum()
    for rank in range(num_ranks):
        ahead = np.full(rare + 1, -np.inf)
        for others in range(rare + 1):
            beyond = -np.inf
            for index in range(len(firsts)):
                if numbers[others, rank, index] >= 0:
                    beyond = max(beyond, numbers[others, rank, index] - usual[index])
            for already in range(rare + 1 - others):
                ahead[already + others] = max(ahead[already + others], dealt[already] + beyond)
        dealt = ahead
    return bool(dealt[rare] >= layers - rare - _ROUNDING)


@compiled
def _usual(numbers: Any, widths: Any) -> Any:
    """Return how many layers are usual in each place: as many as a share of the ranks has, with the least bound."""
    num_ranks, num_places = numbers.shape
    best, least = np.zeros(num_places), np.inf
    for part in range(1, _SHARES + 1):
        usual = np.zeros(num_places)
        for index in range(num_places):
            usual[index] = max(np.sort(numbers[:, index])[(num_ranks - 1) * part // _SHARES], 0.0)
        bound = (usual * widths).sum()
        for rank in range(num_ranks):
            bound += (numbers[rank] - usual).max()
        if bound < least:
            best, least = usual, bound
    return best


@compiled
def _shortest(table: LayerTable, num_ranks: int) -> Any:
    """Return what forwards, and gradients with recomputation, of so many layers take that are the first of their cells.

    The shortest there are; shape [2, num_ranks].
    """
    passes = np.zeros((2, len(table.times)))
    for kind in range(len(table.times)):
        again = table.extra[:, kind].min()
        if table.full_range[0] > 0:
            again = max(again, table.full[kind])
        passes[0, kind] = table.times[kind, 0]
        passes[1, kind] = table.times[kind, 1] + again
    sums = np.zeros((2, num_ranks))
    for pass_kind in range(2):
        done = 0
        for kind in np.argsort(passes[pass_kind]):
            for _ in range(int(min(table.counts[kind, -1], num_ranks - 1 - done))):
                sums[pass_kind, done + 1] = sums[pass_kind, done] + passes[pass_kind, kind]
                done += 1
        for place in range(done + 1, num_ranks):  # with fewer layers than ranks nobody is there
            sums[pass_kind, place] = sums[pass_kind, done]
    return sums


@compiled
def _before(table: LayerTable, pipeline: PipelineFacts, passes: Any, rank: int, place: int) -> Any:
    """Return forwards and gradients of the layers before a place, with the head and messages; [2]."""
    before = passes[:, place] + rank * pipeline.message_ns
    if rank > 0:
        before += table.ends[0, :2]
    return before


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
    recompute_ns = in_every_cell(table, counts, recompute_ns, pipeline.live.shape[3], pipeline.min_layers)
    if is_known:
        tables.recompute[rank, number, place.others] = recompute_ns
    return float(recompute_ns)
