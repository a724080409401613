"""One validator for every schedule: complete, well placed, in causal order. Deadlocks: `simulate.build_graph`."""

import numpy as np

from evenflow.errors import ScheduleError
from evenflow.schedule.action import NUM_OPS, Action, Op
from evenflow.schedule.schedule import Schedule


def check_complete(schedule: Schedule) -> None:
    """Raise ScheduleError unless every stage runs every operation of every microbatch once, in causal order.

    Checked: equally many stages a rank, no index out of range, stages on their ranks, each action exactly once, each
    backward after its own forward, and, for split sequences, forwards of the parts in order and backwards in reverse.
    [Seq1F1B, §3]
    """
    place = f"schedule {schedule.name}"
    if schedule.num_stages % schedule.num_ranks:
        raise ScheduleError(
            value=f"{schedule.num_stages} stages on {schedule.num_ranks} ranks",
            rule="every rank has equally many stages",
            place=place,
        )
    shape = (NUM_OPS, schedule.num_stages, schedule.num_units)
    actions = np.stack((schedule.ops, schedule.stages, schedule.units))
    outside = np.flatnonzero(((actions < 0) | (actions >= np.array(shape).reshape(3, 1))).any(axis=0))
    if len(outside):
        raise ScheduleError(
            value=_name(schedule, outside[0]),
            rule=f"stages are below {shape[1]}, microbatches below {shape[2]}",
            place=place,
        )
    misplaced = np.flatnonzero(schedule.stages % schedule.num_ranks != schedule.ranks)
    if len(misplaced):
        raise ScheduleError(
            value=_name(schedule, misplaced[0]),
            rule=f"stage s runs on rank s mod {schedule.num_ranks}",
            place=f"{place}, rank {schedule.ranks[misplaced[0]]}",
        )
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, tuple(actions), 1)
    wrong = np.argwhere(counts != 1)
    if len(wrong):
        op, stage, unit = (int(value) for value in wrong[0])
        raise ScheduleError(
            value=f"{Action(stage, Op(op), unit)} {counts[op, stage, unit]} times",
            rule="every action runs exactly once",
            place=place,
        )
    _check_causal(schedule, place)


def _check_causal(schedule: Schedule, place: str) -> None:
    """Order of the actions of one stage, all on one rank."""
    when = np.empty((NUM_OPS, schedule.num_stages, schedule.num_units), dtype=np.int64)
    when[schedule.ops, schedule.stages, schedule.units] = np.arange(schedule.num_actions)
    early = np.argwhere(when[Op.B] < when[Op.F])
    if len(early):
        stage, unit = (int(value) for value in early[0])
        raise ScheduleError(
            value=str(Action(stage, Op.B, unit)), rule="a backward runs after its own forward", place=place
        )
    parts = when.reshape(NUM_OPS, schedule.num_stages, schedule.num_microbatches, schedule.sequence_splits)
    for op, sign, rule in (
        (Op.F, 1, "the parts of a sequence run forward in order: later ones attend to earlier ones"),
        (Op.B, -1, "the parts of a sequence run backward in reverse: earlier ones collect gradients from later ones"),
    ):
        disordered = np.argwhere(sign * np.diff(parts[op], axis=2) <= 0)
        if len(disordered):
            stage, microbatch, part = (int(value) for value in disordered[0])
            unit = microbatch * schedule.sequence_splits + part
            raise ScheduleError(value=str(Action(stage, op, unit)), rule=rule, place=place)


def _name(schedule: Schedule, index: int) -> str:
    return f"{schedule.stages[index]}{Op(int(schedule.ops[index])).name}{schedule.units[index]}"
