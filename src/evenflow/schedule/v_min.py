"""V-Min: a third of the activations of 1F1B, two chunks on a V. [Controllable memory, arXiv:2405.15362, §3]"""

from evenflow.schedule.building_block import PERIOD, Block, unroll
from evenflow.schedule.pattern import Pattern, v_pattern
from evenflow.schedule.schedule import Schedule, check_sizes


def v_min(*, num_ranks: int, num_microbatches: int) -> Schedule:
    """Return V-Min: each microbatch takes one unit per rank down the V and back up, so that it never waits.

    ::

        one microbatch on 2 ranks; 0 and 1 are the chunks
        rank 0  F0       F1 I1       I0
        rank 1     F0 F1       I1 I0

    The block lives about 4 p units of 6 on every rank: (p + 4) // 3 whole activations. Where 3 divides the number of
    ranks the turn from forward to gradient waits two units, or two actions of a rank would fall into the same unit of a
    period.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    most_live = 2 * ((num_ranks + 4) // 3)
    return unroll(_block(num_ranks), name="v-min", num_microbatches=num_microbatches, most_live=most_live)


def v_min_pattern(*, num_ranks: int) -> Pattern:
    """Return the pattern of V-Min."""
    return v_pattern(_block(num_ranks), period=PERIOD)


def _block(num_ranks: int) -> Block:
    turn = 2 if num_ranks % 3 == 0 else 0
    return [
        (rank, 2 * num_ranks - rank - 1, 2 * num_ranks + turn + rank, 4 * num_ranks + turn - rank - 1)
        for rank in range(num_ranks)
    ]
