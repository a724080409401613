"""What can be reached where runs scatter: against draws, and by its laws."""

from itertools import combinations

import numpy as np
import pytest
from benchmarks.published.reachable import FOUR_OF_FIVE, reachable
from hypothesis import given
from hypothesis import strategies as st

STEPS = st.lists(st.floats(1, 3), min_size=2, max_size=8)


@given(STEPS, st.floats(0, 0.3))
def test_runs_that_do_not_scatter_leave_nothing_to_regret(steps: list[float], above: float) -> None:
    found = reachable(steps, scatter=0, above=above)
    assert (found.regret, found.tau) == (0, 1)


@given(STEPS, st.floats(0.001, 0.3), st.floats(0, 0.3))
def test_the_right_order_is_right_more_often_than_wrong(steps: list[float], scatter: float, above: float) -> None:
    found = reachable(steps, scatter=scatter, above=above)
    assert found.regret >= 0
    assert 0 <= found.tau <= 1


@given(STEPS, st.floats(0.01, 0.1))
def test_more_scatter_never_helps(steps: list[float], scatter: float) -> None:
    less, more = (reachable(steps, scatter=each, above=0) for each in (scatter, 2 * scatter))
    assert more.tau <= less.tau + 1e-12


def test_the_tau_is_that_of_runs_that_are_drawn() -> None:
    steps, scatter, above = [1.0, 1.04, 1.1, 1.15], 0.08, 0.05
    deviation = np.log1p(scatter) / (FOUR_OF_FIVE * np.sqrt(2))
    drawn = np.log(steps) + deviation * np.random.default_rng(1).standard_normal((200_000, 4))
    gaps = np.stack([drawn[:, slow] - drawn[:, fast] for fast, slow in combinations(range(4), 2)])
    counted = np.abs(gaps) > np.log1p(above)
    found = reachable(steps, scatter=scatter, above=above)
    assert found.tau == pytest.approx(np.sign(gaps)[counted].sum() / counted.sum(), abs=0.005)


def test_scatter_is_what_four_of_five_pairs_of_runs_differ_by_at_most() -> None:
    """Two configurations that take the same are two runs of one: a fifth of such pairs differ by more."""
    found = reachable([1.0, 1.0], scatter=0.06, above=0.0)
    assert found.tau == pytest.approx(0)
    deviation = np.log1p(0.06) / (FOUR_OF_FIVE * np.sqrt(2))
    pairs = deviation * np.random.default_rng(2).standard_normal((200_000, 2))
    ratios = np.exp(np.abs(pairs[:, 0] - pairs[:, 1])) - 1
    assert np.quantile(ratios, 0.8) == pytest.approx(0.06, rel=0.02)
    assert found.regret == pytest.approx(np.maximum(np.exp(pairs[:, 0] - pairs[:, 1]) - 1, 0).mean(), rel=0.05)
