"""The first plan: an even cut, all of it recomputed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import FULL, NONE, Layer, LayerRun, Mode, Network, Request, Sizes
from evenflow.solve.problem import make_problem
from evenflow.solve.start import even_bounds, even_start, recomputing_less
from evenflow.units import MEGABYTE
from tests.networks import equal_network, plain_network
from tests.solve.cases import cases
from tests.solve.recomputation import layers_that_could_recompute_less
from tests.thoroughness import examples


@given(case=cases())
@settings(max_examples=examples(60))
def test_an_even_start_is_a_plan(case):
    problem = case.problem()
    counts = even_start(problem)
    assert (counts >= 0).all()
    assert counts.sum() == problem.num_layers
    assert (counts.sum(axis=1) >= problem.min_layers).all()
    assert ((counts > 0).sum(axis=1) <= 1).all()


@given(case=cases())
@settings(max_examples=examples(40))
def test_no_other_kind_keeps_less_in_any_cell(case):
    problem = case.problem()
    counts = even_start(problem)
    activation = problem.costs(counts).activation_bytes
    for kind in range(len(problem.kinds)):
        other = np.zeros_like(counts)
        other[:, kind] = counts.sum(axis=1)
        assert (problem.costs(other).activation_bytes >= activation).all()


@given(case=cases(), kilobytes=st.integers(0, 3000))
@settings(max_examples=examples(60))
def test_recomputing_less_keeps_the_layers_and_the_limit_and_takes_no_longer(case, kilobytes):
    unlimited = case.problem()
    start = even_start(unlimited)
    limit = int(unlimited.rank_memory(unlimited.costs(start)).max()) + 1000 * kilobytes
    problem = case.problem(limit)
    before = problem.costs(start)
    lighter = recomputing_less(problem, start)
    after = problem.costs(lighter)
    assert (lighter.sum(axis=1) == start.sum(axis=1)).all()
    assert (lighter >= 0).all()
    assert (problem.rank_memory(after) <= problem.limits).all()
    assert (after.backward_ns <= before.backward_ns).all()
    assert all(problem.may_hold(content) for content in lighter) or not all(map(problem.may_hold, start))
    assert layers_that_could_recompute_less(problem, problem.plan(lighter)) == []


def test_recomputing_less_uses_the_memory_that_is_there():
    sizes = Sizes(num_ranks=2, num_chunks=1, num_microbatches=4)
    request = Request(network=plain_network(8), sizes=sizes, memory_limit_bytes=10_000 * MEGABYTE)
    problem = make_problem(request, schedule="1f1b")
    start = even_start(problem)
    assert start[:, problem.kinds.index(FULL)].tolist() == [4, 4]
    assert recomputing_less(problem, start)[:, problem.kinds.index(NONE)].tolist() == [4, 4]


def test_what_a_later_chunk_of_a_rank_frees_is_used_by_an_earlier_one():
    modes = {
        NONE: Mode(activation_bytes=0, backward_ns=10, working_bytes=16),
        FULL: Mode(activation_bytes=1, backward_ns=15, working_bytes=0),
    }
    layer = Layer(name="layer", forward_ns=5, parameter_bytes=0, modes=modes)
    network = Network(name="freeing", runs=(LayerRun(layer=layer, count=7),))
    sizes = Sizes(num_ranks=1, num_chunks=2, num_microbatches=1)
    problem = make_problem(Request(network=network, sizes=sizes, memory_limit_bytes=21), schedule="interleaved")
    full, none = problem.kinds.index(FULL), problem.kinds.index(NONE)
    counts = np.zeros((2, 2), dtype=np.int64)
    counts[:, full] = [1, 6]
    assert recomputing_less(problem, counts)[:, none].tolist() == [1, 6]


def test_equal_layers_are_cut_evenly():
    problem = make_problem(
        Request(network=equal_network(8), sizes=Sizes(num_ranks=4, num_chunks=1, num_microbatches=2)), schedule="1f1b"
    )
    assert even_bounds(problem).tolist() == [0, 2, 4, 6, 8]


def test_given_layers_are_kept():
    sizes = Sizes(num_ranks=2, num_chunks=2, num_microbatches=2)
    request = Request(network=plain_network(8), sizes=sizes, layers=((1, 3), (3, 1)))
    counts = even_start(make_problem(request, schedule="interleaved"))
    assert counts.sum(axis=1).tolist() == [1, 3, 3, 1]
