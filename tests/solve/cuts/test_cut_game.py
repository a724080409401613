"""The game of plans and paths: its mixtures prove its value against each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.solve.backends.incremental import LinearProgram
from evenflow.solve.cuts.cut_game import Game
from tests.thoroughness import examples


@st.composite
def boards(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Plans of durations and paths of counts and message times."""
    slots = draw(st.integers(1, 3))

    def table(rows: int, columns: int, low: int, high: int) -> np.ndarray:
        return np.array([[draw(st.integers(low, high)) for _ in range(columns)] for _ in range(rows)], dtype=float)

    plans = table(draw(st.integers(1, 4)), slots, 1, 1000)
    counts = table(draw(st.integers(1, 4)), slots, 1, 5)
    return plans, np.concatenate((counts, table(len(counts), 1, 0, 300)), axis=1)


def times_of(plans: np.ndarray, paths: np.ndarray) -> np.ndarray:
    return paths[:, :-1] @ plans.T + paths[:, -1:]


@given(boards())
@settings(max_examples=examples(60))
def test_each_mixture_answers_the_other(board):
    plans, paths = board
    game = Game(plans.shape[1], 1000.0, lambda: True)
    game.add(paths=paths, plans=plans)
    mixture = game.solve()
    times = times_of(plans, paths)
    assert mixture.plans.sum() == pytest.approx(1)
    assert mixture.paths.sum() == pytest.approx(1)
    assert (mixture.paths >= 0).all()
    assert (times @ mixture.plans).max() == pytest.approx(mixture.value_ns)
    assert (mixture.paths @ times).min() == pytest.approx(mixture.value_ns)


@given(boards())
@settings(max_examples=examples(40))
def test_plans_lower_the_value_and_paths_raise_it_whenever_they_come(board):
    plans, paths = board
    at_once, grown = (Game(plans.shape[1], 1000.0, lambda: True) for _ in range(2))
    at_once.add(paths=paths, plans=plans)
    grown.add(paths=paths[:1], plans=plans[:1])
    first = grown.solve().value_ns
    assert first == pytest.approx(times_of(plans[:1], paths[:1]).item())
    grown.add(paths=paths[1:])
    raised = grown.solve().value_ns
    assert raised >= first - 1e-6
    grown.add(paths=paths[:0], plans=plans[1:])
    lowered = grown.solve().value_ns
    assert lowered <= raised + 1e-6
    assert lowered == pytest.approx(at_once.solve().value_ns)


def test_without_a_solution_mixtures_are_even_and_claim_nothing(monkeypatch):
    monkeypatch.setattr(LinearProgram, "solve", lambda self: None)
    game = Game(1, 1.0, lambda: True)
    game.add(paths=np.ones((4, 2)), plans=np.ones((2, 1)))
    mixture = game.solve()
    assert mixture.value_ns == 0
    assert mixture.plans.tolist() == [0.5, 0.5]
    assert mixture.paths.tolist() == [0.25] * 4
