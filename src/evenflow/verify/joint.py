"""All that a rank may hold at once of any number of chunks, where states do not say where these are cut."""

from collections.abc import Sequence

import numpy as np

from evenflow.verify.contents import FROM, TO, WORKING, Contents, times_of
from evenflow.verify.order import Table


def joint_contents(
    chunks: Sequence[Contents], held: Sequence[Table], counted: Table, *, most_ns: int, room: int
) -> tuple[Table, Table]:
    """Return what a rank may hold that takes at most `most_ns` and fits into `room`, but for what is never shorter.

    Of each chunk come its contents and what these hold at all times, [num_times, num_contents]; `counted` is what the
    layers before every place count. Returned are what all layers count, and times as in a graph.
    """
    whole = np.zeros((1, 2 + len(held[0])), dtype=np.int64)  # count, working memory, held, then times
    fixed = whole.shape[1]
    for (rows, *_spans), own_held in zip(chunks, held, strict=True):
        count = counted[rows[:, TO]] - counted[rows[:, FROM]]
        part = np.unique(np.stack((count, rows[:, WORKING], *own_held, *times_of(rows).T), axis=1), axis=0)
        loads = [(own[:, fixed::4] + own[:, fixed + 1 :: 4]).sum(axis=1) for own in (whole, part)]
        one, two = np.nonzero(loads[0][:, np.newaxis] + loads[1] <= most_ns)
        sums = whole[one, :fixed] + part[two, :fixed]
        sums[:, 1] = np.maximum(whole[one, 1], part[two, 1])
        may = sums[:, 2:].max(axis=1) + sums[:, 1] <= room
        whole = np.hstack((sums, whole[one, fixed:], part[two, fixed:]))[may]
    whole = np.unique(np.delete(whole, np.s_[1:fixed], axis=1), axis=0)
    forwards = np.unique(whole[:, [0, *range(1, whole.shape[1], 4)]], axis=0, return_inverse=True)[1]
    whole = whole[np.argsort(forwards, kind="stable")]
    best = [_undominated(own) for own in np.split(whole, np.cumsum(np.bincount(forwards))[:-1])]
    table = np.concatenate(best)
    return table[:, 0], table[:, 1:]


def _undominated(rows: Table) -> Table:
    """Return the rows, all different, that no other one is below in all columns."""
    kept = rows[:0]
    for begin in range(0, len(rows), 256):
        own = np.concatenate((kept, rows[begin : begin + 256]))
        below = (own[:, np.newaxis] <= own).all(axis=2)
        kept = own[below.sum(axis=0) == 1]
    return kept
