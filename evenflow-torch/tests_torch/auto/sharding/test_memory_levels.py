"""Shardings at several prices of memory, on programs of one node each."""

import numpy as np

from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.sharding.memory_levels import LevelsProblem, solve_levels
from evenflow_torch.auto.sharding.overlapped import OverlappedProgram, Window
from evenflow_torch.auto.sharding.pairwise import Pairwise
from evenflow_torch.auto.sharding.ways import Level
from tests.clocks import SetClock, standing

LATER = Deadline.after(10, now=standing)


def program(costs: list[float], memory: list[float]) -> OverlappedProgram:
    whole = Pairwise(costs=[np.array(costs)], memory=[np.array(memory)])
    return OverlappedProgram(whole=whole, windows=(Window(), Window()), num_microbatches=1)


def problem(*programs: OverlappedProgram) -> LevelsProblem:
    return LevelsProblem(programs=programs, links=(), order=tuple(range(len(programs))))


def test_a_higher_price_buys_less_memory_for_more_time() -> None:
    (levels,) = solve_levels(problem(program([10, 12, 30, 200], [100, 60, 30, 1])), LATER)
    assert len(levels) == len(Level)
    costs = [level.cost for level in levels]
    memory = [[100, 60, 30, 1][level.choices[0]] for level in levels]
    assert costs == sorted(costs)
    assert memory == sorted(memory, reverse=True)
    assert (costs[Level.FASTEST], memory[Level.SMALLEST]) == (10, 1)
    assert all(level.lower_bound == 10 for level in levels)


def test_the_price_of_a_byte_is_the_same_for_all_kinds() -> None:
    """The second kind saves memory that is nothing beside that of the first."""
    large, tiny = solve_levels(problem(program([100, 150], [1000, 0]), program([100, 150], [1, 0])), LATER)
    assert [level.choices for level in tiny[: Level.SMALL + 1]] == [(0,)] * 4
    assert large[Level.SMALL].choices == (1,)


def test_no_sharding_in_time() -> None:
    assert solve_levels(problem(program([np.inf], [0])), LATER) is None


def test_prices_that_there_is_no_time_for_have_the_shardings_of_the_price_before() -> None:
    """The clock goes on by a second with every look at it."""
    one = problem(program([10, 12, 30, 200], [100, 60, 30, 1]))
    (every,) = solve_levels(one, LATER)
    (few,) = solve_levels(one, Deadline.after(4, now=SetClock(step=1.0)))
    assert few[0].choices == every[0].choices
    assert few[-1].choices == few[1].choices != every[-1].choices
