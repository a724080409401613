"""Shardings at several prices of memory, on programs of one node each."""

import numpy as np
import pytest

from evenflow.auto.sharding.memory_levels import LevelsProblem, solve_levels
from evenflow.auto.sharding.pairwise import Pairwise
from evenflow.auto.sharding.ways import Level
from evenflow.errors import InputError


def program(costs: list[float], memory: list[float]) -> Pairwise:
    return Pairwise(costs=[np.array(costs)], memory=[np.array(memory)])


def problem(*programs: Pairwise) -> LevelsProblem:
    return LevelsProblem(programs=programs, links=(), order=tuple(range(len(programs))))


def test_a_higher_price_buys_less_memory_for_more_time() -> None:
    (levels,) = solve_levels(problem(program([10, 12, 30, 200], [100, 60, 30, 1])), 10)
    assert len(levels) == len(Level)
    costs = [level.cost for level in levels]
    memory = [[100, 60, 30, 1][level.choices[0]] for level in levels]
    assert costs == sorted(costs)
    assert memory == sorted(memory, reverse=True)
    assert (costs[Level.FASTEST], memory[Level.SMALLEST]) == (10, 1)
    assert all(level.lower_bound == 10 for level in levels)


def test_the_price_of_a_byte_is_the_same_for_all_kinds() -> None:
    """The second kind saves memory that is nothing beside that of the first."""
    large, tiny = solve_levels(problem(program([100, 150], [1000, 0]), program([100, 150], [1, 0])), 10)
    assert [level.choices for level in tiny[: Level.SMALL + 1]] == [(0,)] * 4
    assert large[Level.SMALL].choices == (1,)


def test_no_sharding_in_time_is_refused() -> None:
    with pytest.raises(InputError, match="time_limit_s must be long enough"):
        solve_levels(problem(program([np.inf], [0])), 1)
