"""What ranks set aside for others, whose activations wait with them instead of on the host.

A keeper sets aside a pool of one size for the whole step, as programs that reuse their buffers do: the most that the
other rank has away at once. What a forward has made counts from its end, when it may begin to leave, to the beginning
of its backward, when it is back; so the size follows from the order of the rank that moves it alone.

    rank 0   F0   F1   F2   F3   B0   F4   B1 …   1F1B on 4 ranks
    away        0    0    0    0    1    1
                     1    1    1    2    2        a pool for 4 microbatches
                          2    2    3    3
                               3         4
"""

import numpy as np

from evenflow.model import HostLink
from evenflow.schedule import Schedule
from evenflow.simulate.copies import Away, away
from evenflow.simulate.costs import Integers, StageCosts


def maximal(vectors: Integers) -> Integers:
    """Return the vectors that are not smaller than another in every entry."""
    found = np.unique(vectors, axis=0)[::-1]
    kept = np.zeros((0, vectors.shape[1]), dtype=np.int64)
    for vector in found[np.argsort(-found.sum(axis=1), kind="stable")]:
        if not (kept >= vector).all(axis=1).any():
            kept = np.vstack((kept, vector))
    return kept


def away_vectors(schedule: Schedule, host_link: HostLink, rank: int) -> Integers:
    """Return the maximal vectors of microbatches per chunk that a rank has away at once, [num_vectors, num_chunks]."""
    start, end = schedule.rank_starts[rank : rank + 2]
    chunks = schedule.stage_chunks[schedule.stages[start:end]]
    own = away(schedule, host_link, rank)
    changes = np.zeros((end - start, schedule.num_chunks), dtype=np.int64)
    np.add.at(changes, (own.forwards, chunks[own.forwards]), 1)
    np.add.at(changes, (own.backwards, chunks[own.backwards]), -1)
    return maximal(np.cumsum(changes, axis=0))


def leaving(schedule: Schedule, costs: StageCosts, rank: int) -> tuple[Away, Integers]:
    """Return what leaves a rank of these costs, over their link, and the bytes of each."""
    assert costs.host_link is not None
    assert costs.offloaded_bytes is not None
    own = away(schedule, costs.host_link, rank, first_moved=costs.first_moved)
    stages = schedule.stages[schedule.rank_starts[rank] : schedule.rank_starts[rank + 1]]
    sizes = costs.offloaded_bytes[stages[own.forwards]]
    if costs.first_moved:
        first = np.array(costs.first_moved[rank], dtype=np.int64)
        is_first = own.places < len(first)
        sizes[is_first] = first[own.places[is_first]]
    return own, sizes


def pools_of(schedule: Schedule, costs: StageCosts) -> dict[int, int]:
    """Return the bytes that are set aside for each rank that has a keeper."""
    if costs.host_link is None or costs.offloaded_bytes is None:
        return {}
    return {
        rank: _most_away(schedule, costs, rank)
        for rank, keeper in enumerate(costs.host_link.keepers)
        if keeper is not None
    }


def _most_away(schedule: Schedule, costs: StageCosts, rank: int) -> int:
    own, sizes = leaving(schedule, costs, rank)
    changes = np.zeros(schedule.rank_starts[rank + 1] - schedule.rank_starts[rank], dtype=np.int64)
    np.add.at(changes, own.forwards, sizes)
    np.add.at(changes, own.backwards, -sizes)
    return int(np.cumsum(changes).max(initial=0))


def pool_bytes(schedule: Schedule, costs: StageCosts) -> Integers:
    """Return what every rank sets aside for others, shape [num_ranks]."""
    pools = np.zeros(schedule.num_ranks, dtype=np.int64)
    for rank, size in pools_of(schedule, costs).items():
        assert costs.host_link is not None
        pools[costs.host_link.keepers[rank]] += size
    return pools
