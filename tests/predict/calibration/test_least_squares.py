"""The minimum against closed forms of linear problems."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.predict.calibration.least_squares import (
    USUAL_SCALE,
    LeastSquaresSolution,
    Limits,
    Stopped,
    covariance,
    linear_point,
    minimise,
    scatter,
    slopes_at,
)


def limits(widths=(100.0, 100.0), lower=(-np.inf, -np.inf), upper=(np.inf, np.inf)) -> Limits:
    return Limits(widths=np.array(widths), lower=np.array(lower), upper=np.array(upper))


def linear(seed: int, rows: int = 40, noise: float = 0.01):
    random = np.random.default_rng(seed)
    matrix, truth = random.normal(size=(rows, 2)), random.uniform(-0.3, 0.3, 2)
    measured = matrix @ truth + random.normal(0, noise, rows)
    return matrix, measured, lambda point: matrix @ point - measured


def solved(residuals_at, **changed) -> LeastSquaresSolution:
    zero = np.zeros(2)
    residuals = residuals_at(zero)
    slopes = slopes_at(residuals_at, zero, residuals, limits(**changed))
    start = LeastSquaresSolution(point=zero, residuals=residuals, slopes=slopes, scale=USUAL_SCALE)
    return minimise(residuals_at, start, limits=limits(**changed))


@given(st.integers(0, 10_000))
def test_small_residuals_give_nearly_the_least_squares_of_a_linear_problem(seed) -> None:
    matrix, measured, residuals_at = linear(seed, noise=0.001)
    expected = np.linalg.lstsq(matrix, measured, rcond=None)[0]
    assert solved(residuals_at).point == pytest.approx(expected, abs=1e-3)


@given(st.integers(0, 10_000))
def test_nothing_nearby_is_better(seed) -> None:
    _, _, residuals_at = linear(seed, noise=0.3)
    found = solved(residuals_at)

    def cost(point) -> float:
        return float(np.sqrt(1 + (residuals_at(point) / (1.345 * found.scale)) ** 2).sum())

    least = cost(found.point)
    for move in np.eye(2) * 0.05:
        assert least < cost(found.point + move)
        assert least < cost(found.point - move)


def test_a_wrong_row_hardly_moves_the_minimum() -> None:
    matrix, measured, _ = linear(3)
    clean = solved(lambda point: matrix @ point - measured).point
    wrong = measured.copy()
    wrong[5] += 50.0
    moved = solved(lambda point: matrix @ point - wrong).point
    squares = np.linalg.lstsq(matrix, wrong, rcond=None)[0]
    assert np.abs(moved - clean).max() < 0.02
    assert np.abs(squares - clean).max() > 0.08


def test_prior_knowledge_decides_where_the_rows_say_nothing() -> None:
    matrix, measured, _ = linear(4)
    matrix[:, 1] = 0.0
    found = solved(lambda point: matrix @ point - measured, widths=(100.0, 0.1))
    assert found.point[1] == 0.0


@pytest.mark.parametrize("end", [{"upper": (0.1, 1.0)}, {"lower": (0.6, -1.0)}])
def test_a_point_stays_between_its_ends(end) -> None:
    found = solved(lambda point: np.array([point[0] - 0.4, point[1] + 0.2, point[0] - 0.4]), **end)
    assert found.point[0] == next(iter(end.values()))[0]
    assert found.point[1] == pytest.approx(-0.2, abs=0.01)


def test_what_is_stopped_has_the_best_point_so_far() -> None:
    _matrix, measured, residuals_at = linear(5, noise=0.3)
    calls = []

    def stopping(point):
        calls.append(point)
        if len(calls) > 4:
            raise Stopped
        return residuals_at(point)

    found = solved(stopping)
    assert not found.is_complete
    assert np.abs(found.residuals).sum() < np.abs(measured).sum()
    assert found.residuals == pytest.approx(residuals_at(found.point))


@given(st.integers(0, 10_000), st.floats(0.01, 10))
def test_the_covariance_is_that_of_a_linear_model(seed, scale) -> None:
    matrix = np.random.default_rng(seed).normal(size=(12, 3)) * [1.0, 100.0, 0.01]
    expected = scale**2 * np.linalg.inv(matrix.T @ matrix)
    assert np.allclose(covariance(matrix, scale), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("matrix", [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0]], [[1.0, 0.0], [2.0, 0.0]]])
def test_the_covariance_of_what_is_not_determined_is_infinite(matrix) -> None:
    assert np.isinf(covariance(np.array(matrix), 1.0)).all()


def test_the_scatter_is_that_of_the_rows_where_they_are_many_and_the_usual_one_where_none_is_free() -> None:
    residuals = np.random.default_rng(1).normal(0, 0.2, 4000)
    assert scatter(residuals, 3) == pytest.approx(0.2, rel=0.05)
    residuals[:100] = 50.0
    assert scatter(residuals, 3) == pytest.approx(0.2, rel=0.1)
    assert scatter(np.array([0.4, 0.0]), 2) == USUAL_SCALE


@given(st.integers(0, 10_000))
def test_without_some_rows_a_linear_problem_is_that_of_the_others(seed) -> None:
    matrix, measured, residuals_at = linear(seed, noise=0.001)
    found = solved(residuals_at)
    rows = np.arange(30)
    expected = np.linalg.lstsq(matrix[rows], measured[rows], rcond=None)[0]
    assert linear_point(found, rows, limits()) == pytest.approx(expected, abs=1e-3)
