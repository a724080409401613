"""Scores of errors."""

import pytest
from benchmarks.published.scores import Error, score
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.floats(0.01, 100)
PAIRS = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=20)


def errors(pairs) -> list[Error]:
    return [Error(id=f"row {index}", predicted=one, measured=other) for index, (one, other) in enumerate(pairs)]


def test_the_score_of_three_errors() -> None:
    found = score(errors([(110, 100), (50, 100), (102, 100)]))
    assert found is not None
    assert found.mape == pytest.approx(0.62 / 3)
    assert found.median == pytest.approx(0.1)
    assert found.bias == pytest.approx((0.1 - 0.5 + 0.02) / 3)
    assert (found.count, found.worst, found.worst_id) == (3, -0.5, "row 1")
    assert (found.too_low, found.lowest, found.lowest_id) == (1, -0.5, "row 1")


def test_errors_in_their_own_unit() -> None:
    found = score(errors([(110, 100), (0.5, 1)]), absolute=True)
    assert found is not None
    assert (found.mape, found.worst, found.worst_id, found.lowest) == (5.25, 10, "row 0", -0.5)


def test_no_errors_have_no_score() -> None:
    assert score([]) is None


@given(PAIRS)
def test_laws_of_a_score(pairs) -> None:
    found = score(errors(pairs))
    assert found is not None
    assert abs(found.bias) <= found.mape + 1e-12
    assert found.median <= abs(found.worst) + 1e-12
    assert found.mape <= abs(found.worst) + 1e-12
    assert found.lowest <= 0
    assert (found.too_low == 0) == (found.lowest_id == "")


@given(PAIRS, st.randoms())
def test_the_order_of_errors_does_not_matter(pairs, random) -> None:
    one = errors(pairs)
    other = random.sample(one, len(one))
    first, second = score(one), score(other)
    assert first is not None
    assert second is not None
    assert (first.worst_id, first.median, first.too_low) == (second.worst_id, second.median, second.too_low)
    assert first.mape == pytest.approx(second.mape)


@given(PAIRS)
def test_perfect_predictions_have_no_error(pairs) -> None:
    found = score(errors([(measured, measured) for _, measured in pairs]))
    assert found is not None
    assert (found.mape, found.bias, found.worst, found.too_low) == (0, 0, 0, 0)
