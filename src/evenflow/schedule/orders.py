"""What the families share: the order of forwards and of backwards on a rank, and how the two are merged."""

from collections.abc import Sequence

import numpy as np

from evenflow.schedule.action import Op
from evenflow.schedule.schedule import Codes


def group_sizes(*, num_microbatches: int, group: int) -> list[int]:
    """Microbatches of each group: `group` each, the remainder merged into the first.

    >>> group_sizes(num_microbatches=9, group=4)
    [5, 4]
    >>> group_sizes(num_microbatches=3, group=4)
    [3]
    """
    if num_microbatches <= group:
        return [num_microbatches]
    return [group + num_microbatches % group] + [group] * (num_microbatches // group - 1)


def chunk_orders(
    *, groups: list[int], num_chunks: int, sequence_splits: int
) -> tuple[tuple[Codes, Codes], tuple[Codes, Codes]]:
    """The ``(chunks, units)`` of all forwards of a rank, and of all its backwards, in order.

    A group goes through the chunks one after the other, forwards up, backwards down::

        2 chunks, groups of 2:  F  0:0 0:1 1:0 1:1 0:2 0:3 1:2 1:3      (chunk:unit)
                                B  1:0 1:1 0:0 0:1 1:2 1:3 0:2 0:3

    Within a sequence that is split, backwards run from the last part to the first: a part's keys and values collect
    gradients from all later parts. [Seq1F1B, §3]
    """
    forward_chunks, forward_units, backward_chunks, backward_units = [], [], [], []
    first = 0
    for size in groups:
        units = np.arange(first * sequence_splits, (first + size) * sequence_splits, dtype=np.int32)
        reversed_parts = units.reshape(size, sequence_splits)[:, ::-1].reshape(-1)
        chunks = np.repeat(np.arange(num_chunks, dtype=np.int32), len(units))
        forward_chunks.append(chunks)
        forward_units.append(np.tile(units, num_chunks))
        backward_chunks.append(num_chunks - 1 - chunks)
        backward_units.append(np.tile(reversed_parts, num_chunks))
        first += size
    return (
        (np.concatenate(forward_chunks), np.concatenate(forward_units)),
        (np.concatenate(backward_chunks), np.concatenate(backward_units)),
    )


def merge(forwards: tuple[Codes, Codes], backwards: tuple[Codes, Codes], *, warmups: Sequence[int]) -> Codes:
    """For every rank its number of `warmups` forwards, then one forward and one backward in turn, then what is left.

    Returns the codes of the ops, stages and units of each rank's actions, shape [3, num_ranks, num_actions a rank].
    """
    num_ranks, count = len(warmups), len(forwards[0])
    codes = np.empty((3, 2 * count), dtype=np.int32)  # all forwards, then all backwards
    for half, op, (chunks, units) in ((codes[:, :count], Op.F, forwards), (codes[:, count:], Op.B, backwards)):
        half[0], half[1], half[2] = op, chunks, units
    codes[1] *= num_ranks
    # Before and after the turns that is the right order already; from a warm-up of w on, place w + t takes forward
    # w + t / 2 for even t and backward (t - 1) / 2 for odd t.
    warmup = np.minimum(warmups, count)[:, np.newaxis]
    place = np.arange(2 * count)
    turn = place - warmup
    taken = (place + warmup) >> 1
    taken += np.where(turn & 1, count - warmup, 0)
    taken = np.where((turn >= 0) & (place < 2 * count - warmup), taken, place)
    orders = np.take(codes, taken, axis=1)
    orders[1] += np.arange(num_ranks, dtype=np.int32)[:, np.newaxis]
    return orders
