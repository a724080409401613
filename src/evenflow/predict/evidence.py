"""What a calibration says of a training that is not among its runs: how much of it counts, and where it extrapolates.

What a fit finds on an accelerator is as much what the framework, its number format and the sizes of the layers make of
it: over pairs of published sources, a calibration on one that is taken over by the other misses more than none. So
fitted values count for trainings like the runs, and the values before for others.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.calibration import SIZES, CalibrationRecord, CoveredRuns
from evenflow.cluster.topology import Topology
from evenflow.predict.calibration.tunable import TUNABLES
from evenflow.predict.recipes import OF_FORMATS
from evenflow.predict.training import Training
from evenflow.predict.vocabulary import Aspect, words_of

_REACH: Mapping[str, float] = {"hidden": 2.0, "sequence": 2.0, "devices": 8.0}
"""Octaves outside of the runs at which nothing of what was fitted counts any more; halfway there, half of it does.

These sizes are those of a job, so that all configurations that `evenflow tune` compares have the same accelerator.
"""
_TELLING = (Aspect.ATTENTION, Aspect.ELEMENTWISE, Aspect.GRAPHS)
_IN_TURN = "messages-in-turn"
"""The pipeline engine of DeepSpeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Something of a training that no run of the calibration has."""

    name: str
    """A name of `SIZES`, or ``precision``, ``experts`` or ``software``."""
    value: int | str | bool
    covered: tuple[int | str | bool, ...]
    """The smallest and the largest size of the runs; of words, all that they have."""


def covered_runs(runs: Iterable[tuple[Training, int]]) -> tuple[CoveredRuns, ...]:
    """Return trainings, each with the devices of a node, by kind, the most frequent kind first."""
    kinds: dict[tuple[str, bool, tuple[str, ...]], list[dict[str, int]]] = {}
    for training, devices_per_node in runs:
        kinds.setdefault(_kind(training), []).append(_sizes(training, devices_per_node))
    return tuple(
        CoveredRuns(
            runs=len(sizes),
            precision=precision,
            experts=experts,
            software=software,
            **{name: (min(of[name] for of in sizes), max(of[name] for of in sizes)) for name in SIZES},
        )
        for (precision, experts, software), sizes in sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    )


def counted(training: Training, topology: Topology) -> Topology:
    """Return the devices as far as their calibration counts for a training: fitted values, those before, or between.

    Where not all of it counts, the interval of a prediction is that of published runs.
    """
    calibration = topology.accelerator.calibration
    if calibration is None or not calibration.covered:
        return topology
    counts = max(_share(training, runs) for runs in calibration.covered)
    return replace(topology, accelerator=_counting(topology.accelerator, calibration, counts))


def outside(training: Training, topology: Topology) -> tuple[Outside, ...]:
    """Return what of a training no run of the calibration has; empty without a calibration that says its runs.

    Sizes are compared with the runs of the same kind; where there are none, with those of all kinds.
    """
    calibration = topology.accelerator.calibration
    if calibration is None or not calibration.covered:
        return ()
    return tuple(_outside(training, topology.domain_devices, calibration.covered))


def _outside(training: Training, devices_per_node: int, covered: tuple[CoveredRuns, ...]) -> Iterator[Outside]:
    alike = list(covered)
    kind: tuple[str | bool | tuple[str, ...], ...] = _kind(training)
    for name, value in zip(("precision", "experts", "software"), kind, strict=True):
        same = [runs for runs in alike if getattr(runs, name) == value]
        if not same:
            of_runs = dict.fromkeys(_said(getattr(runs, name)) for runs in alike)
            yield Outside(name=name, value=_said(value), covered=tuple(of_runs))
        alike = same or alike
    for name, size in _sizes(training, devices_per_node).items():
        least, most = min(getattr(runs, name)[0] for runs in alike), max(getattr(runs, name)[1] for runs in alike)
        if not least <= size <= most:
            yield Outside(name=name, value=size, covered=(least, most))


def _said(value: str | bool | tuple[str, ...]) -> str | bool:
    return " ".join(value) if isinstance(value, tuple) else value


def _kind(training: Training) -> tuple[str, bool, tuple[str, ...]]:
    """Return number format, whether there are experts, and what sets the framework's rates apart."""
    telling = [word.name for word in words_of(training.software) if word.aspect in _TELLING]
    recipes = OF_FORMATS.get(training.precision, ())
    recipe = [training.software.recipe or recipes[0]] if recipes else []
    in_turn = [_IN_TURN] if training.software.messages_in_turn else []
    return training.precision, training.model.experts is not None, (*telling, *recipe, *in_turn)


def _sizes(training: Training, devices_per_node: int) -> dict[str, int]:
    degrees = training.degrees
    return {
        "hidden": training.model.hidden,
        "sequence": training.sequence,
        "devices": degrees.devices,
        "devices_per_node": devices_per_node,
        "tensor": degrees.tensor,
        "pipeline": degrees.pipeline,
        "context": degrees.context,
        "expert": degrees.expert,
    }


def _share(training: Training, runs: CoveredRuns) -> float:
    """Return how much of what was fitted to runs of one kind counts."""
    if _kind(training) != (runs.precision, runs.experts, runs.software):
        return 0.0
    sizes = _sizes(training, 1)
    shares = (1 - _octaves(sizes[name], getattr(runs, name)) / reach for name, reach in _REACH.items())
    return math.prod(max(0.0, share) for share in shares)


def _octaves(size: int, between: tuple[int, int]) -> float:
    """Return by how many doublings a size is outside."""
    least, most = between
    return max(0.0, math.log2(least / size), math.log2(size / most))


def _counting(accelerator: Accelerator, calibration: CalibrationRecord, counts: float) -> Accelerator:
    reached = accelerator.reached
    values = {
        name: _between(name, before, getattr(reached, name), counts) for name, before in calibration.before.items()
    }
    # Values before are left out of the record: what counts has been settled.
    return replace(
        accelerator, reached=reached.changed(values), calibration=replace(calibration, before={}, counts=counts)
    )


def _between(name: str, before: float, after: float, counts: float) -> float:
    """Return a value between two, in the logarithms that are fitted."""
    if counts == 1.0:
        return after
    shift, most = TUNABLES[name].shift, TUNABLES[name].most
    lowest = 1e-12  # a value can be zero
    start, end = math.log(max(lowest, before + shift)), math.log(max(lowest, after + shift))
    return min(most, max(0.0, math.exp(start + counts * (end - start)) - shift)) if counts else before
