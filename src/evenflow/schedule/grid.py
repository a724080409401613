"""A stuck schedule as text: one line per rank, with an arrow at the fault."""

import numpy as np
from numpy.typing import NDArray

from evenflow.language import _
from evenflow.schedule.schedule import Schedule


def fault_grid(schedule: Schedule, done: NDArray[np.bool_], *, around: int = 4) -> str:
    """Return each stuck rank's order around its first action that cannot start, which is marked ``->``.

    `done` [num_actions] tells which actions could run.
    """
    lines = []
    for rank in range(schedule.num_ranks):
        start, stop = schedule.rank_starts[rank], schedule.rank_starts[rank + 1]
        stuck = start + int(done[start:stop].sum())
        order = [str(action) for action in schedule.order(rank)]
        if stuck == stop:
            lines.append(_("rank {rank}: finished", rank=rank))
            continue
        at = stuck - start
        shown = [*order[max(0, at - around) : at], f"->{order[at]}", *order[at + 1 : at + 1 + around]]
        order_text = f"{'… ' if at > around else ''}{' '.join(shown)}"
        lines.append(_("rank {rank}: {order}", rank=rank, order=order_text))
    return "\n".join(lines)
