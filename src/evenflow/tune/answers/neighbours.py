"""The neighbours of a configuration on every axis: the step of each, or the reason why it has none.

The other axes stay as they are, but for what must follow: copies of the model where the devices of one change, experts
that are split as everything else, an order of work that has so many chunks, and less of ZeRO beside a pipeline.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.expert_work import expert_tensor
from evenflow.predict.training import Degrees, Sharding, Training
from evenflow.schedule import FAMILIES
from evenflow.solve.time_left import TimeLeft
from evenflow.tune.answers.alone import Solve, needed_bytes
from evenflow.tune.axes import Axis, Value, schedule_of, value_of
from evenflow.tune.candidate import Candidate, Pricing
from evenflow.tune.question import TuningQuestion
from evenflow.tune.rows.split import dealt
from evenflow.tune.space import divisors, most_of, one_rank_schedules, refusals

_WORDS = (Axis.SCHEDULE,)
"""Axes without an order: every other value is one step away."""


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A configuration that differs by one step on one axis."""

    axis: Axis
    value: Value
    candidate: Candidate | None = None
    """It with the shortest step known; None where a rule forbids it, or there was no time for it."""
    refusal: InputError | None = None
    """The rule that forbids it."""
    missing_bytes: int | None = None
    """Memory that a device lacks, where it does not fit."""


def neighbours(chosen: Candidate, solve: Solve, time_left: TimeLeft) -> Iterator[Neighbour]:
    """Yield the neighbours of a configuration: on each axis the next smaller and the next larger legal value.

    Where no value on a side is legal, it is the nearest with its reason. `solve` returns a configuration as the rows of
    the ranking are solved; those that there is no time for have neither a candidate nor a refusal.
    """
    question, training = chosen.pricing.question, chosen.training
    for axis in Axis:
        for values in _sides(question, training, axis):
            yield from _nearest(chosen.pricing, training, axis, values, solve, time_left)


def moved(question: TuningQuestion, training: Training, axis: Axis, value: Value) -> Training:
    """Return a configuration with another value on one axis.

    Raises:
        InputError: devices that are no whole number of copies of the model, and more cells than layers.
    """
    degrees = training.degrees
    numbers = {field: int(getattr(degrees, field)) for field in _FIELDS.values()}
    split, sharding, microbatch = expert_tensor(training), degrees.sharding, training.microbatch
    schedule = schedule_of(training)
    if axis in _FIELDS:
        numbers[_FIELDS[axis]] = int(value)
    elif axis is Axis.EXPERT_TENSOR:
        split = int(value)
    elif axis is Axis.ZERO:
        sharding = Sharding(str(value))
    elif axis is Axis.MICROBATCH:
        microbatch = int(value)
    elif axis is Axis.SCHEDULE:
        schedule = str(value)
    if axis is Axis.TENSOR and split == degrees.tensor:
        split = numbers["tensor"]
    if axis is not Axis.CHUNKS:
        numbers["chunks"] = _chunks_of(schedule, numbers["chunks"]) if numbers["pipeline"] > 1 else 1
    known = question.rules.known(numbers["pipeline"])
    if axis is Axis.PIPELINE and sharding not in known:
        sharding = max((degree for degree in known if degree < sharding), default=sharding)
    schedule = _order_of(question, schedule, numbers["pipeline"], numbers["chunks"])
    of_copy = numbers["tensor"] * numbers["context"] * numbers["pipeline"]
    if question.devices % of_copy:
        rule = _("must be such that tensor x context x pipeline divides the {count:,} devices", count=question.devices)
        raise InputError(value=value, rule=rule, place=axis)
    cells, layers = numbers["pipeline"] * numbers["chunks"], question.model.layers
    if cells > layers:
        rule = _("must be such that pipeline x chunks is at most the {layers} layers", layers=layers)
        raise InputError(value=value, rule=rule, place=axis)
    return replace(
        training,
        degrees=Degrees(
            tensor=numbers["tensor"],
            context=numbers["context"],
            expert=numbers["expert"],
            pipeline=numbers["pipeline"],
            chunks=numbers["chunks"],
            data=question.devices // of_copy,
            expert_tensor=split if question.model.experts else None,
            sharding=sharding,
            optimizer_offload=0.0 if sharding is Sharding.PARAMETERS else degrees.optimizer_offload,
            sequence_parallel=degrees.sequence_parallel,
            context_exchange=degrees.context_exchange,
        ),
        microbatch=microbatch,
        schedule=schedule,
        layout=dealt(question.model.layers, numbers["pipeline"], numbers["chunks"]),
        group_size=None,
    )


