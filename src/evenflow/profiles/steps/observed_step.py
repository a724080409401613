"""What traces show that is no whole step: some ranks of a pipeline, a window of it, or models beside each other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.steps.measured_step import (
    TimedAction,
    bounds,
    exposed_ns,
    in_time_order,
    one_after_the_other,
)
from evenflow.profiles.steps.rank_ranges import Communicated
from evenflow.schedule import Action, Op, Schedule
from evenflow.simulate import Spans

Times = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class ObservedStep:
    """Actions of ranks, of which nothing tells what waits for what."""

    name: str
    schedule: Schedule
    """The order of what is there, which need not be complete."""
    start_ns: Times
    end_ns: Times
    saved_ns: Times | None = None
    """What each forward saves that runs beside the backward behind it, -1 where it runs beside none; None: none."""
    communication: tuple[Spans, ...] = ()
    """When collectives, exchanges or messages ran on each rank; empty: not recorded."""
    exposed_ns: tuple[int, ...] | None = None
    """As of `MeasuredStep`."""
    refusal: InputError
    """Why it is no whole step, for what needs one."""
    notes: tuple[str, ...] = ()


def observed_step(
    ranks: Sequence[Sequence[TimedAction]],
    *,
    refusal: InputError,
    name: str,
    place: str,
    alone_ns: Sequence[Sequence[int]] = (),
    communicated: Sequence[Communicated] = (),
    notes: Sequence[str] = (),
) -> ObservedStep:
    """Return what ranks ran, each on the row of its place; clocks that have nothing in common all begin at 0.

    Actions that say so run beside the one behind them; `alone_ns` has the time that work of each action ran.
    Raises InputError for actions that run at the same time and do not say so.
    """
    said = list(notes)
    orders, saved = [], []
    for rank, actions in enumerate(ranks):
        own_ns = dict(zip((timed.action for timed in actions), alone_ns[rank], strict=True)) if alone_ns else {}
        in_time, _halved = one_after_the_other(
            _apart(sorted(actions, key=in_time_order), own_ns), place=_("{place}, rank {rank}", place=place, rank=rank)
        )
        orders.append(in_time)
        saved += [_saved(in_time, index, own_ns) for index in range(len(in_time))]
    firsts = [bounds(order)[0] for order in orders]
    lasts = [bounds(order)[1] for order in orders]
    if max(firsts) >= min(lasts) and len(orders) > 1:
        said.append(_("The clocks of the ranks have nothing in common: each begins at 0 here."))
        offsets = firsts
    else:
        offsets = [min(firsts)] * len(orders)
    chunks = _dense(orders)
    num_microbatches = max(timed.action.microbatch for order in orders for timed in order) + 1
    schedule = Schedule.from_actions(
        name=_("as recorded"),
        num_stages=len(orders) * (max(max(own) for own in chunks) + 1),
        num_microbatches=num_microbatches,
        orders=[
            [
                replace(timed.action, stage=chunk * len(orders) + rank)
                for timed, chunk in zip(order, chunks[rank], strict=True)
            ]
            for rank, order in enumerate(orders)
        ],
    )
    moved = [
        (timed.start_ns - offset, timed.end_ns - offset)
        for order, offset in zip(orders, offsets, strict=True)
        for timed in order
    ]
    start, end = np.array(moved, dtype=np.int64).T
    return ObservedStep(
        name=name,
        schedule=schedule,
        start_ns=start,
        end_ns=end,
        saved_ns=np.array(saved, dtype=np.int64) if schedule.has_pairs else None,
        communication=tuple(own.spans - offset for own, offset in zip(communicated, offsets, strict=True))
        if communicated
        else (),
        exposed_ns=exposed_ns(communicated, orders),
        refusal=refusal,
        notes=tuple(said),
    )


def _apart(actions: Sequence[TimedAction], own_ns: dict[Action, int]) -> list[TimedAction]:
    """Return the two of each pair one behind the other, each with its part of the time in proportion to its work."""
    apart = list(actions)
    index = 0
    while index < len(apart) - 1:
        pair = sorted(apart[index : index + 2], key=lambda timed: timed.action.op)
        if pair[0].action.is_paired and pair[0].action.op == Op.F:
            forward, backward = pair
            start, end = min(timed.start_ns for timed in pair), max(timed.end_ns for timed in pair)
            works = own_ns[forward.action], own_ns[backward.action]
            middle = start + (end - start) * works[0] // max(1, sum(works))
            apart[index : index + 2] = [
                forward._replace(start_ns=start, end_ns=middle), backward._replace(start_ns=middle, end_ns=end)
            ]  # fmt: skip
            index += 1
        index += 1
    return apart


def _saved(order: Sequence[TimedAction], place: int, own_ns: dict[Action, int]) -> int:
    """Return what a forward that runs beside a backward saves, or -1."""
    timed = order[place]
    if not timed.action.is_paired or place + 1 == len(order):
        return -1
    behind = order[place + 1]
    return max(0, own_ns[timed.action] + own_ns[behind.action] - (behind.end_ns - timed.start_ns))


def _dense(orders: Sequence[Sequence[TimedAction]]) -> list[list[int]]:
    """Return the chunk of every action: the place of its stage among those of its rank."""
    chunks = []
    for order in orders:
        stages = sorted({timed.action.stage for timed in order})
        chunks.append([stages.index(timed.action.stage) for timed in order])
    return chunks
