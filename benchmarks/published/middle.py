"""The middle 80 % of values from several sources, none of which decides alone."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

FEWEST = 5
"""Groups of a source from which on it has its full weight: the oddities of two or three would decide."""
_ROUNDING = 1e-9
"""Weights that are added up in another order differ by less."""
Range = tuple[float, float, int, int]
"""Low, high, number of values and of sources."""


def middle_of(sources: Iterable[Sequence[Sequence[float]]]) -> Range:
    """Return the middle 80 % of values that come by source and in it by group.

    Every source has the same weight, but one of fewer than `FEWEST` groups less, in proportion; its groups share it
    alike, and so do the values of a group.
    """
    return shrunk_middle_of(sources, ())


def shrunk_middle_of(sources: Iterable[Sequence[Sequence[float]]], wider: Iterable[Sequence[Sequence[float]]]) -> Range:
    """Return the middle 80 % of values as `middle_of` does, with those of a wider kind as if they were one more source.

    So few sources say about what the wider kind says, and many speak for themselves. Only the former are counted.
    """
    of = list(sources)
    values, weights = _weighed(of)
    further = list(wider)
    if further:
        more, their_weights = _weighed(further)
        values = np.concatenate([values, more])
        weights = np.concatenate([weights, their_weights / their_weights.sum()])
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    low, high = (
        float(values[order][min(np.searchsorted(reached, share - _ROUNDING), len(values) - 1)]) for share in (0.1, 0.9)
    )
    return low, high, sum(len(group) for source in of for group in source), len(of)


def _weighed(of: Sequence[Sequence[Sequence[float]]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values of sources, and their weights."""
    values = np.concatenate([np.asarray(group, dtype=float) for source in of for group in source])
    weights = np.concatenate(
        [np.full(len(group), 1 / (len(group) * max(len(source), FEWEST))) for source in of for group in source]
    )
    return values, weights