_FIELDS = {
    Axis.TENSOR: "tensor", Axis.CONTEXT: "context", Axis.PIPELINE: "pipeline", Axis.EXPERT: "expert",
    Axis.CHUNKS: "chunks",
}  # fmt: skip
"""Fields of `Degrees` that are numbers."""


def _sides(question: TuningQuestion, training: Training, axis: Axis) -> list[Sequence[Value]]:
    """Return the values on each side of the present one, the nearest first."""
    present, values = value_of(training, axis), _values(question, training, axis)
    if axis in _WORDS:
        return [[value] for value in values if value != present]
    numbers = [int(value) for value in values]
    smaller = [number for number in reversed(numbers) if number < int(present)]
    larger = [number for number in numbers if number > int(present)]
    return [side for side in (smaller, larger) if side]


def _values(question: TuningQuestion, training: Training, axis: Axis) -> Sequence[Value]:
    """Return the values that an axis could have, in their order, legal or not."""
    model, degrees, most = question.model, training.degrees, most_of(question)
    match axis:
        case Axis.TENSOR | Axis.CONTEXT:
            return divisors(question.devices, most=question.devices)
        case Axis.PIPELINE:
            return divisors(question.devices, most=model.layers)
        case Axis.EXPERT:
            return divisors(model.experts.count, most=question.devices) if model.experts else ()
        case Axis.EXPERT_TENSOR:
            return sorted({1, degrees.tensor}) if model.experts and question.rules.splits_experts else ()
        case Axis.CHUNKS:
            last = min(max(most[Axis.CHUNKS], degrees.chunks + 1), model.layers // degrees.pipeline)
            return range(1, last + 1) if degrees.pipeline > 1 else ()
        case Axis.MICROBATCH:
            of_copy = question.global_batch // degrees.data
            return divisors(of_copy, most=of_copy)
        case Axis.ZERO:
            return [int(value) for value in question.rules.known(degrees.pipeline)]
        case Axis.SCHEDULE:
            return question.schedules if degrees.pipeline > 1 else ()
    return ()  # copies of the model follow from the other axes


def _nearest(
    pricing: Pricing, training: Training, axis: Axis, values: Sequence[Value], solve: Solve, time_left: TimeLeft
) -> Iterator[Neighbour]:
    """Yield the neighbour with the first legal value; without one the first value's, with the rule against it."""
    first: Neighbour | None = None
    for value in values:
        try:
            other = moved(pricing.question, training, axis, value)
            refusal = next(refusals(pricing.question, other), None)
        except InputError as error:
            refusal = error
        if refusal is None:
            yield _solved(pricing, other, axis, value, solve, time_left)
            return
        first = first or Neighbour(axis=axis, value=value, refusal=refusal)
    if first is not None:
        yield first


def _solved(
    pricing: Pricing, training: Training, axis: Axis, value: Value, solve: Solve, time_left: TimeLeft
) -> Neighbour:
    candidate = None if time_left.is_over else solve(training)
    if candidate is None or candidate.found is not None or time_left.is_over:
        return Neighbour(axis=axis, value=value, candidate=candidate)
    missing = needed_bytes(pricing, training, seconds=time_left.seconds) - pricing.question.memory_limit_bytes
    return Neighbour(axis=axis, value=value, candidate=candidate, missing_bytes=missing if missing > 0 else None)


def _chunks_of(schedule: str, chunks: int) -> int:
    """Return the number of chunks that a schedule has, the nearest to `chunks`."""
    family = FAMILIES[schedule]
    return family.num_chunks or max(chunks, family.fewest_chunks)


def _order_of(question: TuningQuestion, schedule: str, pipeline: int, chunks: int) -> str:
    """Return the schedule, or where it has no such number of chunks the first of the question that has."""
    if pipeline == 1:
        return one_rank_schedules(question)[0]
    able = [name for name in (schedule, *question.schedules) if _chunks_of(name, chunks) == chunks]
    return able[0] if able else schedule
