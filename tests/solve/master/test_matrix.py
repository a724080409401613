"""Rows and columns of the master program, held against the plans that they stand for."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.schedule import Op
from evenflow.solve.columns.cell_options import CellOptions
from evenflow.solve.columns.rank_columns import all_options, cell_groups
from evenflow.solve.master.matrix import Matrix, RowLayout, durations_of
from evenflow.solve.problem import Problem
from tests.solve.cases import cases
from tests.solve.exhaustive import every_plan
from tests.thoroughness import examples

ANY_TIME_NS = 10**12


def dense(problem: Problem, *, by_cell: bool = True) -> tuple[RowLayout, list[np.ndarray], list[Matrix]]:
    """The columns of every cell as tables [rows, columns]."""
    options = all_options(problem, ANY_TIME_NS)
    assert options is not None
    layout = RowLayout.of(problem, by_cell=by_cell)
    num_rows = len(layout.bounds(problem)[0])
    matrices = [Matrix(problem, group, layout, 1.0) for group in cell_groups(options)]
    tables = []
    for each, matrix in zip(options, matrices, strict=True):
        packed = matrix.columns(np.arange(len(each)))
        table = np.zeros((num_rows, len(each)))
        for column in range(len(each)):
            own = slice(packed.starts[column], packed.starts[column + 1])
            table[packed.indices[own], column] = packed.entries[own]
        tables.append(table)
    return layout, tables, matrices


@given(data=st.data())
@settings(max_examples=examples(40))
def test_prices_are_products_with_the_columns(data):
    problem = data.draw(cases()).problem(10**6)
    layout, tables, matrices = dense(problem)
    duals = np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal(len(layout.bounds(problem)[0]))
    for table, matrix in zip(tables, matrices, strict=True):
        assert np.allclose(matrix.price(duals), duals @ table)
        keep = np.arange(table.shape[1]) % 2 == 0
        matrix.select(keep)
        assert np.allclose(matrix.price(duals), duals @ table[:, keep])


def contents_of(options: CellOptions, run_ends: np.ndarray, start: int, end: int) -> np.ndarray:
    """The options that stand for the layers [start, end)."""
    first = min(int(np.searchsorted(run_ends, start, side="right")), len(run_ends) - 1)
    last = max(first, int(np.searchsorted(run_ends, end)))
    same = (options.layers == end - start) & (options.first_run == first) & (options.last_run == last)
    return np.flatnonzero(same & ((last == first) | (options.in_first == run_ends[first] - start)))


@given(data=st.data())
@settings(max_examples=examples(40))
def test_rows_of_a_plan_hold_where_it_fits(data):
    case = data.draw(cases())
    problem = case.problem(data.draw(st.sampled_from(every_plan(case).limits())))
    layout, tables, _ = dense(problem)
    options = all_options(problem, ANY_TIME_NS)
    assert options is not None
    run_ends = np.cumsum(layout.run_sizes)
    chosen = []
    for each, (start, end) in zip(options, pairwise(data.draw(st.sampled_from(case.cuts()))), strict=True):
        chosen.append(data.draw(st.sampled_from(contents_of(each, run_ends, start, end).tolist())))
    counts = np.stack([each.counts[at] for each, at in zip(options, chosen, strict=True)])
    total = np.sum([table[:, at] for table, at in zip(tables, chosen, strict=True)], axis=0)
    costs = problem.costs(counts)
    assert total[: layout.conserve].tolist() == costs.durations[layout.duration_classes].tolist()
    lower, upper = layout.bounds(problem)
    holds = (total >= lower) & (total <= upper)
    assert holds[layout.conserve : layout.memory].all()
    assert holds[layout.memory :].all() == (problem.rank_memory(costs) <= problem.limit).all()


@given(data=st.data())
@settings(max_examples=examples(40))
def test_rows_of_order_fail_where_a_cell_begins_in_an_earlier_run_than_the_one_before_it_ends_in(data):
    problem = data.draw(cases()).problem()
    layout, tables, _ = dense(problem)
    options = all_options(problem, ANY_TIME_NS)
    assert options is not None
    chosen = [data.draw(st.integers(0, len(each) - 1)) for each in options]
    total = np.sum([table[:, at] for table, at in zip(tables, chosen, strict=True)], axis=0)
    places = [(each.first_run[at], each.last_run[at]) for each, at in zip(options, chosen, strict=True)]
    in_order = all(before[1] <= after[0] for before, after in pairwise(places))
    assert (total[layout.order : layout.memory] <= 0).all() == in_order


@given(case=cases())
@settings(max_examples=examples(30))
def test_memory_has_rows_only_where_cells_are_chosen_one_by_one(case):
    problem = case.problem(1000)
    by_cell, by_rank = (RowLayout.of(problem, by_cell=answer) for answer in (True, False))
    num_live = sum(len(vectors) for vectors in problem.live) * problem.num_working_rows
    assert len(by_cell.bounds(problem)[0]) == len(by_rank.bounds(problem)[0]) + num_live
    assert by_rank.memory == len(by_rank.bounds(problem)[0])


@given(case=cases())
@settings(max_examples=examples(20))
def test_split_backwards_add_up_to_whole_ones(case):
    options = all_options(case.problem(), ANY_TIME_NS)
    assert options is not None
    for each in options:
        assert (durations_of(each, Op.I) + durations_of(each, Op.W) == durations_of(each, Op.B)).all()
