"""ZB-V: zero bubble with the memory of 1F1B, two chunks on a V. [arXiv:2401.10241, §6; arXiv:2405.15362, §3]"""

import numpy as np

from evenflow.schedule.action import Op
from evenflow.schedule.building_block import PERIOD, Block, unroll
from evenflow.schedule.pattern import Pattern, v_pattern
from evenflow.schedule.schedule import Schedule, check_sizes


def zbv(*, num_ranks: int, num_microbatches: int, in_pairs: bool = False) -> Schedule:
    """Return ZB-V: forwards and gradients run down the V and back up, four units per rank in chunk 0, two in chunk 1.

    ::

        2 ranks; stages 0 and 3 on rank 0, 1 and 2 on rank 1
        rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 0I1 3W2 0I2 0W1 0W2
        rank 1      1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 1I1 2I2 1I2 2W1 1W1 2W2 1W2

    The block lives 12 p units of 6 on every rank, so at most 2 p chunk activations are live: p whole ones, as on rank 0
    of 1F1B. With F = I = W and 2 p - 1 microbatches or more, no rank waits between its own actions; with p or more,
    each rank waits no longer in all.

    With `in_pairs` the two gradients of a microbatch that follow one another are one backward, and where that follows
    a forward they run beside each other, but not before the first gradient of chunk 0: ranks would wait for those
    pairs. With fewer than p - 1 microbatches they would wait in a circle, and forwards run by themselves.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    in_turn = unroll(_block(num_ranks), name="zbv", num_microbatches=num_microbatches, most_live=2 * num_ranks)
    return _in_pairs(in_turn) if in_pairs else in_turn


def zbv_pattern(*, num_ranks: int) -> Pattern:
    """Return the pattern of ZB-V."""
    return v_pattern(_block(num_ranks), period=PERIOD)


def _in_pairs(in_turn: Schedule) -> Schedule:
    """Return the order with whole backwards, and forwards beside them, where these actions follow one another."""
    codes = np.stack((in_turn.ops, in_turn.stages, in_turn.units))
    one_microbatch = (codes[1:, :-1] == codes[1:, 1:]).all(axis=0)
    whole = np.flatnonzero((codes[0, :-1] == Op.I) & (codes[0, 1:] == Op.W) & one_microbatch)
    codes[0, whole] = Op.B
    codes, ranks = np.delete(codes, whole + 1, axis=1), np.delete(in_turn.ranks, whole + 1)
    pairs = np.zeros((1, len(ranks)), dtype=np.int32)
    if in_turn.num_microbatches >= in_turn.num_ranks - 1:
        is_own = (codes[1:, :-1] == codes[1:, 1:]).all(axis=0)
        is_beside = (codes[0, :-1] == Op.F) & (codes[0, 1:] == Op.B) & (ranks[:-1] == ranks[1:])
        gradients = np.flatnonzero(np.isin(codes[0], (Op.B, Op.I)) & (codes[1] < in_turn.num_ranks))
        _ranks, first = np.unique(ranks[gradients], return_index=True)
        is_full = np.arange(1, len(ranks)) >= gradients[first][ranks[1:]]
        pairs[0, :-1] = is_beside & ~is_own & is_full
    starts = np.searchsorted(ranks, np.arange(1, in_turn.num_ranks))
    return Schedule.from_orders(
        name="zbv-overlap",
        num_stages=in_turn.num_stages,
        num_microbatches=in_turn.num_microbatches,
        stage_ranks=in_turn.stage_ranks,
        orders=np.split(np.concatenate((codes, pairs)), starts, axis=1),
    )


def _block(num_ranks: int) -> Block:
    return [
        (4 * rank, 6 * num_ranks - 2 * rank - 3, 6 * num_ranks + 4 * rank - 2, 12 * num_ranks - 2 * rank - 5)
        for rank in range(num_ranks)
    ]
