"""Programs whose answers are known by hand."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.solve.backends.highs import Program
from tests.thoroughness import examples


@pytest.mark.processes
def test_the_library_says_nothing():
    first_solves = """
from evenflow.solve.backends.highs import Program
from evenflow.solve.backends.incremental import LinearProgram
LinearProgram().solve()
program = Program()
program.column(cost=1.0, integer=True)
program.solve(time_limit_s=10)
"""  # it speaks once a process, past Python's standard output
    result = subprocess.run([sys.executable, "-c", first_solves], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_linear_program():
    program = Program()
    x, y = program.column(cost=-3.0), program.column(cost=-5.0)
    program.row([x], [1.0], upper=4.0)
    program.row([y], [2.0], upper=12.0)
    program.row([x, y], [3.0, 2.0], upper=18.0)
    solution = program.solve(time_limit_s=10)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(-36)  # x 2, y 6: Hillier and Lieberman's Wyndor Glass
    assert solution.bound == pytest.approx(-36)
    assert solution.values == pytest.approx([2, 6])


def test_whole_columns_cost_more_than_their_relaxation():
    def rucksack(*, integer: bool) -> Program:
        program = Program()
        items = program.columns(3, upper=1.0, integer=integer)
        value = program.column(cost=-1.0, upper=100.0)
        program.row([value, *items], [1.0, -10.0, -6.0, -6.0], upper=0.0)
        program.row(np.array(items), np.array([5.0, 4.0, 4.0]), upper=8.0)
        assert program.num_columns == 4
        return program

    assert rucksack(integer=False).solve(time_limit_s=10).objective == pytest.approx(-14.5)  # 5 of 5, 3 of 4
    whole = rucksack(integer=True).solve(time_limit_s=10)
    assert whole.status == "optimal"
    assert whole.objective == pytest.approx(-12)  # the two small ones; the large one leaves room for none
    assert whole.bound == pytest.approx(-12)


@pytest.mark.parametrize("integer", [False, True])
def test_nothing_satisfies_the_rows(integer):
    program = Program()
    x = program.column(cost=1.0, upper=1.0, integer=integer)
    program.row([x], [1.0], lower=2.0)
    solution = program.solve(time_limit_s=10)
    assert solution.status == "infeasible"
    assert solution.values is None


def test_whole_numbers_alone_can_make_it_infeasible():
    program = Program()
    x = program.column(cost=1.0, upper=10.0, integer=True)
    program.row([x], [2.0], lower=5.0, upper=5.0)
    assert program.solve(time_limit_s=10).status == "infeasible"


def test_lower_bounds_and_equal_rows():
    program = Program()
    x, y = program.column(cost=2.0, lower=-3.0), program.column(cost=1.0, lower=1.0)
    program.row([x, y], [1.0, 1.0], lower=0.0, upper=0.0)
    solution = program.solve(time_limit_s=10)
    assert solution.values == pytest.approx([-3, 3])
    assert solution.objective == pytest.approx(-3)


@given(
    costs=st.lists(st.integers(-9, 9), min_size=3, max_size=3),
    rows=st.lists(st.tuples(st.lists(st.integers(-5, 5), min_size=3, max_size=3), st.integers(-3, 12)), max_size=3),
)
@settings(max_examples=examples(50))
def test_small_integer_programs_equal_trying_all_points(costs, rows):
    program = Program()
    columns = [program.column(cost=float(cost), upper=3.0, integer=True) for cost in costs]
    for entries, upper in rows:
        program.row(columns, [float(entry) for entry in entries], upper=float(upper))
    points = [
        point
        for point in itertools.product(range(4), repeat=3)
        if all(np.dot(entries, point) <= upper for entries, upper in rows)
    ]
    solution = program.solve(time_limit_s=10)
    if not points:
        assert solution.status == "infeasible"
        return
    best = min(int(np.dot(costs, point)) for point in points)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best)
    assert solution.bound <= best + 1e-6
