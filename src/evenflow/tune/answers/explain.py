"""Why one configuration is slower than another: the difference of their steps by part, and of their memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

from evenflow.predict.prediction import BUBBLE, OPTIMIZER, STEP, PartTime
from evenflow.predict.work import Spent
from evenflow.tune.axes import Axis, Value, value_of
from evenflow.tune.candidate import Candidate, PlannedStep

COMPUTE, RECOMPUTATION = "compute", "recomputation"
"""Names of parts: operators that run once; and what runs again, the communication in it included."""
_OPERATORS = (Spent.PRODUCTS, Spent.ATTENTION, Spent.OTHER)
_ORDER = (
    COMPUTE, RECOMPUTATION, Spent.TENSOR, Spent.CONTEXT, Spent.EXPERT, Spent.DATA, Spent.PIPELINE, BUBBLE, OPTIMIZER,
    STEP,
)  # fmt: skip
_CAUSES: Mapping[str, tuple[Axis, ...]] = {
    COMPUTE: (Axis.TENSOR, Axis.MICROBATCH, Axis.PIPELINE),
    Spent.TENSOR: (Axis.TENSOR, Axis.MICROBATCH),
    Spent.CONTEXT: (Axis.CONTEXT, Axis.TENSOR, Axis.MICROBATCH),
    Spent.EXPERT: (Axis.EXPERT, Axis.EXPERT_TENSOR, Axis.TENSOR),
    Spent.DATA: (Axis.DATA, Axis.ZERO),
    Spent.PIPELINE: (Axis.PIPELINE, Axis.CHUNKS, Axis.MICROBATCH),
    BUBBLE: (Axis.PIPELINE, Axis.CHUNKS, Axis.SCHEDULE, Axis.MICROBATCH),
    OPTIMIZER: (Axis.DATA, Axis.ZERO),
}
"""Axes that a part follows from, the nearest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisChange:
    """An axis on which two configurations differ."""

    axis: Axis
    first: Value
    other: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDifference:
    """What two steps spend on one thing, in whole nanoseconds that add up to those of the steps."""

    name: str
    """`COMPUTE`, `RECOMPUTATION`, a communication of `Spent`, `BUBBLE`, `OPTIMIZER` or `STEP`."""
    first_ns: int
    other_ns: int
    cause: AxisChange | None = None
    """The axis that this part follows from, where it is not the same."""

    @property
    def more_ns(self) -> int:
        """How much longer the other takes; negative where it saves."""
        return self.other_ns - self.first_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How one configuration differs from another: settings, step by part, memory."""

    changes: tuple[AxisChange, ...]
    parts: tuple[PartDifference, ...]
    """Of both steps, on the rank that waits least."""
    first_bytes: int
    """Memory of the fullest rank."""
    other_bytes: int
    limit_bytes: int

    @property
    def first_ns(self) -> int:
        """Nanoseconds of the first configuration's step."""
        return sum(part.first_ns for part in self.parts)

    @property
    def other_ns(self) -> int:
        """Nanoseconds of the other configuration's step."""
        return sum(part.other_ns for part in self.parts)

    @property
    def more_ns(self) -> int:
        """How much longer the other step is."""
        return self.other_ns - self.first_ns

    @property
    def share(self) -> float:
        """How much longer the other step is, as a share of the first."""
        return self.more_ns / self.first_ns


def difference(first: Candidate, other: Candidate) -> Difference:
    """Return how two configurations differ of which a step is known."""
    assert first.found is not None
    assert other.found is not None
    changes = changes_between(first, other)
    changed = {change.axis: change for change in changes}
    ours, theirs = _times(first.found), _times(other.found)
    parts = [
        PartDifference(
            name=name,
            first_ns=ours[name],
            other_ns=theirs[name],
            cause=next((changed[axis] for axis in _CAUSES.get(name, ()) if axis in changed), None),
        )
        for name in _ORDER
    ]
    return Difference(
        changes=changes,
        parts=tuple(parts),
        first_bytes=max(first.found.rank_bytes),
        other_bytes=max(other.found.rank_bytes),
        limit_bytes=first.pricing.question.memory_limit_bytes,
    )


def changes_between(first: Candidate, other: Candidate) -> tuple[AxisChange, ...]:
    """Return the axes on which two configurations differ, those of experts only for a model that has some."""
    experts = () if first.training.model.experts is not None else (Axis.EXPERT, Axis.EXPERT_TENSOR)
    changes = (
        AxisChange(axis=axis, first=value_of(first.training, axis), other=value_of(other.training, axis))
        for axis in Axis
        if axis not in experts
    )
    return tuple(change for change in changes if change.first != change.other)


def whole(values: Iterable[float], unit: float = 1.0) -> list[int]:
    """Round values to whole units so that they add up to the rounded sum; each is less than one unit off.

    >>> whole([0.4, 0.4, 0.4, 0.0])
    [0, 1, 0, 0]
    """
    ends = [0, *(round(end / Fraction(unit)) for end in accumulate(map(Fraction, values)))]
    return [end - start for start, end in pairwise(ends)]


def _times(timed: PlannedStep) -> dict[str, int]:
    """Return the nanoseconds of a step by part."""
    times = dict.fromkeys(_ORDER, 0.0)
    for part in timed.parts:
        times[_name(part)] += part.exposed_ns - part.recomputed_ns
        times[RECOMPUTATION] += part.recomputed_ns
    return dict(zip(times, whole(times.values()), strict=True))


def _name(part: PartTime) -> str:
    return COMPUTE if part.name in _OPERATORS else part.name
