"""Every way of planning, without any time: its answer is no longer than what is known and could be the answer."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evenflow.baselines.even_plan import even_plan
from evenflow.model import COMM, FULL, SELECT, Abilities, Empty, Groups, Plan, Recomputation, Request, Scope, Sizes
from evenflow.schedule import FAMILIES
from evenflow.simulate import simulate
from evenflow.solve import Outcome, solve, solve_best
from evenflow.solve.clock import Clock
from evenflow.solve.for_target import search_for_target, solve_for_target
from evenflow.solve.order.alternate import plan_any_order, solve_any_order
from evenflow.solve.order.fitted import solve_fitted
from evenflow.solve.race import Race
from evenflow.solve.replan import replan
from evenflow.solve.requests import ContestSearch
from evenflow.targets.fitting import fitted
from evenflow.targets.refusal import refusal
from tests.networks import plain_network
from tests.solve.cases import NO_SHRINKING, cases
from tests.solve.test_known_plans import NO_TIME, is_allowed, plans_of
from tests.thoroughness import examples

WAYS = {
    "by layer": (Recomputation(scope=Scope.LAYERS, kinds=(FULL, SELECT, COMM), apart=((SELECT, COMM),)),),
    "by cell": (Recomputation(scope=Scope.CELL, kinds=(FULL, SELECT)),),
    "one number": (Recomputation(scope=Scope.COUNT), Recomputation(scope=Scope.MODEL, kinds=(FULL, SELECT))),
}
Known = Sequence[Plan]


def under_one(request: Request, schedule: str, known: Known) -> Outcome:
    return solve(request, schedule=schedule, time_limit_s=NO_TIME, known=known)


def contest(request: Request, known: Known) -> ContestSearch:
    return ContestSearch(num_chunks=(request.sizes.num_chunks,), time_limit_s=NO_TIME, known=known)


def under_many(request: Request, schedule: str, known: Known) -> Outcome:
    every = [name for name in FAMILIES if not FAMILIES[name].comparison_only]
    return solve_best(request, contest(request, known), families=[schedule, *every]).outcome


def made_for_times(request: Request, schedule: str, known: Known) -> Outcome:
    return solve_fitted(request, schedule=schedule, time_limit_s=NO_TIME, known=known)


def in_any_order(request: Request, _schedule: str, known: Known) -> Outcome:
    return solve_any_order(request, split_backward=True, time_limit_s=NO_TIME, known=known)


@pytest.mark.parametrize("way", [under_one, under_many, made_for_times, in_any_order])
@given(data=st.data(), case=cases(any_order=False))
@settings(max_examples=examples(9), deadline=None, phases=NO_SHRINKING)
def test_no_way_of_planning_loses_what_is_known(way: Callable[[Request, str, Known], Outcome], data, case):
    free, name = case.problem(), case.sizes.family
    assume(FAMILIES[name].has_chunks(case.sizes.num_chunks))
    known = [data.draw(plans_of(case)) for _ in range(3)]
    peaks = [max(free.simulate(free.counts(each)).peak_memory_bytes) for each in known]
    problem = case.problem(data.draw(st.sampled_from([None, *peaks])))
    allowed = [each for each in known if is_allowed(problem, each)]
    assume(allowed)
    outcome = way(problem.request, name, known)
    assert outcome.makespan_ns <= min(problem.simulate(problem.counts(each)).makespan_ns for each in allowed)
    assert simulate(case.network, outcome.plan, communication=case.communication).makespan_ns == outcome.makespan_ns


@pytest.mark.parametrize("ways", WAYS)
@pytest.mark.parametrize("any_order", [False, True], ids=["its schedules", "any order"])
@given(data=st.data(), case=cases(any_order=False))
@settings(max_examples=examples(9), deadline=None, phases=NO_SHRINKING)
def test_no_way_of_planning_for_a_framework_loses_what_it_can_run(any_order: bool, ways: str, data, case):
    name = case.sizes.family
    assume(FAMILIES[name].has_chunks(case.sizes.num_chunks) and case.network.num_layers >= case.sizes.num_cells)
    abilities = Abilities(
        schedules=(name,),
        own_order=any_order,
        recomputation=WAYS[ways],
        splits_sequences=True,
        empty=Empty.ANY if case.allow_empty else Empty.NONE,
        groups=Groups.ANY,
    )
    known = [data.draw(plans_of(case)) for _ in range(3)]
    known += [even_plan(case.network, case.sizes, schedule=name, recompute=kind) for kind in case.split.kinds]
    steps = [simulate(case.network, each, communication=case.communication) for each in known]
    limit = data.draw(st.sampled_from([None, *(max(step.peak_memory_bytes) for step in steps)]))
    can_run = [step for step in steps if refusal(step.plan, abilities, title="it") is None and step.fits(limit)]
    assume(can_run)
    request = case.request(limit)
    if any_order:
        outcome = search_for_target(
            request, abilities, title="it", split_backward=True, time_limit_s=NO_TIME, known=known
        )
    else:
        outcome = solve_for_target(request, abilities, contest(request, known), title="it", schedules=(name,)).outcome
    assert outcome.makespan_ns <= min(step.makespan_ns for step in can_run)
    assert refusal(outcome.plan, abilities, title="it") is None


NETWORK = plain_network(24, "select")


def test_a_known_plan_with_groups_of_its_own_has_a_candidate_with_these():
    sizes = Sizes(num_ranks=4, num_chunks=2, num_microbatches=12)
    known = replace(even_plan(NETWORK, sizes, schedule="interleaved"), group_size=7)
    best = solve_best(
        Request(network=NETWORK, sizes=sizes), ContestSearch(num_chunks=(2,), time_limit_s=NO_TIME, known=[known])
    )
    assert 7 in [candidate.group_size for candidate in best.candidates]
    usual = ContestSearch(num_chunks=(2,), time_limit_s=NO_TIME, known=[known], group_sizes="usual")
    assert {each.group_size for each in solve_best(Request(network=NETWORK, sizes=sizes), usual).candidates} == {None}


def test_a_known_order_is_not_lost_by_a_search_for_orders():
    sizes = Sizes(num_ranks=3, num_microbatches=5)
    arguments = {"num_ranks": 3, "num_microbatches": 5, "split_backward": True}
    found = plan_any_order(NETWORK, time_limit_s=3, **arguments)
    again = plan_any_order(NETWORK, time_limit_s=NO_TIME, known=[found.plan], **arguments)
    assert again.makespan_ns <= found.makespan_ns
    whole = solve_any_order(Request(network=NETWORK, sizes=sizes), time_limit_s=NO_TIME, known=[found.plan])
    assert not whole.simulation.timeline.schedule.splits_backward


def test_an_order_made_for_a_plan_is_not_lost_when_it_is_planned_again():
    request = Request(network=NETWORK, sizes=Sizes(num_ranks=3, num_microbatches=7))
    found = solve_fitted(request, schedule="zb-h1", time_limit_s=3)
    again = solve_fitted(request, schedule="zb-h1", time_limit_s=NO_TIME, known=[found.plan])
    assert again.makespan_ns <= found.makespan_ns
    assert again.plan.schedule == "zb-h1"


def test_a_running_plan_is_known_when_it_is_replanned():
    running = simulate(NETWORK, even_plan(NETWORK, Sizes(num_ranks=3, num_microbatches=7), schedule="1f1b"))
    again = replan(running, running.network.ranks, memory_limit_bytes=None, time_limit_s=NO_TIME)
    assert again.outcome.makespan_ns <= again.before.makespan_ns


@given(data=st.data(), case=cases(any_order=False))
@settings(
    max_examples=examples(9), deadline=None, phases=NO_SHRINKING, suppress_health_check=[HealthCheck.filter_too_much]
)
def test_what_a_framework_runs_of_a_plan_is_no_longer_than_its_even_plan(data, case):
    name = case.sizes.family
    assume(FAMILIES[name].has_chunks(case.sizes.num_chunks) and not FAMILIES[name].comparison_only)
    abilities = Abilities(schedules=(name,), recomputation=WAYS["by cell"], splits_sequences=True, groups=Groups.ANY)
    planned = data.draw(plans_of(case))
    assume(all(count for row in planned.layers for count in row))
    assume(refusal(planned, abilities, title="it") is not None)  # else it stays as it is
    found = fitted(planned, case.network, case.communication, None, abilities, "it", time_limit_s=NO_TIME)
    limit = max(simulate(case.network, planned).peak_memory_bytes)
    cells = [replace(planned, recompute={} if kind == "none" else {kind: planned.layers}) for kind in case.split.kinds]
    known = [simulate(case.network, each, communication=case.communication) for each in cells]
    able = [step for step in known if refusal(step.plan, abilities, title="it") is None and step.fits(limit)]
    assume(able)
    least = min(int(step.costs.backward_ns.sum()) for step in able)
    quickest = [step.makespan_ns for step in able if step.costs.backward_ns.sum() == least]
    assert found.simulation.makespan_ns <= max(quickest)


@given(data=st.data(), case=cases(any_order=False), after_s=st.sampled_from([None, NO_TIME, 0.1]))
@settings(max_examples=examples(12), deadline=None, phases=NO_SHRINKING)
def test_a_race_learns_between_its_runs(data, case, after_s):
    plans = [data.draw(plans_of(case)) for _ in range(3)]
    free = case.problem()
    limit = data.draw(st.sampled_from([None, max(free.simulate(free.counts(plans[0])).peak_memory_bytes)]))
    problem = case.problem(limit)
    race = Race(problem)
    if after_s is not None:
        race.run(Clock(limit_s=after_s))
    for each in plans:
        race.learn(each)
    outcome = race.run(Clock(limit_s=NO_TIME))
    for each in plans:
        if is_allowed(problem, each):
            assert outcome.makespan_ns <= problem.simulate(problem.counts(each)).makespan_ns


def test_candidates_of_a_contest_hear_of_the_shortest_cells(monkeypatch):
    heard: list[Plan] = []
    learn = Race.learn
    monkeypatch.setattr(Race, "learn", lambda race, plan: (heard.append(plan), learn(race, plan)))
    sizes = Sizes(num_ranks=4, num_microbatches=9)
    request = Request(network=NETWORK, sizes=sizes, memory_limit_bytes=1500 * 2**20)
    best = solve_best(request, ContestSearch(num_chunks=(1,), time_limit_s=2), families=["1f1b", "gpipe", "zb-h1"])
    assert best.outcome.plan is not None
    assert heard
    assert all(each.num_layers == NETWORK.num_layers for each in heard)
