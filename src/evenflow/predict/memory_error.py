"""How far predicted memory was off that of published runs: the probability that a training fits.

What a device shows beside what is predicted has many causes, and none is a normal error: the shares of published
readings below some ratios are kept as they are, and between them, and beyond, normal deviates are interpolated.
"""

from bisect import bisect_right
from functools import cache
from math import exp, log
from statistics import NormalDist

_NORMAL = NormalDist()
_QUANTILES: tuple[tuple[float, float], ...] = (
    # begin: memory
    (0.05, 0.933),
    (0.1, 0.954),
    (0.25, 0.966),
    (0.5, 1.000),
    (0.75, 1.040),
    (0.9, 1.256),
    (0.95, 1.298),
    # end: memory
)
"""Shares of readings, every source alike, whose measured over predicted memory is at most the ratio behind them.

Written by ``python -m benchmarks verdicts --write``.
"""


def probability_within(ratio: float) -> float:
    """Return the probability that a run needs at most `ratio` times what is predicted; 0 for a ratio of 0 or less."""
    return _NORMAL.cdf(_interpolated(log(ratio), *_deviates())) if ratio > 0 else 0.0


def margin(confidence: float | None) -> float:
    """Return the ratio within which measured memory is of what is predicted, with this probability; None: 1."""
    if confidence is None:
        return 1.0
    logs, deviates = _deviates()
    return exp(_interpolated(_NORMAL.inv_cdf(confidence), deviates, logs))


@cache
def _deviates() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return logarithms of the ratios, and the normal deviates of their shares."""
    return tuple(log(ratio) for _share, ratio in _QUANTILES), tuple(_NORMAL.inv_cdf(share) for share, _ in _QUANTILES)


def _interpolated(value: float, given: tuple[float, ...], wanted: tuple[float, ...]) -> float:
    """Return the number beside `value` on straight lines between points that rise, and beyond the outer ones."""
    place = min(max(bisect_right(given, value) - 1, 0), len(given) - 2)
    (low, high), (from_low, to_high) = given[place : place + 2], wanted[place : place + 2]
    return from_low + (to_high - from_low) * (value - low) / (high - low)
