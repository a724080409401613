"""Messages whose size depends on the cut, against every plan."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow import plan_any_order, reproducible
from evenflow.model import Communication, LayerRun, Network
from evenflow.schedule import schedule_of
from evenflow.simulate import simulate
from evenflow.solve import Status, plan
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.search.annealing import Annealing
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network
from tests.solve.cases import NO_SHRINKING, SECONDS, cases
from tests.solve.exhaustive import Case, every_plan
from tests.solve.solved import assert_best
from tests.thoroughness import examples

SIZES = st.none() | st.sampled_from([0, 1, 100, 400, 5000])
"""Bytes, at one byte in a millisecond or a nanosecond."""


@st.composite
def sending(draw: st.DrawFn, *, time: int = 1, **settings_: object) -> Case:
    """Any case, with layers that say what they send on."""
    case = draw(cases(time=time, **settings_))
    layers = [replace(layer, boundary_bytes=draw(SIZES)) for layer in case.network.layers]
    network = replace(
        case.network,
        runs=tuple(LayerRun(layer=layer, count=1) for layer in layers),
        head=replace(case.network.head, boundary_bytes=draw(SIZES)),
    )
    return replace(case, network=network, bytes_per_s=10**9 // time)


@given(data=st.data())
@settings(max_examples=examples(30), phases=NO_SHRINKING)
def test_the_plan_is_the_best_of_all_and_the_bound_holds(data):
    case = data.draw(sending(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from([None, *plans.limits()]))
    assert_best(case, limit, plans.best_ns(limit))


@given(data=st.data(), seed=st.integers(0, 1000))
@settings(max_examples=examples(30), deadline=None)
def test_the_search_times_what_the_simulator_does(data, seed):
    case = data.draw(sending())
    plans = every_plan(case)
    problem = case.problem(data.draw(st.sampled_from(plans.limits())))
    search = Annealing(problem=problem, counts=least_memory(problem, seconds=30).counts.copy(), seed=seed)
    rounds = iter([False, False, True])
    search.run(stop=lambda: next(rounds))
    makespan, counts = search.incumbent
    assert makespan in plans.makespans_ns
    assert problem.simulate(counts).makespan_ns == makespan


@given(data=st.data())
@settings(max_examples=examples(15), phases=NO_SHRINKING)
def test_an_order_of_its_own_takes_what_it_says(data):
    case = data.draw(sending(time=MILLISECOND, any_order=False).filter(lambda drawn: drawn.sizes.num_ranks > 1))
    sizes, network = case.sizes, case.network.without_rules()
    with reproducible():
        outcome = plan_any_order(
            network, num_ranks=sizes.num_ranks, num_microbatches=sizes.num_microbatches, time_limit_s=0.3,
            communication=case.communication, allow_empty=case.allow_empty,
        )  # fmt: skip
    again = simulate(network, outcome.plan, schedule=schedule_of(outcome.plan), communication=case.communication)
    assert again.makespan_ns == outcome.makespan_ns
    assert outcome.lower_bound_ns <= outcome.makespan_ns


def with_boundaries(network: Network, *sizes: int) -> Network:
    layers = [replace(layer, boundary_bytes=size) for layer, size in zip(network.layers, sizes, strict=True)]
    return replace(network, runs=tuple(LayerRun(layer=layer, count=1) for layer in layers))


@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
def test_equal_sizes_are_what_one_size_for_all_is(schedule: str):
    network = plain_network(8)
    link = Communication(latency_ns=5, transfer_ns=300, bytes_per_s=10**9)
    sizes = {"num_ranks": 4, "num_microbatches": 8, "schedule": schedule, "time_limit_s": SECONDS}
    alike = plan(with_boundaries(network, *[700] * 8), **sizes, communication=link)
    plain = plan(network, **sizes, communication=Communication(latency_ns=5, transfer_ns=700))
    assert alike.status is plain.status is Status.OPTIMAL
    assert alike.makespan_ns == plain.makespan_ns
    assert alike.lower_bound_ns == plain.lower_bound_ns


def test_the_cut_goes_where_little_is_sent():
    network = with_boundaries(plain_network(6), 10**6, 10**6, 10**6, 1, 10**6, 10**6)
    link = Communication(bytes_per_s=10**3)
    outcome = plan(network, num_ranks=2, num_microbatches=4, communication=link, time_limit_s=2.0)
    assert outcome.plan.layers == ((4, 2),)


def test_what_no_layer_says_takes_the_time_of_all_others():
    network = with_boundaries(plain_network(3), 10, 20, 30)
    first = replace(network.runs[0], layer=replace(network.runs[0].layer, boundary_bytes=None))
    network = replace(network, runs=(first, *network.runs[1:]))
    link = Communication(latency_ns=1, transfer_ns=5, bytes_per_s=10**9)
    assert link.border_times_ns(network) == (6, 6, 21, 31)
    assert replace(link, bytes_per_s=None).border_times_ns(network) is None
    assert link.border_times_ns(plain_network(3)) is None


def test_a_part_of_a_sequence_sends_its_part():
    network = with_boundaries(plain_network(3), 10, 21, 30).split_sequence(2)
    assert network.boundaries == (None, 5, 11, 15)
