"""What leaves of the first backwards of every rank, where further ranks keep more of them on the device."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evenflow.model import MovedShare, Network, groups_of, moved_of_first
from evenflow.schedule import Op, Schedule

FirstMoved = tuple[tuple[int, ...], ...]
"""Bytes that leave of the first backwards of every rank, in their order; of those behind as many as their stage says.
"""


def first_moved(network: Network, share: MovedShare, layers: NDArray[np.int64], schedule: Schedule) -> FirstMoved:
    """Return what leaves under `share`, of stages with so many `layers`, shape [num_stages].

    Raises InputError where `network` does not know the modules that move.
    """
    ends = np.cumsum(layers).tolist()
    of_layers = groups_of(network, share.kind)
    of_stages = [
        [group for groups in of_layers[end - count : end] for group in groups]
        for count, end in zip(layers.tolist(), ends, strict=True)
    ]
    moved = []
    for rank, (start, end) in enumerate(pairwise(schedule.rank_starts)):
        is_backward = np.isin(schedule.ops[start:end], (Op.B, Op.I))
        stages = schedule.stages[start:end][is_backward].tolist()
        backwards = [of_stages[stage] for stage in stages]
        moved.append(moved_of_first(backwards, share=share.share, kept_bytes=rank * share.kept_bytes))
    return tuple(moved)
