"""The game between paths and stages, by its two sides: neither can do better against the shares of the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evenflow.solve.bounds.game_kernel import solve_game

TABLES = st.tuples(st.integers(1, 12), st.integers(1, 12)).flatmap(
    lambda shape: arrays(float, shape, elements=st.integers(0, 1000).map(float))
)


@settings(deadline=None)
@given(TABLES)
def test_what_rows_are_sure_of_is_what_columns_pay_at_most(pays: np.ndarray):
    rows, columns = solve_game(pays)
    for shares in (rows, columns):
        assert (shares >= 0).all()
        assert shares.sum() == pytest.approx(1)
    assert (rows @ pays).min() == pytest.approx((pays @ columns).max(), abs=1e-6 * max(1.0, pays.max()))


def test_matching_pennies_are_played_at_random():
    rows, columns = solve_game(np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert rows == pytest.approx([0.5, 0.5])
    assert columns == pytest.approx([0.5, 0.5])
