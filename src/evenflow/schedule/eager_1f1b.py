"""Eager 1F1B: 1F1B with a longer warm-up, so that messages have time. [Zhuang et al., arXiv:2211.05322]"""

from evenflow.schedule.orders import chunk_orders, merge
from evenflow.schedule.schedule import Schedule, check_sizes


def eager_1f1b(*, num_ranks: int, num_microbatches: int, sequence_splits: int = 1) -> Schedule:
    """Return eager 1F1B: each rank runs ``2 (num_ranks - rank - 1)`` forwards, then forward and backward in turn.

    ::

        rank 0  F0 F1 F2 B0    B1 B2
        rank 1     F0 B0 F1 B1 F2 B2

    The first backward comes after ``2 (num_ranks - rank) - 1`` forwards, where 1F1B has ``num_ranks - rank``. So every
    forward but those of the last rank runs one turn earlier than it is needed, which hides a message of up to one
    turn, and nearly twice as many activations are live. With free messages it takes as long as 1F1B.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches, sequence_splits=sequence_splits)
    forwards, backwards = chunk_orders(groups=[num_microbatches], num_chunks=1, sequence_splits=sequence_splits)
    return Schedule.from_table(
        name="eager-1f1b",
        num_stages=num_ranks,
        num_microbatches=num_microbatches,
        sequence_splits=sequence_splits,
        codes=merge(
            forwards, backwards, warmups=[2 * (num_ranks - rank - 1) + sequence_splits - 1 for rank in range(num_ranks)]
        ),
    )
