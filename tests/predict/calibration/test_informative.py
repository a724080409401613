"""The choice of runs that tell most, beside all choices."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.predict.calibration.informative import aimed_at, most_informative, step_slopes
from evenflow.predict.calibration.least_squares import USUAL_SCALE
from evenflow.predict.calibration.tunable import tunables
from tests.predict.calibration.runs import VARIED, measurements
from tests.thoroughness import examples

THREE = tunables(["product_share", "operator_ns", "link_share"])


def told(slopes: np.ndarray, rows, aims: list[int]) -> float:
    """By how much these rows raise the logarithm of the determinant of the information on some parameters."""
    before = np.diag([THREE[place].width ** -2 for place in aims])
    own = slopes[np.ix_(list(rows), aims)]
    return np.linalg.slogdet(before + own.T @ own / USUAL_SCALE**2)[1] - np.linalg.slogdet(before)[1]


@settings(max_examples=examples(60))
@given(st.integers(0, 10_000), st.integers(4, 8), st.integers(1, 4))
def test_a_greedy_choice_tells_nearly_as_much_as_the_best(seed: int, rows: int, count: int) -> None:
    """What runs tell is submodular: greedy steps of 95 % reach 1 - exp(-0.95) of the best. [Nemhauser et al., 1978]"""
    slopes = np.random.default_rng(seed).normal(0.0, 0.5, (rows, 3))
    chosen = [one.row for one in most_informative(slopes, THREE, count)]
    assert len(set(chosen)) == count
    aims = aimed_at(slopes, THREE, count)
    best = max(told(slopes, some, aims) for some in combinations(range(rows), count))
    assert told(slopes, chosen, aims) >= (1 - np.exp(-0.95)) * best
    if count == 1:
        assert told(slopes, chosen, aims) >= 0.95 * best - 1e-9


def test_runs_are_chosen_for_as_many_parameters_as_a_fit_takes() -> None:
    slopes = step_slopes(measurements(VARIED, {}), THREE)
    assert [aimed_at(slopes, THREE, count) for count in (1, 3, 5)] == [[0], [0, 1], [0, 1, 2]]
    assert aimed_at(slopes * [1, 0, 1], THREE, 3) == [0, 2]


def test_every_run_leaves_less_open_than_the_one_before_it() -> None:
    slopes = step_slopes(measurements(VARIED, {}), THREE)
    chosen = most_informative(slopes, THREE, 5)
    assert chosen[0].before == pytest.approx([tunable.width for tunable in THREE])
    for one, following in pairwise(chosen):
        assert following.before == pytest.approx(one.after)
    assert all((one.after <= one.before).all() for one in chosen)
    assert len(most_informative(slopes, THREE, 100)) == len(VARIED)


def test_the_first_of_equal_runs_is_taken() -> None:
    slopes = np.array([[0.1, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert [one.row for one in most_informative(slopes, THREE, 1)] == [1]
