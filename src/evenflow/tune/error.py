"""How far apart two configurations must be predicted to be told apart.

Most of what a prediction has wrong, it has wrong alike in two configurations of one model on the same devices: their
difference is better known than either. How well, published sweeps say.
"""

import math
from collections.abc import Mapping, Sequence

from evenflow.cluster.topology import Topology
from evenflow.predict.expected_error import ALL, CALIBRATED, FEWEST_SOURCES, ErrorRange, expected_error, kinds_of
from evenflow.predict.prediction import Prediction
from evenflow.predict.training import Training
from evenflow.tune.candidate import Candidate

_RANGES: Mapping[str, tuple[float, float, int, int]] = {
    # begin: ranges
    "Ampere, dense": (-0.189, 0.141, 1819, 3),
    "Blackwell, dense": (-0.118, 0.010, 4, 1),
    "Volta, dense": (-0.081, 0.595, 45, 1),
    "all": (-0.166, 0.134, 1868, 5),
    "dense": (-0.166, 0.134, 1868, 5),
    # end: ranges
}
"""Low, high, pairs and sources by kind of run; written by ``python -m benchmarks defaults --write``."""


def difference_error(training: Training, topology: Topology) -> ErrorRange:
    """Return how far off differences between configurations like this one were, on the same devices.

    The middle 80 % of measured ratios of two steps, each divided by the predicted ratio of the slower to the faster,
    minus one; of a wider kind where only one source has such runs. With a calibration it is no more than two steps
    with independent errors have, sqrt(2) times that of one.
    """
    kinds = kinds_of(topology.accelerator.generation, has_experts=training.model.experts is not None)
    kind_of_run = next(kind for kind in kinds if kind == ALL or _RANGES.get(kind, (0, 0, 0, 0))[-1] >= FEWEST_SOURCES)
    low, high, pairs, sources = _RANGES[kind_of_run]
    published = ErrorRange(low=low, high=high, runs=pairs, sources=sources, of=kind_of_run)
    alone = expected_error(training, topology)
    if alone.of != CALIBRATED:
        return published
    both = math.sqrt(2) * alone.high
    return ErrorRange(low=max(low, -both), high=min(high, both), runs=alone.runs, sources=alone.sources, of=CALIBRATED)


def uncertain_ns(prediction: Prediction) -> float:
    """Return by how much another step on the same devices must be longer to be told apart from `prediction`.

    Nine of ten pairs that are predicted that far apart were measured in that order.
    """
    error = difference_error(prediction.training, prediction.topology)
    return prediction.step_ns * (1 / (1 + error.low) - 1)


def contenders(ranked: Sequence[Candidate], most: int) -> tuple[Candidate, ...]:
    """Return the first rows of a ranking, at most `most`, without those that cannot be the fastest.

    Four of five measured steps would be within the interval of a prediction. A row whose interval lies above that of
    the first is not worth a look; the ranking is by predicted steps, so that all rows behind it are not either.
    """
    first = ranked[0].prediction if ranked else None
    if first is None:
        return tuple(ranked[:most])
    reach_ns = first.interval_ns[1]
    able = (one for one in ranked[:most] if one.prediction is None or one.prediction.interval_ns[0] <= reach_ns)
    return tuple(able)


def tied(ranked: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the first of a ranking and those after it that cannot be told apart from it; empty where it is alone."""
    first = ranked[0].prediction if ranked else None
    if first is None:
        return ()
    reach_ns = first.step_ns + uncertain_ns(first)
    within = tuple(candidate for candidate in ranked if candidate.step_ns <= reach_ns)
    return within if len(within) > 1 else ()
