"""A timeline as text: a line for each rank, a column for each unit of time."""

import math

import numpy as np

from evenflow.simulate import Timeline

MOST_CHARACTERS = 2000
"""Characters of one line; wider grids cannot be read."""


def text_grid(timeline: Timeline, *, most: int | None = None) -> tuple[str, int]:
    """Return the grid and the nanoseconds of one column; an empty grid where lines would be too long.

    The unit is the greatest that divides all times. An action is its name and dashes up to its end, idle time is dots::

        rank 0  F0 F1 .  .  B0--- .  B1---
        rank 1  .  F0 B0--- F1 B1--- .  .

    With several chunks a name starts with the stage. Where lines have more than `most` characters, what is too much
    goes on below, with an empty line between.
    """
    schedule = timeline.schedule
    unit_ns = int(np.gcd.reduce(np.concatenate((timeline.start_ns, timeline.end_ns)))) or 1
    starts, ends = (timeline.start_ns // unit_ns).tolist(), (timeline.end_ns // unit_ns).tolist()
    orders = [schedule.order(rank) for rank in range(schedule.num_ranks)]
    names = [
        f"{action.op.name}{action.microbatch}" if schedule.num_chunks == 1 else str(action)
        for order in orders
        for action in order
    ]
    shown = [index for index in range(len(names)) if ends[index] > starts[index]]
    width = max((math.ceil((len(names[index]) + 1) / (ends[index] - starts[index])) for index in shown), default=1)
    columns = timeline.makespan_ns // unit_ns
    if columns * width > MOST_CHARACTERS:
        return "", unit_ns
    label = len(f"rank {schedule.num_ranks - 1}")
    rows = []
    for rank in range(schedule.num_ranks):
        cells = ".".ljust(width) * columns
        for index in range(schedule.rank_starts[rank], schedule.rank_starts[rank + 1]):
            start, end = width * starts[index], width * ends[index]
            if end > start:
                cells = cells[:start] + (names[index].ljust(end - start - 1, "-") + " ") + cells[end:]
        rows.append(cells)
    whole = max(1, columns * width)  # a step of no time is a line too
    band = whole if most is None else max(1, (most - label - 2) // width) * width
    bands = [
        "\n".join(
            f"{f'rank {rank}'.ljust(label)}  {cells[first : first + band]}".rstrip() for rank, cells in enumerate(rows)
        )
        for first in range(0, whole, band)
    ]
    return "\n\n".join(bands), unit_ns
