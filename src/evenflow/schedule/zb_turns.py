"""The order shared by ZB-H1 and ZB-H2: 1F1B with split backwards, in turns. [ZeroBubble, arXiv:2401.10241, §2]"""

import numpy as np

from evenflow.schedule.action import Op
from evenflow.schedule.pattern import Pattern
from evenflow.schedule.schedule import Schedule, check_sizes

_ACTIONS = 3
"""Actions of a turn: forward, input gradient and weight gradient."""


def zb_turns(*, name: str, ahead: int, num_ranks: int, num_microbatches: int, sequence_splits: int) -> Schedule:
    """Return the schedule `name`, whose turn t on rank r runs, in this order and as far as they exist,

    ::

        forward         t + ahead (num_ranks - r - 1) + sequence_splits - 1
        input gradient  t
        weight gradient t - ahead r

    Every rank further down starts with `ahead` forwards less and holds back as many weight gradients more, so all of
    them keep equally much in the steady phase.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches, sequence_splits=sequence_splits)
    units = np.arange(num_microbatches * sequence_splits, dtype=np.int32)
    gradients = units.reshape(-1, sequence_splits)[:, ::-1].reshape(-1)  # the parts of a sequence in reverse
    ops = np.repeat(np.array([Op.F, Op.I, Op.W], dtype=np.int32), len(units))
    orders = []
    for rank in range(num_ranks):
        warmup = ahead * (num_ranks - rank - 1) + sequence_splits - 1
        turns = np.concatenate((units - warmup, units, units + ahead * rank))
        order = np.lexsort((ops, turns))
        stages = np.full_like(ops, rank)
        orders.append(np.stack((ops, stages, np.concatenate((units, gradients, gradients))))[:, order])
    return Schedule.from_orders(
        name=name,
        num_stages=num_ranks,
        num_microbatches=num_microbatches,
        sequence_splits=sequence_splits,
        orders=orders,
    )


def turns_pattern(*, ahead: int, num_ranks: int) -> Pattern:
    """Return the pattern of the same turns, in which a microbatch takes `ahead` turns from a rank to the next and back.

    Forwards take a third of that; any part gives the same turns.
    """
    return Pattern(
        forwards=tuple(ahead * rank for rank in range(num_ranks)),
        gradients=tuple(ahead * (num_ranks - 1) + 1 + 2 * ahead * (num_ranks - 1 - rank) for rank in range(num_ranks)),
        period=_ACTIONS,
    )
