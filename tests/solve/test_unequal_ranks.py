"""Ranks of unequal speed and memory, against every plan."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from evenflow import plan_any_order
from evenflow.errors import InputError
from evenflow.model import RankTraits
from evenflow.simulate import simulate
from evenflow.solve import plan
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.search.annealing import Annealing
from evenflow.solve.search.dealing import dealt
from evenflow.solve.start import even_start
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network
from tests.solve.cases import NO_SHRINKING, cases
from tests.solve.exhaustive import Case, every_plan
from tests.solve.solved import planned_as_the_best
from tests.thoroughness import examples

SPEEDS = st.sampled_from([1.0, 1.0, 0.9, 0.5, 1 / 3])


@st.composite
def unequal(draw: st.DrawFn, *, memory: int = 1, **settings_: object) -> Case:
    """Any case, on ranks that differ."""
    case = draw(cases(memory=memory, **settings_))
    amounts = st.sampled_from([0, 0, 100, 700]).map(lambda value: value * memory)
    ranks = draw(
        st.lists(
            st.builds(RankTraits, speed=SPEEDS, reserved_bytes=amounts),
            min_size=case.sizes.num_ranks,
            max_size=case.sizes.num_ranks,
        )
    )
    return replace(case, network=replace(case.network, ranks=tuple(ranks)))


@given(data=st.data())
@settings(max_examples=examples(30), phases=NO_SHRINKING)
def test_the_plan_is_the_best_of_all(data):
    case = data.draw(unequal(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    event(f"speeds: {len(case.network.speeds)}")
    planned_as_the_best(data, case)


@given(data=st.data(), seed=st.integers(0, 1000))
@settings(max_examples=examples(30), deadline=None)
def test_every_part_of_the_search_knows_the_ranks(data, seed):
    case = data.draw(unequal())
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    problem = case.problem(limit)
    least = least_memory(problem, seconds=30)
    assert least.peak_bytes == plans.least_bytes
    first = dealt(problem)
    assert first is None or (problem.rank_memory(problem.costs(first)) <= limit).all()
    assert even_start(problem).sum() == case.network.num_layers
    search = Annealing(problem=problem, counts=least.counts.copy(), seed=seed)
    rounds = iter([False, False, True])
    search.run(stop=lambda: next(rounds))
    makespan, counts = search.incumbent
    assert makespan in plans.makespans_ns
    assert problem.simulate(counts).makespan_ns == makespan


def test_a_slow_rank_gets_fewer_layers():
    network = plain_network(num_layers=16)
    slow = replace(network, ranks=tuple(RankTraits(speed=speed) for speed in (1.0, 1.0, 0.5, 1.0)))
    layers = plan(slow, num_ranks=4, num_microbatches=32).plan.layers[0]
    assert layers[2] == min(layers)
    assert layers[2] < 4


def test_equal_ranks_are_no_ranks_at_all():
    network = plain_network(num_layers=9)
    same = replace(network, ranks=(RankTraits(),) * 3)
    first, second = (plan(each, num_ranks=3, num_microbatches=5) for each in (network, same))
    assert first.makespan_ns == second.makespan_ns
    assert first.lower_bound_ns == second.lower_bound_ns


@given(case=cases(), data=st.data())
@settings(max_examples=examples(40))
def test_slower_ranks_never_shorten_a_step(case, data):
    counts = even_start(case.problem())
    speeds = [data.draw(SPEEDS) for _ in range(case.sizes.num_ranks)]
    slower = [speed * data.draw(SPEEDS) for speed in speeds]
    steps = []
    for each in (speeds, slower):
        network = replace(case.network, ranks=tuple(RankTraits(speed=speed) for speed in each))
        problem = replace(case, network=network).problem()
        steps.append(problem.simulate(counts).makespan_ns)
    assert steps[0] <= steps[1]


def test_a_searched_order_knows_the_ranks():
    network = replace(plain_network(num_layers=8), ranks=(RankTraits(speed=0.5), RankTraits()))
    outcome = plan_any_order(network, num_ranks=2, num_microbatches=6, time_limit_s=3.0)
    assert simulate(network, outcome.plan).makespan_ns == outcome.makespan_ns
    assert np.sum(outcome.plan.layers[0]) == 8


def test_as_many_ranks_as_the_pipeline_has():
    network = replace(plain_network(num_layers=8), ranks=(RankTraits(),) * 3)
    with pytest.raises(InputError, match="must be as many as there are ranks, 2"):
        plan(network, num_ranks=2, num_microbatches=6)
