"""A measured step as a timeline: every action of every rank, on one clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import InputError, ScheduleError
from evenflow.language import _, _n
from evenflow.profiles.steps.clocks import Shifts, shifts
from evenflow.profiles.steps.rank_ranges import Communicated
from evenflow.ranges import Range
from evenflow.schedule import Action, Schedule, check_complete, family_of
from evenflow.simulate import Spans, Timeline, build_graph, covered_ns

Times = NDArray[np.int64]
MOST_RANKS = Range(least=1, most=1_000)
_MOST_OVERLAP = 0.1
"""Share of an action that the one before on its rank may still run, as their last kernels do."""


class TimedAction(NamedTuple):
    """An action, and when it ran by the clock of its rank."""

    start_ns: int
    end_ns: int
    action: Action


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredStep:
    """One step as it was measured."""

    name: str
    """Which step it is, in words."""
    timeline: Timeline
    """The actions; time 0 is the start of the first one."""
    peak_bytes: tuple[int, ...] | None = None
    """Highest memory of every rank."""
    shifts_ns: tuple[int, ...] = ()
    """What was added to the clock of every rank."""
    early_ns: int = 0
    """Time by which actions start before their input has ended, however the clocks are shifted."""
    communication: tuple[Spans, ...] = ()
    """When collectives, exchanges or messages ran on each rank, by the clock of `timeline`; empty: not recorded."""
    exposed_ns: tuple[int, ...] | None = None
    """Time in which every rank exchanged tokens with nothing beside that; None where none is known to."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader should know."""


def measured_step(
    ranks: Sequence[Sequence[TimedAction]],
    stage_ranks: Sequence[int],
    *,
    name: str,
    place: str,
    peak_bytes: tuple[int, ...] | None = None,
    communicated: Sequence[Communicated] = (),
    notes: Sequence[str] = (),
) -> MeasuredStep:
    """Return the step whose ranks ran these actions, with their clocks shifted as little as causality asks.

    Stage s runs on rank ``stage_ranks[s]``; microbatches count from 0. `communicated` has what each rank
    communicated, by its own clock; it is empty where that is not recorded.

    Raises:
        InputError: actions that are missing, twice, at the same time, or in an order that can never finish.
    """
    said = list(notes)
    MOST_RANKS.check(len(ranks), place=place)
    orders, halved = [], 0
    for rank, actions in enumerate(ranks):
        in_time, pairs = one_after_the_other(
            sorted(actions, key=in_time_order), place=_("{place}, rank {rank}", place=place, rank=rank)
        )
        orders.append(in_time)
        halved += pairs
    if halved:
        said.append(
            _n(
                "{count} pair of a forward and a backward was recorded as one; each is shown with half of its time.",
                "{count} pairs of a forward and a backward were recorded as one; each is shown with half of its time.",
                count=halved,
            )
        )
    num_microbatches = max((timed.action.microbatch for order in orders for timed in order), default=0) + 1
    if sum(map(len, orders)) < len(stage_ranks) * num_microbatches:  # before tables of that size are made
        raise InputError(
            value=sum(map(len, orders)),
            rule=_(
                "must have an action for each of {stages} stages and {microbatches} microbatches",
                stages=len(stage_ranks),
                microbatches=num_microbatches,
            ),
            place=place,
            remedy=_("record the whole step on every rank"),
        )
    schedule = Schedule.from_actions(
        name="measured",
        num_stages=len(stage_ranks),
        num_microbatches=num_microbatches,
        stage_ranks=tuple(stage_ranks),
        orders=[[timed.action for timed in order] for order in orders],
    )
    try:
        check_complete(schedule)
        graph = build_graph(family_of(schedule))
    except ScheduleError as error:
        remedy = error.remedy or _("record the whole step on every rank")
        raise InputError(value=error.value, rule=error.rule, place=place, remedy=remedy) from None
    start, end = (np.array([timed[column] for order in orders for timed in order], dtype=np.int64) for column in (0, 1))
    clock_shifts = shifts(graph, start, end)
    said += _clock_notes(clock_shifts)
    moved = np.array(clock_shifts.by_rank_ns, dtype=np.int64)[schedule.ranks]
    start, end = start + moved, end + moved
    first = start.min()
    return MeasuredStep(
        name=name,
        timeline=Timeline(
            graph=graph, start_ns=start - first, end_ns=end - first, makespan_ns=int(end.max() - first), message_ns=None
        ),
        peak_bytes=peak_bytes,
        shifts_ns=clock_shifts.by_rank_ns,
        early_ns=clock_shifts.early_ns,
        communication=tuple(
            own.spans + shift - first for own, shift in zip(communicated, clock_shifts.by_rank_ns, strict=True)
        )
        if communicated
        else (),
        exposed_ns=exposed_ns(communicated, orders),
        notes=tuple(said),
    )


