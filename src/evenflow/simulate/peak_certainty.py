"""The probability that a plan fits, where its memory was fitted to measured peaks.

A rank's peak is a sum of fitted terms, so the fit's covariance says how far it may be off; a peak that is measured
later has the scatter of one peak beside it. Errors are taken as normal, with a variance that is known only from the
fit's residuals: together they have a multivariate Student's distribution. [Seber and Lee, Linear Regression Analysis]
"""

import math

import numpy as np
import numpy.typing as npt

from evenflow.model.peak_error import CONSTANT, HEAD, PARAMETER, TAIL
from evenflow.simulate.memory import live_at_peak
from evenflow.simulate.simulation import Simulation

_MOST_DRAWS = 40_000
_MOST_NUMBERS = 4_000_000
"""Most numbers that are drawn at once."""


def peak_terms(simulation: Simulation, rank: int) -> dict[str, float]:
    """Return how often each term counts in the peak of `rank`, activations by their recompute kind."""
    plan, schedule = simulation.plan, simulation.timeline.schedule
    live = live_at_peak(schedule, simulation.costs, rank)
    chunks, splits = range(plan.num_chunks), plan.sequence_splits
    layers = [plan.layers[chunk][rank] for chunk in chunks]
    terms: dict[str, float] = {
        CONSTANT: 1,
        PARAMETER: sum(layers),
        HEAD: int(schedule.stage_ranks[0] == rank),
        TAIL: int(schedule.stage_ranks[-1] == rank),
    }
    for kind in simulation.network.kinds:
        terms[kind] = sum(float(live[chunk]) * plan.count(kind, chunk, rank) for chunk in chunks) / splits
    if schedule.splits_backward:  # a weight gradient waits with all that its layers keep
        waiting = sum(int(live[plan.num_chunks + chunk]) * layers[chunk] for chunk in chunks)
        terms["none"] += waiting / splits
    return terms


def fit_probability(simulation: Simulation, limit_bytes: int) -> float:
    """Return the probability that all ranks stay within the limit, to about 0.005."""
    free = limit_bytes - np.array(simulation.peak_memory_bytes)
    return float((_errors(simulation) <= free).all(axis=1).mean())


def margin_bytes(simulation: Simulation, confidence: float) -> int:
    """Return how far below a limit the peaks of a plan like this must be, so that it fits with this probability.

    With this much free on every rank it does; a plan mostly has more on some.
    """
    return math.ceil(float(np.quantile(_errors(simulation).max(axis=1), confidence)))


def _errors(simulation: Simulation) -> npt.NDArray[np.float64]:
    """Return draws of the errors in bytes of all peaks together, ``[draw][rank]``, always the same ones.

    The ranks share the errors of the terms, and each has the scatter of one peak beside it.
    """
    error = simulation.network.peak_error
    assert error is not None
    ranks = range(simulation.plan.num_ranks)
    counts = np.array([[peak_terms(simulation, rank).get(term, 0.0) for term in error.terms] for rank in ranks])
    values, vectors = np.linalg.eigh(np.array(error.covariance))
    root = counts @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    generator = np.random.default_rng(0)
    draws = max(1, min(_MOST_DRAWS, _MOST_NUMBERS // len(ranks)))
    errors = generator.standard_normal((draws, len(values))) @ root.T + generator.standard_normal((draws, len(ranks)))
    if error.degrees_of_freedom:  # else only rounding is known to be wrong
        spread = generator.chisquare(error.degrees_of_freedom, size=(draws, 1)) / error.degrees_of_freedom
        errors /= np.sqrt(spread)
    drawn: npt.NDArray[np.float64] = error.standard_error_bytes * errors
    return drawn
