"""F-then-B, the schedule of GPipe: all forwards, then all backwards. [GPipe, arXiv:1811.06965, §2]"""

from evenflow.schedule.orders import chunk_orders, merge
from evenflow.schedule.schedule import Schedule, check_sizes


def f_then_b(*, num_ranks: int, num_microbatches: int, num_chunks: int = 1, sequence_splits: int = 1) -> Schedule:
    """Return F-then-B: all forwards, then all backwards; every activation of the step is live in between.

    ::

        rank 0  F0 F1 F2          B0 B1 B2
        rank 1     F0 F1 F2 B0 B1 B2

    With several chunks, all microbatches pass one chunk before the next begins.
    """
    check_sizes(
        num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches, sequence_splits=sequence_splits
    )
    forwards, backwards = chunk_orders(
        groups=[num_microbatches], num_chunks=num_chunks, sequence_splits=sequence_splits
    )
    return Schedule.from_table(
        name="f-then-b",
        num_stages=num_ranks * num_chunks,
        num_microbatches=num_microbatches,
        sequence_splits=sequence_splits,
        codes=merge(forwards, backwards, warmups=[len(forwards[0])] * num_ranks),
    )
