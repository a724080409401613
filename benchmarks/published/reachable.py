"""What a choice can reach at best where runs scatter: that of somebody who knows how long each configuration takes.

Measured steps are taken for the true ones, and every configuration is measured once more. Differences of measured steps
have the scatter in them and so are larger than the true ones: what is said here is rather too good than too bad.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

FOUR_OF_FIVE = 1.2816
"""Standard deviations within which four of five values of a normal distribution are."""
DRAWS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachable:
    """The expected score of an order that is right, against steps that scatter."""

    regret: float
    tau: float
    """Over pairs that differ beyond the noise when measured once more; 1 where none is expected to."""


def reachable(steps: Sequence[float], *, scatter: float, above: float) -> Reachable:
    """Return what the right order of a sweep scores in the mean.

    `scatter` is the share that four of five pairs of runs of the same configuration differ by at most. Of a pair that
    is measured once more, differences up to the share `above` are noise.
    """
    deviation = math.log1p(scatter) / (FOUR_OF_FIVE * math.sqrt(2))
    logs = np.log(np.asarray(steps, dtype=np.float64))
    if not deviation:
        return Reachable(regret=0.0, tau=1.0)
    agreed = counted = 0.0
    limit, spread = math.log1p(above), math.sqrt(2) * deviation
    for one, other in combinations(logs, 2):
        gap = abs(one - other)
        right, wrong = _above((limit - gap) / spread), _above((limit + gap) / spread)
        agreed += right - wrong
        counted += right + wrong
    drawn = logs + deviation * np.random.default_rng(17).standard_normal((DRAWS, len(logs)))
    regrets = np.exp(drawn[:, logs.argmin()] - drawn.min(axis=1)) - 1
    return Reachable(regret=float(regrets.mean()), tau=agreed / counted if counted else 1.0)


def _above(value: float) -> float:
    """Return the chance of a standard normal number to be above a value."""
    return math.erfc(value / math.sqrt(2)) / 2
