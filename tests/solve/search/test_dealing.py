"""First plans: they fit, keep every rule, are the same each time, and are seldom far from the best."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import FULL, NONE, EndBlock, Layer, LayerRun, Mode, Network, Request, Sizes
from evenflow.solve.problem import make_problem
from evenflow.solve.search.dealing import dealt, first_plan
from tests.solve.cases import cases
from tests.solve.exhaustive import every_plan
from tests.thoroughness import examples


@given(data=st.data())
@settings(max_examples=examples(60))
def test_a_first_plan_fits_and_keeps_every_rule(data):
    case = data.draw(cases(memory=2**20 + 7))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    problem = case.problem(limit)
    counts = first_plan(problem)
    if counts is None:
        return
    assert (problem.rank_memory(problem.costs(counts)) <= limit).all()
    assert (counts.sum(axis=1) >= problem.min_layers).all()
    assert all(problem.may_hold(content) for content in counts)
    assert problem.simulate(counts).makespan_ns in plans.makespans_ns
    again = first_plan(problem)
    assert again is not None
    assert (again == counts).all()


def network(layers: int) -> Network:
    modes = {
        NONE: Mode(activation_bytes=100, backward_ns=200),
        FULL: Mode(activation_bytes=10, backward_ns=300),
    }
    layer = Layer(name="layer", forward_ns=100, parameter_bytes=1000, modes=modes)
    tail = EndBlock(name="output", forward_ns=150, backward_ns=300, parameter_bytes=500)
    return Network(name="equal", runs=(LayerRun(layer=layer, count=layers),), tail=tail)


def test_the_rank_with_the_output_layer_gets_fewer_layers():
    problem = make_problem(
        Request(network=network(22), sizes=Sizes(num_ranks=4, num_chunks=1, num_microbatches=32)), schedule="1f1b"
    )
    counts = dealt(problem)
    assert counts is not None
    # 22 layers and an output layer that takes as long as 1.5 of them: at least 6 layers' time on some rank.
    loads = counts.sum(axis=1) + np.array([0, 0, 0, 1.5])
    assert loads.max() == 6


def test_a_rank_recomputes_no_more_layers_than_its_memory_forbids():
    limit = 8_000
    problem = make_problem(
        Request(
            network=network(24),
            sizes=Sizes(num_ranks=4, num_chunks=1, num_microbatches=32),
            memory_limit_bytes=limit,
        ),
        schedule="1f1b",
    )
    counts = dealt(problem)
    assert counts is not None
    full = problem.kinds.index(FULL)
    for cell in range(4):
        if counts[cell, full]:
            fewer = counts.copy()
            fewer[cell, full] -= 1
            fewer[cell, -1] += 1
            assert problem.rank_peak(problem.costs(fewer), cell) > limit
    assert counts[0, full] > counts[3, full]
