"""Interleaved 1F1B whose remainder comes last: the published order continued as it stands. [uneven VPP talk, part 2]"""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Sizes
from evenflow.schedule.groups import check_group_size
from evenflow.schedule.orders import chunk_orders, merge
from evenflow.schedule.schedule import Schedule


def interleaved_remainder_last(
    *, num_ranks: int, num_chunks: int, num_microbatches: int, group_size: int | None = None
) -> Schedule:
    """Return interleaved 1F1B where microbatches that do not fill a group of ``num_ranks`` are a last, smaller group.

    ::

        4 ranks, 2 chunks, 5 microbatches: forwards of rank 0, in groups of 4 and 1
        0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 4F4

    The last group does not fill the pipeline, so ranks wait between its chunks. The family is here to be compared with
    `interleaved`, which never idles more. Some sizes can never finish and are refused: see `never_finishes`. With
    another `group_size`, the remainder must fill the pipeline, as Megatron-LM demands.
    """
    sizes = Sizes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches)
    if group_size is not None:
        check_group_size("interleaved-remainder-last", sizes, group_size)
    whole, remainder = divmod(num_microbatches, group_size or num_ranks)
    groups = [group_size or num_ranks] * whole + ([remainder] if remainder else [])
    if group_size not in (None, num_ranks):
        if 0 < remainder < num_ranks:
            raise InputError(
                value=group_size,
                rule=_(
                    "must leave no last group of fewer microbatches than ranks ({num_ranks}), but leaves {remainder}",
                    num_ranks=num_ranks,
                    remainder=remainder,
                ),
                place=_("group size"),
                remedy=_("use interleaved, where they join the first group"),
            )
    elif never_finishes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches):
        raise InputError(
            value=num_microbatches,
            rule=_(
                "must not leave a last group of {remainder} on {num_ranks} ranks x {num_chunks} chunks, where ranks "
                "wait for each other in a circle",
                remainder=remainder,
                num_ranks=num_ranks,
                num_chunks=num_chunks,
            ),
            place=_("schedule interleaved-remainder-last, microbatches"),
            remedy=_("use interleaved, which runs any number of microbatches"),
        )
    forwards, backwards = chunk_orders(groups=groups, num_chunks=num_chunks, sequence_splits=1)
    first_pass = (num_chunks - 1) * groups[0]
    return Schedule.from_table(
        name="interleaved-remainder-last",
        num_stages=num_ranks * num_chunks,
        num_microbatches=num_microbatches,
        group_size=None if group_size == num_ranks else group_size,
        codes=merge(
            forwards, backwards, warmups=[first_pass + 2 * (num_ranks - rank - 1) for rank in range(num_ranks)]
        ),
    )


def never_finishes(*, num_ranks: int, num_chunks: int, num_microbatches: int) -> bool:
    """Return whether the order has a circle of ranks that wait for each other.

    A small last group comes back to rank 0 for its next chunk only after ``num_ranks`` forwards, while every rank waits
    for one of its backwards after each of its own few. One microbatch with two chunks is just few enough.
    """
    whole, remainder = divmod(num_microbatches, num_ranks)
    smallest = 1 if num_chunks > 2 else 2
    return num_chunks > 1 and whole > 0 and smallest <= remainder <= num_ranks - 3
