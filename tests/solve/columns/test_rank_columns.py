"""Columns of ranks: what they cost, that they fit, and that the best plan is among them."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.solve.bounds import ramp_bound_ns
from evenflow.solve.columns import rank_columns
from evenflow.solve.columns.rank_columns import all_options, cell_groups, rank_groups
from tests.solve.cases import cases
from tests.solve.exhaustive import every_plan
from tests.thoroughness import examples

ANY_TIME_NS = 10**9


@given(data=st.data())
@settings(max_examples=examples(40))
def test_the_best_plan_is_made_of_columns_and_nothing_is_shorter_than_the_load(data):
    case = data.draw(cases())
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    best_ns = plans.best_ns(limit)
    problem = case.problem(limit)
    assert ramp_bound_ns(problem) <= best_ns
    options = all_options(problem, best_ns)
    assert options is not None
    groups = rank_groups(problem, options, best_ns)
    assert groups is not None
    for rank, group in enumerate(groups):
        assert len(group) > 0
        assert group.cells == tuple(problem.schedule.stage_table[:, rank].tolist())
        for column in range(0, len(group), max(1, len(group) // 5)):
            counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
            counts[list(group.cells)] = group.counts(column)
            assert counts.sum() == group.keys[0][column] <= problem.num_layers
    layers = [group.keys[0] for group in groups]
    assert sum(own.min() for own in layers) <= problem.num_layers <= sum(own.max() for own in layers)


@given(case=cases())
@settings(max_examples=examples(20))
def test_a_nanosecond_is_too_short_for_any_cell(case):
    assume(not case.allow_empty)
    assert all_options(case.problem(), 1) is None


@given(case=cases())
@settings(max_examples=examples(20))
def test_groups_of_cells_have_all_options_in_order(case):
    options = all_options(case.problem(), ANY_TIME_NS)
    assert options is not None
    for cell, (group, own) in enumerate(zip(cell_groups(options), options, strict=True)):
        assert group.cells == (cell,)
        assert len(group) == len(own)
        kept = group.select(np.arange(len(group)) % 2 == 1)
        assert [kept.counts(at).tolist() for at in range(len(kept))] == [[row.tolist()] for row in own.counts[1::2]]


@given(case=cases())
@settings(max_examples=examples(10))
def test_too_many_columns_are_none(case):
    problem = case.problem()
    options = all_options(problem, ANY_TIME_NS)
    assert options is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_columns, "MAX_COLUMNS", 0)
        assert rank_groups(problem, options, ANY_TIME_NS) is None
        patch.undo()
        patch.setattr(rank_columns, "MAX_STEPS", 0)
        assert rank_groups(problem, options, ANY_TIME_NS) is None
