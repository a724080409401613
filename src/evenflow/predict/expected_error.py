"""How far predictions of runs were off that nothing had been fitted to: the interval that is printed with a step."""

from collections.abc import Mapping
from dataclasses import dataclass

from evenflow.cluster.topology import Topology
from evenflow.predict.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRange:
    """The middle 80 % of measured steps, each divided by the predicted one, minus one; every source weighs the same."""

    low: float
    high: float
    runs: int
    sources: int
    of: str
    """The runs that were compared: a generation of accelerators and a kind of model, ``all``, or ``calibrated``."""


ALL = "all"
CALIBRATED = "calibrated"
FEWEST_SOURCES = 2
"""Fewest sources of a kind: the runs of one have too much in common."""
_MIXTURES: Mapping[str, tuple[float, float, int, int]] = {
    # begin: mixtures
    "Blackwell, experts": (-0.369, 0.627, 34, 5),
    "Hopper, experts": (-0.223, 0.544, 17, 6),
    "experts": (-0.361, 0.595, 51, 7),
    # end: mixtures
}
"""Of mixtures of experts, whose sources are what a publication measured of a model: as wide as it took to hold four of
five runs of sources that were left out; written by ``python -m benchmarks mixtures --write``."""
_RANGES: Mapping[str, tuple[float, float, int, int]] = {
    **_MIXTURES,
    # begin: ranges
    "Ampere, dense": (-0.215, 0.294, 909, 6),
    "Blackwell, dense": (-0.241, 0.194, 32, 3),
    "Hopper, dense": (-0.164, 0.191, 58, 5),
    "Volta, dense": (0.106, 0.920, 10, 1),
    "all": (-0.168, 0.269, 1030, 10),
    "dense": (-0.172, 0.244, 1009, 10),
    # end: ranges
}
"""Low, high, runs and sources by kind of run; written by ``python -m benchmarks defaults --write``."""


def expected_error(training: Training, topology: Topology) -> ErrorRange:
    """Return the range of published runs like this one, or of a wider kind where only one source has such runs.

    An accelerator that was calibrated on runs like this one has the error of these: a normal distribution with that
    mean of absolute values has 80 % within 1.6 of it.
    """
    calibration = topology.accelerator.calibration
    if calibration is not None and calibration.counts == 1.0:
        error = calibration.expected_step_error or calibration.step_error
        if error is not None:
            return ErrorRange(low=-1.6 * error, high=1.6 * error, runs=calibration.runs, sources=1, of=CALIBRATED)
    kind_of_run = next(
        kind
        for kind in kinds_of(topology.accelerator.generation, has_experts=training.model.experts is not None)
        if kind == ALL or (kind in _RANGES and _RANGES[kind][-1] >= FEWEST_SOURCES)
    )
    low, high, runs, sources = _RANGES[kind_of_run]
    return ErrorRange(low=low, high=high, runs=runs, sources=sources, of=kind_of_run)


def kinds_of(generation: str, *, has_experts: bool) -> tuple[str, ...]:
    """Return the kinds of a run, from the narrowest to all."""
    model = "experts" if has_experts else "dense"
    return f"{generation}, {model}", model, ALL
