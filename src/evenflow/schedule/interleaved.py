"""Interleaved 1F1B: several model chunks per rank. [Megatron-LM, arXiv:2104.04473, §2.2]"""

from evenflow.model import Sizes
from evenflow.schedule.groups import check_group_size, group_sizes, usual_group_size
from evenflow.schedule.orders import chunk_orders, merge
from evenflow.schedule.schedule import Schedule


def interleaved(
    *,
    num_ranks: int,
    num_chunks: int,
    num_microbatches: int,
    sequence_splits: int = 1,
    group_size: int | None = None,
    less_memory: bool = False,
    in_pairs: bool = False,
) -> Schedule:
    """Return interleaved 1F1B: after a warm-up, one forward and one backward in turn, in groups of microbatches.

    ::

        2 ranks, 2 chunks, 2 microbatches; stages 0 and 2 on rank 0, 1 and 3 on rank 1
        rank 0  0F0 0F1 2F0 2F1          2B0 2B1 0B0 0B1
        rank 1      1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1

    A group passes one chunk after the other. It has `group_size` microbatches, by default ``num_ranks`` (fewer when a
    split sequence fills the pipeline with fewer). Microbatches that do not fill a group are a last one, if they fill
    the pipeline; otherwise they are merged into the first, which keeps the bubble of the even case. The warm-up of rank
    r is the first group's forwards of all chunks but the last, and ``2 (num_ranks - r - 1)`` more; with `less_memory`
    only ``num_ranks - r - 1`` more: with fewer, equal stages would wait between warm-up and cooldown.

    `in_pairs` lets every forward between warm-up and cooldown run beside the backward that follows it, after one more
    forward in the warm-up: no backward is then of the microbatch whose forward it runs beside. [Megatron-LM,
    `get_pp_rank_microbatches`, `overlap_moe_expert_parallel_comm`]
    """
    name = "interleaved-less-memory" if less_memory else "interleaved-overlap" if in_pairs else "interleaved"
    sizes = Sizes(
        num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches, sequence_splits=sequence_splits
    )
    fill = usual_group_size(sizes)
    if group_size is not None:
        check_group_size(name, sizes, group_size)
    groups = group_sizes(num_microbatches=num_microbatches, group=group_size or fill, fill=fill)
    forwards, backwards = chunk_orders(groups=groups, num_chunks=num_chunks, sequence_splits=sequence_splits)
    first_pass = (num_chunks - 1) * groups[0] * sequence_splits + sequence_splits - 1 + in_pairs
    ahead = 1 if less_memory else 2
    return Schedule.from_table(
        name=name,
        num_stages=num_ranks * num_chunks,
        num_microbatches=num_microbatches,
        sequence_splits=sequence_splits,
        group_size=None if group_size == fill else group_size,
        codes=merge(
            forwards,
            backwards,
            warmups=[first_pass + ahead * (num_ranks - rank - 1) for rank in range(num_ranks)],
            in_pairs=in_pairs,
        ),
    )
