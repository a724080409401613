"""The middle 80 % of values from several sources, none of which decides alone."""

from collections.abc import Iterable, Sequence

import numpy as np

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
    of = list(sources)
    values = np.concatenate([np.asarray(group, dtype=float) for source in of for group in source])
    weights = np.concatenate(
        [np.full(len(group), 1 / (len(group) * max(len(source), FEWEST))) for source in of for group in source]
    )
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    low, high = (
        float(values[order][min(np.searchsorted(reached, share - _ROUNDING), len(values) - 1)]) for share in (0.1, 0.9)
    )
    return low, high, len(values), len(of)
