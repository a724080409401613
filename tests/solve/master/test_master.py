"""The program of the proof: its value bounds every plan, and is exact where nothing is left to choose."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.solve.columns.rank_columns import ColumnGroup, all_options, cell_groups, rank_groups
from evenflow.solve.master.critical_paths import CriticalPaths
from evenflow.solve.master.master import Master
from evenflow.solve.problem import Problem
from evenflow.solve.start import even_start
from tests.solve.cases import cases
from tests.solve.exhaustive import every_plan
from tests.thoroughness import examples

NOISE = 1e-6


def groups_of(problem: Problem, target_ns: int, *, by_cell: bool) -> list[ColumnGroup]:
    options = all_options(problem, target_ns)
    assert options is not None, "a plan reaches the target"
    groups = cell_groups(options) if by_cell else rank_groups(problem, options, target_ns)
    assert groups is not None
    return groups


def master_of(problem: Problem, target_ns: int, *, by_cell: bool) -> Master:
    paths = CriticalPaths(problem.graph, problem.shortest_messages)
    paths.add_longest(problem.costs(even_start(problem)).durations, above_ns=0)
    groups = groups_of(problem, target_ns, by_cell=by_cell)
    return Master(problem, groups, paths, scale_ns=target_ns, by_cell=by_cell, keep_going=lambda: True)


@given(data=st.data(), by_cell=st.booleans())
@settings(max_examples=examples(25))
def test_no_plan_is_shorter_than_the_bound(data, by_cell):
    case = data.draw(cases())
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    best_ns = plans.best_ns(limit)
    problem = case.problem(limit)
    master = master_of(problem, best_ns, by_cell=by_cell)
    first = master.solve()
    assert 0 <= first <= best_ns * (1 + NOISE)  # 0: no layer need be on the paths
    # With the paths that these durations lack the bound can only rise.
    master.paths.add_longest(master.durations_ns, above_ns=0)
    master.rebuild()
    second = master.solve()
    assert first * (1 - NOISE) <= second <= best_ns * (1 + NOISE)
    # What a column would lift above the best plan is in no better plan.
    master.drop_by_reduced_cost(best_ns)
    assert all(alive.any() for alive in master.alive)
    master.compress()
    assert second * (1 - NOISE) <= master.solve() <= best_ns * (1 + NOISE)
    # Whole choices over these paths are no longer either.
    program, _ = master.program(best_ns * (1 + NOISE))
    solution = program.solve(time_limit_s=20)
    assert solution.status == "optimal"
    assert solution.objective / master.factor <= best_ns * (1 + NOISE)


@given(data=st.data())
@settings(max_examples=examples(30))
def test_with_one_column_a_group_the_bound_is_the_makespan(data):
    problem = data.draw(cases()).problem()
    master = master_of(problem, 10**9, by_cell=False)
    at = [data.draw(st.integers(0, len(group) - 1)) for group in master.groups]
    counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
    for group, column in zip(master.groups, at, strict=True):
        counts[list(group.cells)] = group.counts(column)
    assume(counts.sum() == problem.num_layers)
    durations = problem.costs(counts).durations
    master.paths.add_longest(durations, above_ns=0)
    master.rebuild()
    allowed = {
        index: np.arange(len(group)) == column
        for index, (group, column) in enumerate(zip(master.groups, at, strict=True))
    }
    makespan = master.paths.makespan(durations)
    bound = master.solve(allowed)
    # The columns of cells that are not in the order of the runs are no plan, and cost the penalty.
    assert bound == pytest.approx(makespan, rel=NOISE) or bound > 2 * makespan


@given(case=cases())
@settings(max_examples=examples(15))
def test_a_group_without_columns_has_no_plan(case):
    master = master_of(case.problem(), 10**9, by_cell=True)
    nothing = np.zeros(len(master.groups[0]), dtype=bool)
    before = master.solve()
    assert master.solve({0: nothing}) == float("inf")
    assert master.solve() == pytest.approx(before), "what was not allowed for one solve is back"
    assert master.drop(0, ~nothing) == len(nothing)
    assert master.drop(0, ~nothing) == 0
    assert master.solve() == float("inf")


@given(case=cases())
@settings(max_examples=examples(15))
def test_chains_that_supported_no_value_can_go(case):
    master = master_of(case.problem(), 10**9, by_cell=True)
    before, chains = master.solve(), master.num_chains
    master.purge()
    master.rebuild()
    assert master.num_chains <= chains
    assert master.solve() == pytest.approx(before, rel=NOISE)
