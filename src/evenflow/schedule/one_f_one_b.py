"""1F1B, PipeDream-flush: one forward, one backward in turn. [PipeDream-2BW, arXiv:2006.09503, §3.2]"""

from evenflow.schedule.orders import chunk_orders, merge
from evenflow.schedule.schedule import Schedule, check_sizes


def one_f_one_b(*, num_ranks: int, num_microbatches: int, sequence_splits: int = 1) -> Schedule:
    """Return 1F1B: each rank runs ``num_ranks - rank - 1`` forwards, then one forward and one backward in turn.

    ::

        rank 0  F0 F1    B0 F2 B1    B2
        rank 1     F0 B0 F1 B1 F2 B2

    At most ``num_ranks - rank`` activations are live on a rank. With a sequence in k parts the warm-up is k - 1 longer,
    since the first backward is that of the last part. [Seq1F1B, arXiv:2406.03488, §3]
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches, sequence_splits=sequence_splits)
    forwards, backwards = chunk_orders(groups=[num_microbatches], num_chunks=1, sequence_splits=sequence_splits)
    return Schedule.from_table(
        name="1f1b",
        num_stages=num_ranks,
        num_microbatches=num_microbatches,
        sequence_splits=sequence_splits,
        codes=merge(
            forwards, backwards, warmups=[num_ranks - rank - 1 + sequence_splits - 1 for rank in range(num_ranks)]
        ),
    )
