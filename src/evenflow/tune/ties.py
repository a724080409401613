"""Which of the best configurations cannot be told apart: their steps are closer than predictions are sure of."""

from collections.abc import Sequence

from evenflow.predict.prediction import Prediction
from evenflow.tune.candidate import Candidate

_SHARED = 4
"""How many times as large the error of a step is as that of the difference between two on the same devices, most of
which they share."""


def tied(ranked: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the first of a ranking and those after it that cannot be told apart from it; empty where it is alone."""
    first = ranked[0].prediction if ranked else None
    if first is None:
        return ()
    reach_ns = first.step_ns + uncertain_ns(first)
    found = tuple(one for one in ranked if one.step_ns <= reach_ns)
    return found if len(found) > 1 else ()


def uncertain_ns(prediction: Prediction) -> float:
    """Return the difference to a prediction that another on the same devices must have to be told apart from it."""
    low, high = prediction.interval_ns
    return (high - low) / 2 / _SHARED
