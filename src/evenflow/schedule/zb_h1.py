"""ZB-H1: 1F1B whose weight gradients wait to fill the cooldown. [ZeroBubble, arXiv:2401.10241, §2.1]"""

import numpy as np

from evenflow.schedule.action import Op
from evenflow.schedule.schedule import Schedule, check_sizes


def zb_h1(*, num_ranks: int, num_microbatches: int, sequence_splits: int = 1) -> Schedule:
    """1F1B with split backwards; on rank r every weight gradient waits for r further input gradients.

    ::

        rank 0  F0 F1    I0 W0 F2 I1 W1    I2 W2
        rank 1     F0 I0 F1 I1 W0 F2 I2 W1 W2

    Rank r runs r forwards less ahead than rank 0 and holds r weight gradients back, so no rank keeps more microbatches
    than rank 0 of 1F1B. With equal times and enough microbatches a rank idles ``(num_ranks - 1) (F + I - W)``, a third
    of 1F1B's. With a sequence in k parts the warm-up is k - 1 longer, as in 1F1B.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches, sequence_splits=sequence_splits)
    units = np.arange(num_microbatches * sequence_splits, dtype=np.int32)
    gradients = units.reshape(-1, sequence_splits)[:, ::-1].reshape(-1)  # the parts of a sequence in reverse
    ops = np.repeat(np.array([Op.F, Op.I, Op.W], dtype=np.int32), len(units))
    orders = []
    for rank in range(num_ranks):
        # The turn of every action: turn t runs forward t + warmup, input gradient t, weight gradient t - rank.
        warmup = num_ranks - rank - 1 + sequence_splits - 1
        turns = np.concatenate((units - warmup, units, units + rank))
        order = np.lexsort((ops, turns))
        stages = np.full_like(ops, rank)
        orders.append(np.stack((ops, stages, np.concatenate((units, gradients, gradients))))[:, order])
    return Schedule.from_orders(
        name="zb-h1",
        num_stages=num_ranks,
        num_microbatches=num_microbatches,
        sequence_splits=sequence_splits,
        orders=orders,
    )
