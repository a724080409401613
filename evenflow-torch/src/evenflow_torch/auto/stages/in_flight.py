"""Counts the microbatches that a stage holds, by its position in the pipeline."""

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.schedule import family_name, make_schedule
from evenflow.simulate import live_vectors

Integers = NDArray[np.int64]
SCHEDULES = ("1f1b", "eager-1f1b", "f-then-b")
"""Families whose step follows equation 2, and where what a stage holds depends on the stages behind it alone."""


def assumed_schedule(name: str) -> str:
    """Return the family of a schedule that stages can be chosen for. Raises InputError for any other."""
    family = family_name(name)
    if family not in SCHEDULES:
        raise InputError(
            value=name,
            rule=_("must be one of {names} for stages to be chosen", names=", ".join(SCHEDULES)),
            place="schedule",
            remedy=_("choose one of these: the refinement tries further schedules afterwards"),
        )
    return family


def in_flight_microbatches(schedule: str, *, num_microbatches: int, most_stages: int) -> tuple[int, ...]:
    """Return the most activations that the s-th stage from the end holds, for s from 0 (none) to `most_stages`.

    Raises InputError for a schedule that the dynamic program cannot assume.

    >>> in_flight_microbatches("1f1b", num_microbatches=3, most_stages=5)
    (0, 1, 2, 3, 3, 3)
    """
    name = assumed_schedule(schedule)
    order = make_schedule(name, num_ranks=most_stages, num_chunks=1, num_microbatches=num_microbatches)
    return (0, *(int(live_vectors(order, most_stages - position).max()) for position in range(1, most_stages + 1)))


def last_positions(static: Integers, activation: Integers, live: Integers, memory_limit_bytes: int) -> Integers:
    """Return the last position, counted from the end, at which each stage fits in memory; 0 where it never does.

    `live` are the microbatches in flight at each position.
    """
    room = memory_limit_bytes - static
    most = np.where(activation > 0, room // np.maximum(activation, 1), live[-1])
    return np.where(room >= 0, np.searchsorted(live, most, side="right"), 0)
