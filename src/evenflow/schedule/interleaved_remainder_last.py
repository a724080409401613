"""Interleaved 1F1B whose remainder comes last: the published order continued as it stands. [uneven VPP talk, part 2]"""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.schedule.orders import chunk_orders, merge
from evenflow.schedule.schedule import Schedule, check_sizes


def interleaved_remainder_last(*, num_ranks: int, num_chunks: int, num_microbatches: int) -> Schedule:
    """Return interleaved 1F1B where microbatches that do not fill a group of ``num_ranks`` are a last, smaller group.

    ::

        4 ranks, 2 chunks, 5 microbatches: forwards of rank 0, in groups of 4 and 1
        0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 4F4

    The last group does not fill the pipeline, so ranks wait between its chunks. The family is here to be compared with
    `interleaved`, which never idles more. Some sizes can never finish and are refused: see `never_finishes`.
    """
    check_sizes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches)
    whole, remainder = divmod(num_microbatches, num_ranks)
    groups = [num_ranks] * whole + ([remainder] if remainder else [])
    if never_finishes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches):
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
