"""Naive pipelining, no pipelining at all: one microbatch at a time. [GPipe, arXiv:1811.06965, figure 2b]"""

import numpy as np

from evenflow.schedule.action import Op
from evenflow.schedule.orders import chunk_orders
from evenflow.schedule.schedule import Schedule, check_sizes


def naive(*, num_ranks: int, num_microbatches: int, num_chunks: int = 1, sequence_splits: int = 1) -> Schedule:
    """Return naive pipelining: a microbatch goes forward and backward through all stages before the next begins.

    Only one rank works at a time.

    ::

        rank 0  F0       B0 F1       B1
        rank 1     F0 B0       F1 B1
    """
    check_sizes(
        num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches, sequence_splits=sequence_splits
    )
    directions = chunk_orders(groups=[1] * num_microbatches, num_chunks=num_chunks, sequence_splits=sequence_splits)
    num_forwards = num_chunks * sequence_splits
    rank_codes = np.empty((3, num_microbatches, 2 * num_forwards), dtype=np.int32)
    for half, op, (chunks, units) in zip(
        (rank_codes[:, :, :num_forwards], rank_codes[:, :, num_forwards:]), (Op.F, Op.B), directions, strict=True
    ):
        half[0], half[1], half[2] = op, (chunks * num_ranks).reshape(-1, num_forwards), units.reshape(-1, num_forwards)
    codes = np.repeat(rank_codes.reshape(3, 1, -1), num_ranks, axis=1)
    codes[1] += np.arange(num_ranks, dtype=np.int32)[:, np.newaxis]
    return Schedule.from_table(
        name="naive",
        num_stages=num_ranks * num_chunks,
        num_microbatches=num_microbatches,
        sequence_splits=sequence_splits,
        codes=codes,
    )
