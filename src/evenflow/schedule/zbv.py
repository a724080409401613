"""ZB-V: zero bubble with the memory of 1F1B, two chunks on a V. [arXiv:2401.10241, §6; arXiv:2405.15362, §3]"""

from evenflow.schedule.building_block import PERIOD, Block, unroll
from evenflow.schedule.pattern import Pattern, v_pattern
from evenflow.schedule.schedule import Schedule, check_sizes


def zbv(*, num_ranks: int, num_microbatches: int) -> Schedule:
    """Return ZB-V: forwards and gradients run down the V and back up, four units per rank in chunk 0, two in chunk 1.

    ::

        2 ranks; stages 0 and 3 on rank 0, 1 and 2 on rank 1
        rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 0I1 3W2 0I2 0W1 0W2
        rank 1      1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 1I1 2I2 1I2 2W1 1W1 2W2 1W2

    The block lives 12 p units of 6 on every rank, so at most 2 p chunk activations are live: p whole ones, as on rank 0
    of 1F1B. With F = I = W and 2 p - 1 microbatches or more, no rank waits between its own actions; with p or more,
    each rank waits no longer in all.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    return unroll(_block(num_ranks), name="zbv", num_microbatches=num_microbatches, most_live=2 * num_ranks)


def zbv_pattern(*, num_ranks: int) -> Pattern:
    """Return the pattern of ZB-V."""
    return v_pattern(_block(num_ranks), period=PERIOD)


def _block(num_ranks: int) -> Block:
    return [
        (4 * rank, 6 * num_ranks - 2 * rank - 3, 6 * num_ranks + 4 * rank - 2, 12 * num_ranks - 2 * rank - 5)
        for rank in range(num_ranks)
    ]
