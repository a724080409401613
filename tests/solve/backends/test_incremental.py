"""Linear programs that grow, held against duality and against the same program made at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.solve.backends.highs import INFINITY
from evenflow.solve.backends.incremental import Infeasible, LinearProgram
from evenflow.solve.backends.packed import Packed, empty
from tests.thoroughness import examples


def dense(vectors: np.ndarray) -> Packed:
    count, size = vectors.shape
    return Packed(
        starts=np.arange(0, count * size + 1, size), indices=np.tile(np.arange(size), count), entries=vectors.ravel()
    )


@st.composite
def coverings(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Costs, rows and what every row is to reach: all above zero, so that there is an optimum."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    numbers = st.integers(1, 9).map(float)
    rows = [[draw(numbers) for _ in range(shape[1])] for _ in range(shape[0])]
    costs, goals = ([draw(numbers) for _ in range(count)] for count in reversed(shape))
    return np.array(costs), np.array(rows), np.array(goals)


def whole(costs: np.ndarray, rows: np.ndarray, goals: np.ndarray) -> LinearProgram:
    program = LinearProgram()
    program.add_columns(costs, empty(len(costs)))
    program.add_rows(goals, np.full(len(goals), INFINITY), dense(rows))
    return program


@given(coverings())
@settings(max_examples=examples(60))
def test_the_duals_prove_the_optimum(covering):
    costs, rows, goals = covering
    solution = whole(costs, rows, goals).solve()
    assert solution is not None
    assert (solution.values >= -1e-9).all()
    assert (rows @ solution.values >= goals - 1e-6).all()
    assert (solution.duals >= -1e-9).all()
    assert (solution.duals @ rows <= costs + 1e-6).all()
    assert solution.objective == pytest.approx(costs @ solution.values) == pytest.approx(solution.duals @ goals)


@given(coverings(), st.booleans())
@settings(max_examples=examples(60))
def test_a_program_that_grew_has_the_optimum_of_one_made_at_once(covering, primal):
    costs, rows, goals = covering
    grown = LinearProgram()
    grown.add_rows(goals, np.full(len(goals), INFINITY), empty(len(goals)))
    for column in range(len(costs)):
        grown.add_columns(costs[column : column + 1], dense(rows[:, column : column + 1].T))
        solution = grown.solve(primal=primal)
        expected = whole(costs[: column + 1], rows[:, : column + 1], goals).solve()
        assert solution is not None
        assert expected is not None
        assert solution.objective == pytest.approx(expected.objective)
    assert grown.num_columns == len(costs)


def test_shut_columns_leave_no_point_and_open_ones_bring_it_back():
    program = whole(np.ones(2), np.ones((1, 2)), np.ones(1))
    both = np.arange(2, dtype=np.int32)
    program.set_upper(both, 0.0)
    with pytest.raises(Infeasible):
        program.solve()
    program.set_upper(both[:1], INFINITY)
    solution = program.solve()
    assert solution is not None
    assert solution.values.tolist() == [1.0, 0.0]


def test_no_column_is_no_change():
    program = whole(np.ones(1), np.ones((1, 1)), np.ones(1))
    program.add_columns(np.zeros(0), empty(0))
    assert program.num_columns == 1


def test_a_program_without_a_lower_end_has_no_optimal_point():
    program = LinearProgram()
    program.add_columns(-np.ones(1), empty(1))
    assert program.solve() is None