def bounds(actions: Sequence[TimedAction]) -> tuple[int, int]:
    """Return the start of the first action and the end of the last one; 0 and 0 of none."""
    return min((timed.start_ns for timed in actions), default=0), max((timed.end_ns for timed in actions), default=0)


def exposed_ns(communicated: Sequence[Communicated], orders: Sequence[Sequence[TimedAction]]) -> tuple[int, ...] | None:
    """Return how long every rank exchanged tokens between its first action and its last, as of `MeasuredStep`."""
    exposed = tuple(
        int(covered_ns(own.exchange, *(np.array([time]) for time in bounds(order)))[0])
        for own, order in zip(communicated, orders, strict=False)
    )
    return exposed if any(exposed) else None


def in_time_order(timed: TimedAction) -> tuple[int, int, int]:
    """Return what actions of a rank are in order by."""
    return timed.start_ns, timed.end_ns, timed.action.op


def one_after_the_other(actions: Sequence[TimedAction], *, place: str) -> tuple[list[TimedAction], int]:
    """Return a rank's actions without overlaps, and how many pairs shared one measurement, as Primus records them."""
    ordered = list(actions)
    halved = 0
    for index, (before, here) in enumerate(pairwise(actions)):
        if before[:2] == here[:2] and here.end_ns > here.start_ns and before.action.op != here.action.op:
            first, second = sorted((before, here), key=lambda timed: timed.action.op)
            middle = (here.start_ns + here.end_ns) // 2
            ordered[index] = first._replace(end_ns=middle)
            ordered[index + 1] = second._replace(start_ns=middle)
            halved += 1
    for index in range(1, len(ordered)):
        before, here = ordered[index - 1], ordered[index]
        overlap = before.end_ns - here.start_ns
        if overlap <= 0:
            continue
        if overlap > _MOST_OVERLAP * (here.end_ns - here.start_ns) or here.end_ns < before.end_ns:
            raise InputError(
                value=f"{before.action}, {here.action}",
                rule=_("must have the actions of a rank one after the other"),
                place=place,
                remedy=_("take the measurement of one rank for each"),
            )
        ordered[index] = here._replace(start_ns=before.end_ns)
    return ordered, halved


def _clock_notes(clock_shifts: Shifts) -> list[str]:
    notes = []
    if any(clock_shifts.by_rank_ns):
        largest = max(clock_shifts.by_rank_ns) / 1e6
        notes.append(
            _(
                "The clocks of the ranks were shifted by up to {shift_ms:,.3f} ms, as little as it takes for nothing "
                "to start before its input has ended.",
                shift_ms=largest,
            )
        )
    if clock_shifts.early_ns:
        notes.append(
            _(
                "Some actions start up to {early_ms:,.3f} ms before their input has ended, however the clocks are "
                "shifted: the clocks drift, or messages begin before an action ends.",
                early_ms=clock_shifts.early_ns / 1e6,
            )
        )
    return notes
