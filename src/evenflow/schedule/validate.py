"""The one validator of all schedules: complete, well placed, in causal order.

Deadlocks are found by `simulate.build_graph`.
"""

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import ScheduleError
from evenflow.language import _
from evenflow.schedule.action import NUM_OPS, Action, Op
from evenflow.schedule.schedule import Schedule

Indices = NDArray[np.int64]


def check_complete(schedule: Schedule) -> None:
    """Raise ScheduleError unless every stage runs every microbatch completely, in causal order.

    A stage runs a microbatch completely with the forward once, and then the full backward once or input and weight
    gradient once each; in a schedule without any backward, with the forward alone. The check covers as well that
    ranks have equally many stages, indices are in range, stages run on their ranks, and the parts of a split sequence
    run forward in order and backward in reverse. [Seq1F1B, §3]
    """
    place = f"schedule {schedule.name}"
    _check_placement(schedule, place)
    shape = (NUM_OPS, schedule.num_stages, schedule.num_units)
    actions = np.stack((schedule.ops, schedule.stages, schedule.units))
    outside = np.flatnonzero(((actions < 0) | (actions >= np.array(shape).reshape(3, 1))).any(axis=0))
    if len(outside):
        raise ScheduleError(
            value=_name(schedule, outside[0]),
            rule=_(
                "must have stages below {stages} and microbatches below {microbatches}",
                stages=shape[1],
                microbatches=shape[2],
            ),
            place=place,
        )
    own_ranks = np.array(schedule.stage_ranks)[schedule.stages]
    misplaced = np.flatnonzero(own_ranks != schedule.ranks)
    if len(misplaced):
        index = misplaced[0]
        raise ScheduleError(
            value=_name(schedule, index),
            rule=_(
                "must not run stage {stage}, which is on rank {rank}",
                stage=schedule.stages[index],
                rank=own_ranks[index],
            ),
            place=_("{place}, rank {rank}", place=place, rank=schedule.ranks[index]),
        )
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, tuple(actions), 1)
    expected = np.ones(shape, dtype=np.int64)
    is_split = (counts[Op.I] > 0) | (counts[Op.W] > 0)
    expected[Op.I] = expected[Op.W] = is_split
    expected[Op.B] = ~is_split & (not schedule.is_forward_only)
    wrong = np.argwhere(counts != expected)
    if len(wrong):
        op, stage, unit = (int(value) for value in wrong[0])
        raise ScheduleError(
            value=f"{Action(stage, Op(op), unit)} {counts[op, stage, unit]} times",
            rule=_("must run every action exactly once (F, then B, or I and W in its place)"),
            place=place,
        )
    _check_causal(schedule, place)


def _check_placement(schedule: Schedule, place: str) -> None:
    """Raise ScheduleError unless every rank has equally many stages."""
    of_rank = np.bincount(schedule.stage_ranks, minlength=schedule.num_ranks)
    if len(of_rank) > schedule.num_ranks or of_rank.min() != of_rank.max():
        raise ScheduleError(
            value=f"{schedule.num_stages} stages on {schedule.num_ranks} ranks, {of_rank.tolist()} each",
            rule=_("must have equally many stages on every rank"),
            place=place,
        )


def _check_causal(schedule: Schedule, place: str) -> None:
    """Raise ScheduleError unless the actions of each stage, which are all on one rank, are in causal order."""
    positions = np.full((NUM_OPS, schedule.num_stages, schedule.num_units), -1, dtype=np.int64)
    positions[schedule.ops, schedule.stages, schedule.units] = np.arange(schedule.num_actions)
    rule = _("must run the parts of a sequence forward in order: later ones attend to earlier ones")
    orders = [(positions[Op.F], 1, rule)]
    if not schedule.is_forward_only:
        gradients = np.maximum(positions[Op.B], positions[Op.I])  # a stage runs one of them
        _check_after(schedule, gradients, positions[Op.F], _("must run a backward after its own forward"), place)
        rule = _("must run the parts of a sequence backward in reverse: earlier ones collect gradients from later ones")
        orders.append((gradients, -1, rule))
    if schedule.splits_backward:
        weights = np.where(positions[Op.W] < 0, schedule.num_actions, positions[Op.W])
        _check_after(
            schedule, weights, positions[Op.I], _("must run a weight gradient after its own input gradient"), place
        )
    for part_positions, sign, rule in orders:
        parts = part_positions.reshape(schedule.num_stages, schedule.num_microbatches, schedule.sequence_splits)
        disordered = np.argwhere(sign * np.diff(parts, axis=2) <= 0)
        if len(disordered):
            stage, microbatch, part = (int(value) for value in disordered[0])
            index = int(parts[stage, microbatch, part])
            raise ScheduleError(value=_name(schedule, index), rule=rule, place=place)


def _check_after(schedule: Schedule, later: Indices, earlier: Indices, rule: str, place: str) -> None:
    """Raise ScheduleError unless every index in `later` [num_stages, num_units] is after the one in `earlier`."""
    early = later[later < earlier]
    if len(early):
        raise ScheduleError(value=_name(schedule, int(early[0])), rule=rule, place=place)


def _name(schedule: Schedule, index: int) -> str:
    return f"{schedule.stages[index]}{Op(int(schedule.ops[index])).name}{schedule.units[index]}"
