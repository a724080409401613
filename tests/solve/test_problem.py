"""A request under an order as arrays: refusals, and plans that turn into counts and back."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from evenflow.errors import InputError
from evenflow.model import Request
from evenflow.schedule import make_schedule
from evenflow.solve.problem import problem_of_order
from evenflow.solve.start import even_start
from tests.solve.cases import cases
from tests.thoroughness import examples


@given(case=cases())
@settings(max_examples=examples(40))
def test_plans_turn_into_counts_and_back(case):
    problem = case.problem()
    counts = even_start(problem)
    plan = problem.plan(counts)
    assert (problem.counts(plan) == counts).all()
    assert plan.sizes == problem.request.sizes
    assert tuple(problem.rank_memory(problem.costs(counts)).tolist()) == problem.simulate(counts).peak_memory_bytes


@given(case=cases())
@settings(max_examples=examples(20))
def test_an_order_of_other_sizes_is_refused(case):
    request = case.request()
    more = replace(request.sizes, num_microbatches=request.sizes.num_microbatches + 1)
    with pytest.raises(InputError, match="sizes"):
        problem_of_order(replace(request, sizes=more), case.schedule)


@given(case=cases(any_order=False))
@settings(max_examples=examples(20))
def test_more_cells_than_layers_need_empty_cells(case):
    sizes = replace(case.sizes.sizes, num_ranks=case.network.num_layers + 1, num_chunks=1, sequence_splits=1)
    order = make_schedule("1f1b", num_ranks=sizes.num_ranks, num_chunks=1, num_microbatches=sizes.num_microbatches)
    request = Request(network=case.network, sizes=sizes, memory_limit_bytes=1, allow_empty=False)
    with pytest.raises(InputError, match="use fewer ranks or chunks"):
        problem_of_order(request, order)
    assert problem_of_order(replace(request, allow_empty=True), order).min_layers == 0


@given(case=cases())
@settings(max_examples=examples(10))
def test_without_memory_data_there_is_no_limit(case):
    bare = replace(case.network, has_memory=False)
    problem = problem_of_order(replace(case.request(5), network=bare), case.schedule)
    assert problem.memory_limit_bytes is None
    assert problem.limit > np.iinfo(np.int64).max // 8
