"""1F1B-V: 1F1B with two thirds of its activations, two chunks on a V. [Controllable memory, arXiv:2405.15362, §4]"""

import numpy as np

from evenflow.model import v_shaped
from evenflow.schedule.action import NUM_OPS, Op
from evenflow.schedule.insertion import STUCK, insert
from evenflow.schedule.pattern import Pattern, unrolled
from evenflow.schedule.schedule import Schedule, check_sizes

_PERIOD = 6
"""Units from one microbatch to the next: a forward of one unit and a backward of two on each of two chunks."""


def one_f_one_b_v_pattern(*, num_ranks: int) -> Pattern:
    """Return the pattern of 1F1B-V: forwards follow each other at once, backwards too but for every third."""
    last = 2 * num_ranks - 1
    turn = 2 * num_ranks + (3 if num_ranks % 3 == 0 else 0)
    shift = (1 - num_ranks) % 3
    return Pattern(
        forwards=tuple(range(2 * num_ranks)),
        gradients=tuple(
            turn + 2 * (last - stage) + 3 * ((last - stage + shift) // 3) for stage in range(2 * num_ranks)
        ),
        period=_PERIOD,
    )


def one_f_one_b_v(*, num_ranks: int, num_microbatches: int) -> Schedule:
    """Return 1F1B-V: whole backwards, of which each third waits three units so that no two fall together.

    ::

        2 ranks; stages 0 and 3 on rank 0, 1 and 2 on rank 1; a backward takes two columns
        rank 0  0F0 0F1 0F2 3F0 3B0     3F1 3B1         0B0     3F2 3B2         0B1             0B2
        rank 1      1F0 2F0 1F1 2F1     2B0     1B0     1F2 2F2 2B1     1B1     2B2     1B2

    At most ``2 num_ranks // 3 + 1`` whole activations are live on a rank.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    num_stages = 2 * num_ranks
    stage_ranks = v_shaped(num_ranks=num_ranks)
    whole = np.zeros(num_stages, dtype=bool)
    pattern = unrolled(
        one_f_one_b_v_pattern(num_ranks=num_ranks), stage_ranks=stage_ranks, num_units=num_microbatches, splits=whole
    )
    durations = np.zeros((num_stages, NUM_OPS), dtype=np.int64)
    durations[:, Op.F], durations[:, Op.B] = 1, 2
    ones = np.ones(num_stages, dtype=np.int64)
    rank_starts = np.arange(num_ranks + 1) * 4 * num_microbatches
    codes = np.empty(pattern.shape, dtype=np.int32)
    makespan = insert(
        pattern, np.array(stage_ranks), durations.reshape(-1), np.zeros(durations.size, dtype=np.int64), ones, ones,
        np.full(num_ranks, 2 * (2 * num_ranks // 3 + 1)), np.arange(num_microbatches), rank_starts, codes,
    )  # fmt: skip
    assert makespan != STUCK  # the pattern fits, as a test of many sizes shows
    return Schedule.from_orders(
        name="1f1b-v",
        num_stages=num_stages,
        num_microbatches=num_microbatches,
        stage_ranks=stage_ranks,
        orders=np.split(codes, rank_starts[1:-1], axis=1),
    )
