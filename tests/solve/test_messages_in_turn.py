"""Ranks that send one message at a time, against every plan timed action by action."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow import plan_any_order, reproducible
from evenflow.model import Communication, LayerRun
from evenflow.schedule import Op, make_schedule, schedule_of
from evenflow.simulate import build_graph, makespan_ns, run, simulate
from evenflow.solve import Status, plan
from evenflow.solve.bounds import link_bound_ns
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.search.annealing import Annealing
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network
from tests.solve.cases import NO_SHRINKING, SECONDS, TOLERANCE, cases
from tests.solve.exhaustive import Case, every_plan
from tests.thoroughness import examples

SIZES = st.none() | st.sampled_from([0, 100, 400, 5000])
"""Bytes, at one byte in a millisecond or a nanosecond."""


@st.composite
def in_turn(draw: st.DrawFn, *, time: int = 1, **settings_: object) -> Case:
    """Any case whose messages keep the sender's link busy; some layers say what they send on."""
    case = draw(cases(time=time, **settings_))
    case = replace(case, transfer_ns=draw(st.sampled_from([1, 200, 900])) * time, one_at_a_time=True)
    if draw(st.booleans()):
        return case
    layers = [replace(layer, boundary_bytes=draw(SIZES)) for layer in case.network.layers]
    network = replace(case.network, runs=tuple(LayerRun(layer=layer, count=1) for layer in layers))
    return replace(case, network=network, bytes_per_s=10**9 // time)


@given(data=st.data())
@settings(max_examples=examples(60))
def test_simulation_is_that_of_every_message_by_itself(data):
    case = data.draw(in_turn())
    plans = every_plan(case)
    problem = case.problem(None)
    counts = least_memory(problem, seconds=30).counts
    assert counts is not None
    simulation = problem.simulate(counts)
    assert simulation.makespan_ns in plans.makespans_ns
    assert problem.makespan_ns(simulation.costs) == simulation.makespan_ns
    free = replace(case, one_at_a_time=False).problem(None).simulate(counts)
    assert free.makespan_ns <= simulation.makespan_ns
    assert every_plan(replace(case, one_at_a_time=False)).best_ns(None) <= plans.best_ns(None)
    if case.communication and simulation.timeline.message_ns is not None:
        assert free.timeline.message_ns is not None
        assert (simulation.timeline.message_ns >= free.timeline.message_ns).all()


@given(data=st.data())
@settings(max_examples=examples(30), phases=NO_SHRINKING)
def test_the_plan_is_the_best_of_all_where_it_says_so_and_the_bound_holds(data):
    case = data.draw(in_turn(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from([None, *plans.limits()]))
    best = plans.best_ns(limit)
    with reproducible():
        outcome = plan(case.network, **case.arguments, memory_limit_bytes=limit, time_limit_s=3.0)
    assert best is not None
    assert link_bound_ns(case.problem(limit)) <= best
    assert outcome.makespan_ns in plans.makespans_ns
    assert outcome.lower_bound_ns <= best * (1 + TOLERANCE)
    more = 2 * TOLERANCE if outcome.status is Status.OPTIMAL else 0.05
    assert outcome.makespan_ns <= best * (1 + more), "the search times every plan as it is"


@given(data=st.data(), seed=st.integers(0, 1000))
@settings(max_examples=examples(30), deadline=None)
def test_the_search_times_what_the_simulator_does(data, seed):
    case = data.draw(in_turn())
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
    case = data.draw(in_turn(time=MILLISECOND, any_order=False).filter(lambda drawn: drawn.sizes.num_ranks > 1))
    sizes, network = case.sizes, case.network.without_rules()
    with reproducible():
        outcome = plan_any_order(
            network, num_ranks=sizes.num_ranks, num_microbatches=sizes.num_microbatches, time_limit_s=0.3,
            communication=case.communication, allow_empty=case.allow_empty,
        )  # fmt: skip
    again = simulate(network, outcome.plan, schedule=schedule_of(outcome.plan), communication=case.communication)
    assert again.makespan_ns == outcome.makespan_ns
    assert outcome.lower_bound_ns <= outcome.makespan_ns


def test_a_link_that_is_never_busy_changes_nothing():
    network = plain_network(8)
    link = Communication(latency_ns=500, transfer_ns=1)
    sizes = {"num_ranks": 4, "num_microbatches": 8, "time_limit_s": SECONDS}
    free = plan(network, **sizes, communication=link)
    in_turns = plan(network, **sizes, communication=replace(link, one_at_a_time=True))
    assert in_turns.makespan_ns == free.makespan_ns
    assert in_turns.status is free.status is Status.OPTIMAL


def test_what_waits_for_its_turn():
    """Rank 0 ends its forwards after 10, 20 and 30 and sends each for 25: from 10 to 35, to 60 and to 85."""
    schedule = make_schedule("f-then-b", num_ranks=2, num_chunks=1, num_microbatches=3)
    durations = np.tile(np.array([10, 20, 0, 0], dtype=np.int64), 2)
    link = Communication(latency_ns=1, transfer_ns=25, one_at_a_time=True)
    graph = build_graph(schedule)
    timeline = run(graph, durations, link)
    is_forward = (schedule.ranks == 1) & (schedule.ops == Op.F)
    assert timeline.start_ns[is_forward].tolist() == [36, 61, 86]
    assert timeline.message_ns is not None
    assert timeline.message_ns[is_forward].tolist() == [26, 41, 56]
    # Backwards of rank 1 end after 116, 136 and 156; the last message arrives 76 behind the first one's end.
    assert timeline.makespan_ns == 116 + 3 * 25 + 1 + 20
    assert makespan_ns(graph, durations, link) == timeline.makespan_ns
    assert makespan_ns(graph, durations, replace(link, one_at_a_time=False)) == 46 + 10 + 10 + 3 * 20 + 26 + 20


@pytest.mark.parametrize("schedule", ["interleaved", "zbv"])
def test_several_chunks_wait_longer(schedule: str):
    network = plain_network(16)
    link = Communication(transfer_ns=2 * MILLISECOND)
    sizes = {"num_ranks": 4, "num_chunks": 2, "num_microbatches": 8, "schedule": schedule, "time_limit_s": 0.3}
    free = plan(network, **sizes, communication=link)
    in_turns = plan(network, **sizes, communication=replace(link, one_at_a_time=True))
    assert in_turns.makespan_ns >= free.lower_bound_ns
    assert in_turns.lower_bound_ns <= in_turns.makespan_ns
