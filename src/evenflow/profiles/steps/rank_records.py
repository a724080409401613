"""Steps of which every rank recorded when its forwards and backwards ran, in the order in which they ran.

Where a record does not say which microbatch and chunk a forward or backward was, its place in the order tells: with one
chunk the n-th is microbatch n, with several they follow Megatron's interleaved order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.stage_ranks import looped, v_shaped
from evenflow.profiles.steps.measured_step import MeasuredStep, TimedAction, measured_step
from evenflow.schedule import Action, Op, Schedule, make_schedule

FORWARD, BACKWARD, WEIGHT = "forward", "backward", "weight gradient"
Cell = tuple[int, int]
"""Microbatch and chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The actions of one kind on one rank in one step."""

    spans_ns: Sequence[tuple[int, int]] = ()
    cells: Sequence[Cell] | None = None
    """What each one was; None where the record does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    """One rank in one step."""

    by_kind: Mapping[str, Records]
    peak_bytes: int | None = None


def step_of_records(
    ranks: Sequence[RankRecord],
    *,
    num_chunks: int,
    num_microbatches: int,
    name: str,
    place: str,
    notes: Sequence[str] = (),
) -> MeasuredStep:
    """Return the step that these ranks recorded.

    Chunks lie on the ranks in turn, or, where that order could never finish, on the way down and up again (a V).
    Raises InputError where actions are missing or too many.
    """
    count = num_chunks * num_microbatches
    for rank, record in enumerate(ranks):
        for kind, records in record.by_kind.items():
            if len(records.spans_ns) != count and not (kind == WEIGHT and records.cells is not None):
                raise InputError(
                    value=len(records.spans_ns),
                    rule=_("must have {count} forwards and backwards, one for each microbatch and chunk", count=count),
                    place=_("{place}, rank {rank}", place=place, rank=rank),
                    remedy=_("record the whole step on every rank"),
                )
    order = make_schedule(
        "interleaved" if num_chunks > 1 else "1f1b",
        num_ranks=len(ranks),
        num_chunks=num_chunks,
        num_microbatches=num_microbatches,
    )
    cells = [_cells(record, rank, order) for rank, record in enumerate(ranks)]
    peaks = [rank.peak_bytes for rank in ranks]
    derived = any(records.cells is None for rank in ranks for records in rank.by_kind.values() if records.spans_ns)
    note = _("The record does not say which microbatch an action was: they are taken in the order of Megatron-LM.")
    in_turn = looped(num_ranks=len(ranks), num_chunks=num_chunks)
    placements = [in_turn, v_shaped(num_ranks=len(ranks))] if num_chunks == 2 and len(ranks) > 1 else [in_turn]
    for last, placement in enumerate(placements, start=1):
        try:
            return measured_step(
                [
                    _actions(record, own, rank, placement)
                    for rank, (record, own) in enumerate(zip(ranks, cells, strict=True))
                ],
                placement,
                name=name,
                place=place,
                peak_bytes=None if None in peaks else tuple(peak for peak in peaks if peak is not None),
                notes=[*notes, note] if derived else notes,
            )
        except InputError:
            if last == len(placements):
                raise
    raise AssertionError("a placement was tried")


def _cells(record: RankRecord, rank: int, order: Schedule) -> dict[str, Sequence[Cell]]:
    """Return microbatch and chunk of every action of a rank, by kind; by their place in `order` where nothing tells."""
    cells: dict[str, Sequence[Cell]] = {}
    for kind, records in record.by_kind.items():
        if records.cells is None:
            op = Op.F if kind == FORWARD else Op.B
            in_order = [
                (action.microbatch, action.stage // order.num_ranks) for action in order.order(rank) if action.op == op
            ]
            cells[kind] = in_order[: len(records.spans_ns)]
        else:
            cells[kind] = records.cells
    return cells


def _actions(
    record: RankRecord, cells: Mapping[str, Sequence[Cell]], rank: int, stage_ranks: Sequence[int]
) -> list[TimedAction]:
    """Return the actions of a rank; a backward whose weight gradient is recorded by itself is an input gradient."""
    stages = [stage for stage, owner in enumerate(stage_ranks) if owner == rank]
    split = set(cells.get(WEIGHT, ()))
    ops = {FORWARD: Op.F, BACKWARD: Op.B, WEIGHT: Op.W}
    actions = []
    for kind, records in record.by_kind.items():
        for (start, end), (microbatch, chunk) in zip(records.spans_ns, cells[kind], strict=True):
            op = Op.I if kind == BACKWARD and (microbatch, chunk) in split else ops[kind]
            actions.append(TimedAction(start, end, Action(stages[chunk], op, microbatch)))
    return actions
