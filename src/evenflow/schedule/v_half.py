"""V-Half: half the activations of 1F1B, two chunks on a V. [Controllable memory, arXiv:2405.15362, §3]"""

from evenflow.schedule.building_block import PERIOD, Block, unroll
from evenflow.schedule.pattern import Pattern, v_pattern
from evenflow.schedule.schedule import Schedule, check_sizes


def v_half(*, num_ranks: int, num_microbatches: int) -> Schedule:
    """Return V-Half: forwards take two units per rank down the V in chunk 0 and one per rank back up in chunk 1.

    ::

        one microbatch on 3 ranks; 0 and 1 are the chunks
        rank 0  F0                   F1 I1                      I0
        rank 1        F0          F1          I1             I0
        rank 2              F0 F1                   I1    I0

    The block lives about 6 p units of 6 on every rank: p // 2 + 1 whole activations. For an even number of ranks the
    turn from forward to gradient waits three units, or two actions of a rank would fall into the same unit of a period.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    most_live = 2 * (num_ranks // 2 + 1)
    return unroll(_block(num_ranks), name="v-half", num_microbatches=num_microbatches, most_live=most_live)


def v_half_pattern(*, num_ranks: int) -> Pattern:
    """Return the pattern of V-Half."""
    return v_pattern(_block(num_ranks), period=PERIOD)


def _block(num_ranks: int) -> Block:
    turn = 3 if num_ranks % 2 == 0 else 0
    return [
        (
            2 * rank,
            3 * num_ranks - rank - 2,
            3 * num_ranks + turn + 2 * rank - 1,
            6 * num_ranks + turn - rank - 2,
        )
        for rank in range(num_ranks)
    ]
