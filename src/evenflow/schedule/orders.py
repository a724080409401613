"""What the families share: the order of forwards and of backwards on a rank, and how the two are merged."""

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


def merge(
    forwards: tuple[Codes, Codes], backwards: tuple[Codes, Codes], *, warmup: int, rank: int, num_ranks: int
) -> tuple[Codes, Codes, Codes]:
    """`warmup` forwards, then one forward and one backward in turn, then the backwards that are left.

    Returns the ``(ops, stages, units)`` arrays of the rank.
    """
    count = len(forwards[0])
    warmup = min(warmup, count)
    paired = count - warmup
    is_forward = np.zeros(2 * count, dtype=bool)
    is_forward[:warmup] = True
    is_forward[warmup : warmup + 2 * paired : 2] = True
    chunks, units = np.empty(2 * count, dtype=np.int32), np.empty(2 * count, dtype=np.int32)
    chunks[is_forward], units[is_forward] = forwards
    chunks[~is_forward], units[~is_forward] = backwards
    ops = np.where(is_forward, np.int32(Op.F), np.int32(Op.B))
    return ops, chunks * np.int32(num_ranks) + np.int32(rank), units
