"""Ranks of unequal speed and memory, against every plan."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from evenflow import plan_any_order, search_order
from evenflow.errors import InputError
from evenflow.model import Layer, LayerRun, Mode, Network, Plan, RankTraits
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
def unequal(draw: st.DrawFn, *, memory: int = 1, time: int = 1, **settings_: object) -> Case:
    """Any case, on ranks and links that differ."""
    case = draw(cases(memory=memory, time=time, **settings_))
    amounts = st.sampled_from([0, 0, 100, 700]).map(lambda value: value * memory)
    delays = st.sampled_from([0, 0, 3, 40]).map(lambda value: value * time)
    ranks = draw(
        st.lists(
            st.builds(RankTraits, speed=SPEEDS, reserved_bytes=amounts, link_ns=delays),
            min_size=case.sizes.num_ranks,
            max_size=case.sizes.num_ranks,
        )
    )
    return replace(case, network=replace(case.network, ranks=tuple(ranks)))


@given(data=st.data())
@settings(max_examples=examples(30), phases=NO_SHRINKING)
def test_the_plan_is_the_best_of_all(data):
    case = data.draw(unequal(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    event(f"speeds: {len(case.network.speeds)}, links: {len({rank.link_ns for rank in case.network.ranks})}")
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


def test_stages_beside_a_slow_link_get_fewer_layers():
    """Between its forward and its backward of a microbatch the link takes its time twice."""
    network = plain_network(num_layers=16)
    slow = replace(network, ranks=tuple(RankTraits(link_ns=delay * MILLISECOND) for delay in (0, 60, 0, 0)))
    outcome = plan(slow, num_ranks=4, num_microbatches=32)
    layers = outcome.plan.layers[0]
    assert min(layers[1:3]) < 4 <= max(layers[0], layers[3])
    alike = plan(network, num_ranks=4, num_microbatches=32)
    assert outcome.makespan_ns > alike.makespan_ns
    assert simulate(slow, alike.plan).makespan_ns > outcome.makespan_ns


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


def test_orders_for_a_slow_link_are_as_short_as_the_published_ones():
    """PipeMorph (NSDI 26), 12 microbatches: times of forward, gradient and weight gradient by stage, in ms."""
    times = [(28, 34, 16), (36, 45, 23), (36, 46, 23), (33, 38, 20)]
    layers = [
        Layer(
            name="layer",
            forward_ns=forward,
            parameter_bytes=1,
            modes={"none": Mode(activation_bytes=1, backward_ns=gradient + weight)},
            stated_weight_ns=weight,
        )
        for forward, gradient, weight in times
    ]
    network = Network(
        name="links",
        runs=tuple(LayerRun(layer=layer, count=1) for layer in layers),
        ranks=(RankTraits(link_ns=60), *(RankTraits(),) * 3),
    )
    plan_of_one = Plan(schedule="1f1b", num_microbatches=12, layers=((1, 1, 1, 1),))
    assert simulate(network, plan_of_one).makespan_ns == 2007
    found = search_order(plan_of_one, network, memory_limit_bytes=None, split_backward=True, time_limit_s=20)
    assert found.makespan_ns == found.lower_bound_ns == 1384
