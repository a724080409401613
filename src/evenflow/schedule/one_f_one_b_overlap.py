"""1F1B whose forwards run beside backwards. [Megatron-LM, `overlap_moe_expert_parallel_comm`, with one chunk]"""

from evenflow.schedule.orders import chunk_orders, merge
from evenflow.schedule.schedule import Schedule, check_sizes


def one_f_one_b_overlap(*, num_ranks: int, num_microbatches: int, sequence_splits: int = 1) -> Schedule:
    """Return 1F1B with pairs: each rank runs ``2 (num_ranks - rank) - 1`` forwards, then one beside each backward.

    ::

        rank 0  F0 F1 F2 F3B0 F4B1 B2 B3 B4
        rank 1     F0 F1B0 F2B1 F3B2 F4B3 B4

    What a pair gives is there when all of it has ended, so a microbatch is one pair further on every rank in both
    directions: nearly twice as many activations are live as under 1F1B.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches, sequence_splits=sequence_splits)
    forwards, backwards = chunk_orders(groups=[num_microbatches], num_chunks=1, sequence_splits=sequence_splits)
    return Schedule.from_table(
        name="1f1b-overlap",
        num_stages=num_ranks,
        num_microbatches=num_microbatches,
        sequence_splits=sequence_splits,
        codes=merge(
            forwards,
            backwards,
            warmups=[2 * (num_ranks - rank - 1) + sequence_splits for rank in range(num_ranks)],
            in_pairs=True,
        ),
    )
