"""Least squares against numpy, and what a matrix leaves open."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenflow.profiles.memory.least_squares import outliers, solve, undetermined

rows = st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=3, max_size=8)


@given(rows, st.randoms(use_true_random=False), st.sampled_from([1, 1000]))
def test_the_solution_is_that_of_numpy_whatever_the_scale_of_a_column(numbers, random, scale):
    matrix = np.array(numbers, dtype=np.float64) * [1, scale, 1]
    assume(np.linalg.matrix_rank(matrix) == 3)
    assume(np.linalg.cond(matrix / np.linalg.norm(matrix, axis=0)) < 1e4)
    measured = np.array([random.randrange(1000) for _ in numbers], dtype=np.float64)
    solution = solve(matrix, measured)
    expected = np.linalg.lstsq(matrix, measured, rcond=None)[0]
    assert solution.values == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert solution.weights @ measured == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert solution.residuals == pytest.approx(measured - matrix @ expected, abs=1e-4)
    hat = np.diag(matrix @ np.linalg.pinv(matrix))
    assert solution.leverages == pytest.approx(hat, abs=1e-6)
    assert undetermined(matrix) == []


def test_outliers_need_rows_to_spare():
    matrix = np.array([[1.0, 0], [1, 1], [1, 2], [1, 3], [1, 4]])
    measured_values = np.array([1.0, 3, 5, 70, 9])
    assert outliers(solve(matrix, measured_values)) == [3]
    assert outliers(solve(matrix[:3], np.array([1.0, 30, 5]))) == []


def test_undetermined_columns_are_those_of_null_vectors():
    matrix = np.array([[1.0, 2, 0, 5], [1, 2, 0, 1], [1, 2, 0, 7]])
    assert undetermined(matrix) == [0, 1, 2]
