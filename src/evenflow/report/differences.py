"""A prediction minus the step that was measured, action by action."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.report.shown import Integers, Kind, Shown
from evenflow.schedule import NUM_OPS, Action, Op


@dataclass(frozen=True, slots=True, kw_only=True)
class KindDifference:
    """All actions of one stage and operation."""

    stage: int
    op: Op
    count: int
    predicted_ns: int
    """Time of all of them together."""
    measured_ns: int


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class StepDifference:
    """A predicted and a measured step; arrays have an entry for each action that both have."""

    predicted: Shown
    measured: Shown
    actions: tuple[Action, ...]
    ranks: tuple[int, ...]
    """Rank of each action in the prediction."""
    taken_ns: Integers
    """Predicted and measured time of each action, shape [2, n]."""
    start_ns: Integers
    """Predicted and measured start of each action, shape [2, n]."""
    alone: int
    """Number of actions that only one of both has."""

    @property
    def by_kind(self) -> tuple[KindDifference, ...]:
        """The actions by stage and operation, in the order of stages."""
        keys = np.array([action.stage * NUM_OPS + action.op for action in self.actions], dtype=np.int64)
        kinds, index, counts = np.unique(keys, return_inverse=True, return_counts=True)
        sums = np.zeros((2, len(kinds)), dtype=np.int64)
        np.add.at(sums[0], index, self.taken_ns[0])
        np.add.at(sums[1], index, self.taken_ns[1])
        rows = zip(kinds.tolist(), counts.tolist(), *sums.tolist(), strict=True)
        return tuple(
            KindDifference(
                stage=kind // NUM_OPS, op=Op(kind % NUM_OPS), count=count, predicted_ns=predicted, measured_ns=measured
            )
            for kind, count, predicted, measured in rows
        )


def differences(timelines: Sequence[Shown]) -> Iterator[StepDifference]:
    """Give the difference of each measured step from the prediction before it, or else from the first one.

    Steps of other sizes are left out: they have other actions.
    """
    predictions = [timeline for timeline in timelines if timeline.kind == Kind.PLAN]
    latest = predictions[0] if predictions else None
    for timeline in timelines:
        if timeline.kind == Kind.PLAN:
            latest = timeline
        elif latest is not None and _sizes(latest) == _sizes(timeline):
            yield _difference(latest, timeline)


def _sizes(timeline: Shown) -> tuple[int, ...]:
    schedule = timeline.schedule
    return schedule.num_ranks, schedule.num_chunks, schedule.num_microbatches, schedule.sequence_splits


def _difference(predicted: Shown, measured: Shown) -> StepDifference:
    places = {key: place for place, key in enumerate(_keys(measured))}
    both = [(own, places[key]) for own, key in enumerate(_keys(predicted)) if key in places]
    index = np.array(both, dtype=np.int64).reshape(-1, 2).T
    start_ns = np.stack((predicted.start_ns[index[0]], measured.start_ns[index[1]]))
    end_ns = np.stack((predicted.end_ns[index[0]], measured.end_ns[index[1]]))
    schedule = predicted.schedule
    rows = (column[index[0]].tolist() for column in (schedule.stages, schedule.ops, schedule.units))
    return StepDifference(
        predicted=predicted,
        measured=measured,
        actions=tuple(Action(stage, Op(op), unit) for stage, op, unit in zip(*rows, strict=True)),
        ranks=tuple(schedule.ranks[index[0]].tolist()),
        taken_ns=end_ns - start_ns,
        start_ns=start_ns,
        alone=schedule.num_actions + measured.schedule.num_actions - 2 * len(both),
    )


def _keys(timeline: Shown) -> list[tuple[int, int, int]]:
    schedule = timeline.schedule
    return list(zip(schedule.stages.tolist(), schedule.ops.tolist(), schedule.units.tolist(), strict=True))
