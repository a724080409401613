"""The smallest change of a training with which it fits into the memory of its devices: neighbours, predicted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.model import FULL, NONE, SELECT
from evenflow.predict.limits.checks import check_training
from evenflow.predict.prediction import Prediction, predict
from evenflow.predict.training import Degrees, Sharding, Software, Training

_DEGREES = frozenset(setting.name for setting in fields(Degrees))
_SOFTWARE = frozenset(setting.name for setting in fields(Software))
_HALF = 2
"""Bytes of a gradient in 16 bits."""
_MOST_SETTINGS = 2
"""Changes that are tried together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting that changes, by its name in `Training`, `Degrees` or `Software`."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of settings, and the step that it leads to."""

    settings: tuple[Setting, ...]
    prediction: Prediction

    @property
    def step_ns(self) -> float:
        """Nanoseconds of the new step."""
        return self.prediction.step_ns

    @property
    def memory_bytes(self) -> int:
        """Bytes of the fullest rank."""
        return peak_bytes(self.prediction)


def peak_bytes(prediction: Prediction) -> int:
    """Return the bytes of the fullest rank, its reserve included."""
    return max(rank.total_bytes for rank in prediction.memory)


def smallest_change(prediction: Prediction, *, limit_bytes: int) -> Change | None:
    """Return the change of fewest settings that fits into `limit_bytes` per device; among several, the fastest.

    `prediction` is that of the training that does not fit.

    Tried are the settings of `neighbours`, alone and then two after the other, on the same number of devices; the first
    of two is one that holds less by itself. None where nothing of that fits.
    """
    reached = [prediction]
    seen = {prediction.training}
    for _level in range(_MOST_SETTINGS):
        fitting: list[Prediction] = []
        next_ones: list[Prediction] = []
        for start in reached:
            for neighbour in _predicted_neighbours(start, limit_bytes, seen):
                if peak_bytes(neighbour) <= limit_bytes:
                    fitting.append(neighbour)
                elif peak_bytes(neighbour) < peak_bytes(start):
                    next_ones.append(neighbour)
        if fitting:
            best = min(fitting, key=lambda neighbour: neighbour.step_ns)
            return Change(settings=_settings(prediction.training, best.training), prediction=best)
        reached = next_ones
    return None


def _predicted_neighbours(start: Prediction, limit_bytes: int, seen: set[Training]) -> Iterator[Prediction]:
    """Yield predictions of legal neighbours not yet `seen`; of counts of recomputed layers, the smallest that fits."""
    training, topology = start.training, start.topology
    for changed in neighbours(training):
        if changed in seen:
            continue
        seen.add(changed)
        prediction = _prediction(changed, topology)
        if prediction is not None:
            yield prediction
    counts = _full_counts(training)
    low, high = 0, len(counts) - 1
    first: Prediction | None = None
    while low <= high:  # more layers recomputed hold less, and take longer
        middle = (low + high) // 2
        changed = replace(training, recompute=FULL, full_layers=counts[middle])
        prediction = _prediction(changed, topology)
        if prediction is not None and peak_bytes(prediction) <= limit_bytes:
            first, high = prediction, middle - 1
        else:
            low = middle + 1
    if first is not None:
        yield first


def _prediction(training: Training, topology: Topology) -> Prediction | None:
    try:
        check_training(training, topology.accelerator)
        return predict(training, topology)
    except InputError:
        return None


def neighbours(training: Training) -> Iterator[Training]:
    """Yield trainings on as many devices that hold less and differ in one setting and what follows from it.

    Of full recomputation all layers; `smallest_change` also tries fewer. Some cannot be: `check_training` says so.
    """
    degrees = training.degrees
    changes: list[Mapping[str, Any]] = []
    if training.recompute == NONE:
        changes.append({"recompute": SELECT})
    if training.recompute != FULL or training.full_layers is not None:
        changes.append({"recompute": FULL, "full_layers": None})
    if training.microbatch > 1:
        changes.append({"microbatch": training.microbatch // 2})
    if degrees.data * degrees.context > 1:
        changes += [{"sharding": kind} for kind in Sharding if kind > degrees.sharding]
    if training.model.experts is not None:
        changes.append({"expert": 2 * degrees.expert})
    if degrees.tensor > 1 and not degrees.sequence_parallel:
        changes.append({"sequence_parallel": True})
    if training.software.gradient_bytes > _HALF:
        changes.append({"gradient_bytes": _HALF, "reduced_bytes": _HALF})
    if degrees.data % 2 == 0:
        half = degrees.data // 2
        changes += [{field: 2 * getattr(degrees, field), "data": half} for field in ("tensor", "context")]
        changes.append({"pipeline": 2 * degrees.pipeline, "data": half, "layout": ()})
    for change in changes:
        yield _changed(training, change)


def _full_counts(training: Training) -> list[int]:
    """Return how many more layers of a cell, short of all, could be recomputed in full."""
    degrees = training.degrees
    cells = degrees.pipeline * degrees.chunks
    largest = max(map(max, training.layout)) if training.layout else -(-training.model.layers // cells)
    begin = 1
    if training.recompute == FULL:
        begin = largest if training.full_layers is None else training.full_layers + 1
    return list(range(begin, largest))


def _changed(training: Training, change: Mapping[str, Any]) -> Training:
    of_degrees = {field: value for field, value in change.items() if field in _DEGREES}
    of_software = {field: value for field, value in change.items() if field in _SOFTWARE}
    others = {field: value for field, value in change.items() if field not in of_degrees | of_software}
    return replace(
        training,
        degrees=replace(training.degrees, **of_degrees),
        software=replace(training.software, **of_software),
        **others,
    )


def _settings(before: Training, after: Training) -> tuple[Setting, ...]:
    """Return what differs between two trainings of one model."""
    settings = []
    for old, new in ((before, after), (before.degrees, after.degrees), (before.software, after.software)):
        for setting in fields(old):
            was, now = getattr(old, setting.name), getattr(new, setting.name)
            if was != now and setting.name not in ("degrees", "software"):
                settings.append(Setting(field=setting.name, before=was, after=now))
    return tuple(settings)
