"""Parts that the families share: the order of forwards and of backwards on a rank, and how the two are merged."""

from collections.abc import Sequence

import numpy as np

from evenflow.schedule.action import Op
from evenflow.schedule.schedule import Codes


def chunk_orders(
    *, groups: list[int], num_chunks: int, sequence_splits: int
) -> tuple[tuple[Codes, Codes], tuple[Codes, Codes]]:
    """Return ``(chunks, units)`` of all forwards of a rank, and ``(chunks, units)`` of all its backwards, in order.

    A group goes through the chunks one after the other, forwards up, backwards down::

        2 chunks, groups of 2:  F  0:0 0:1 1:0 1:1 0:2 0:3 1:2 1:3      (chunk:unit)
                                B  1:0 1:1 0:0 0:1 1:2 1:3 0:2 0:3

    Within a split sequence, backwards run from the last part to the first: a part's keys and values collect
    gradients from all later parts. [Seq1F1B, §3]
    """
    num_parts = sum(groups) * sequence_splits
    table = np.empty((4, num_parts * num_chunks), dtype=np.int32)
    parts = np.arange(num_parts, dtype=np.int32).reshape(-1, sequence_splits)
    chunks = np.arange(num_chunks, dtype=np.int32)[:, np.newaxis]
    first = begin = 0
    for size in groups:
        end = begin + size * sequence_splits * num_chunks
        group_parts = parts[first : first + size]
        block = table[:, begin:end].reshape(4, num_chunks, -1)  # a view
        block[0], block[1] = chunks, group_parts.reshape(-1)
        block[2], block[3] = chunks[::-1], group_parts[:, ::-1].reshape(-1)
        first, begin = first + size, end
    return (table[0], table[1]), (table[2], table[3])


def merge(
    forwards: tuple[Codes, Codes], backwards: tuple[Codes, Codes], *, warmups: Sequence[int], in_pairs: bool = False
) -> Codes:
    """Return the actions of every rank: `warmups` forwards, then one forward and one backward in turn, then the rest.

    They are given as codes of their ops, stages and units, shape [3, num_ranks, num_actions per rank]; a fourth row has
    which forwards run beside the backward behind them: `in_pairs`, all of the turns.
    """
    num_ranks, count = len(warmups), len(forwards[0])
    codes = np.empty((3, 2 * count), dtype=np.int32)  # all forwards, then all backwards
    for half, op, (chunks, units) in (
        (codes[:, :count], int(Op.F), forwards),
        (codes[:, count:], int(Op.B), backwards),
    ):
        half[0], half[1], half[2] = int(op), chunks, units
    codes[1] *= num_ranks
    # Before and after the turns that is the right order already; from a warm-up of w on, place w + t takes forward
    # w + t / 2 for even t and backward (t - 1) / 2 for odd t.
    warmup = np.minimum(np.array(warmups, dtype=np.int32), count)[:, np.newaxis]
    place = np.arange(2 * count, dtype=np.int32)
    turn = place - warmup
    taken = (place + warmup) >> 1
    taken += (turn & 1) * (count - warmup)
    in_turns = (turn >= 0) & (place < 2 * count - warmup)
    orders = codes.take(np.where(in_turns, taken, place), axis=1)
    orders[1] += np.arange(num_ranks, dtype=np.int32)[:, np.newaxis]
    if not in_pairs:
        return orders
    leads = in_turns & (turn % 2 == 0) & (place < 2 * count - warmup - 1)
    return np.concatenate((orders, leads[np.newaxis].astype(np.int32)))
