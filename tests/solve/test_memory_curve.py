"""The memory curve, against every plan there is."""

from fractions import Fraction
from itertools import accumulate, pairwise
from unittest.mock import patch

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.model import Plan, Request, Sizes
from evenflow.simulate import makespan_ns, simulate
from evenflow.solve import memory_curve as memory_curves
from evenflow.solve import solve
from evenflow.solve.clock import reproducible
from evenflow.solve.memory_curve import EQUAL_SHARE, MemoryCurve, MemoryPoint, memory_curve, roomier_plans
from evenflow.solve.outcome import Outcome, Status
from evenflow.solve.problem import Problem, make_problem
from evenflow.solve.smaller_peak import smaller_peak
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network
from tests.solve.cases import NO_SHRINKING, SECONDS, TOLERANCE, cases
from tests.solve.exhaustive import every_plan
from tests.thoroughness import examples


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=9))
def test_a_knee_is_below_all_mixtures_of_other_points(sizes: list[tuple[int, int]]):
    memory = list(accumulate(wide for wide, _ in sizes))
    steps = list(accumulate(high for _, high in sizes))[::-1]
    plan = Plan(layers=((1,),), schedule="1f1b", num_microbatches=1)
    points = tuple(
        MemoryPoint(plan=plan, peak_bytes=size, step_ns=step, lower_bound_ns=step)
        for size, step in zip(memory, steps, strict=True)
    )
    curve = MemoryCurve(points=points, least_bytes=None, floor_ns=0, is_whole=False)
    last = len(points) - 1
    expected = [
        at
        for at in range(1, last)
        if all(
            Fraction(steps[before] - steps[at], memory[at] - memory[before])
            > Fraction(steps[at] - steps[behind], memory[behind] - memory[at])
            for before in range(at)
            for behind in range(at + 1, last + 1)
        )
    ]
    assert list(curve.knees) == expected


@given(data=st.data())
@settings(max_examples=examples(20), phases=NO_SHRINKING)
def test_plans_that_hold_less_and_are_hardly_longer_against_every_plan(data: st.DataObject):
    case = data.draw(cases(time=MILLISECOND, memory=30 * MEGABYTE, any_order=False))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    outcome = solve(case.request(limit), schedule=case.sizes.family, time_limit_s=SECONDS)
    assume(outcome.plan is not None and outcome.makespan_ns is not None)
    most_ns = outcome.makespan_ns * data.draw(st.sampled_from([100, 101, 120, 200])) // 100
    roomier = roomier_plans(case.problem(limit), outcome.plan, most_ns=most_ns, seconds=5 * SECONDS)
    assert roomier is not None
    own_bytes = max(outcome.simulation.peak_memory_bytes)
    for point in roomier.points:
        again = simulate(case.network, point.plan, schedule=case.schedule, communication=case.communication)
        assert (again.makespan_ns, max(again.peak_memory_bytes)) == (point.step_ns, point.peak_bytes)
        assert point.step_ns <= most_ns
        assert point.peak_bytes < own_bytes
        assert point.lower_bound_ns <= plans.best_ns(point.peak_bytes)
    short_enough = plans.peaks_bytes[plans.makespans_ns <= most_ns]
    least_bytes = int(short_enough.min())
    held = roomier.points[0].peak_bytes if roomier.points else own_bytes
    assert held >= least_bytes
    assert roomier.refuted_bytes is None or roomier.refuted_bytes < least_bytes  # one byte more would be too much
    assert held - least_bytes <= 20 * MEGABYTE  # nearer ones are not told apart


@given(data=st.data())
@settings(max_examples=examples(20), phases=NO_SHRINKING)
def test_every_point_is_a_plan_and_the_best_for_its_memory(data: st.DataObject):
    case = data.draw(cases(time=MILLISECOND, memory=30 * MEGABYTE, any_order=False))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    outcome = solve(case.request(limit), schedule=case.sizes.family, time_limit_s=SECONDS)
    assume(outcome.plan is not None)
    curve = memory_curve(case.problem(limit), outcome.plan, seconds=5 * SECONDS)
    for point in curve.points:
        again = simulate(case.network, point.plan, schedule=case.schedule, communication=case.communication)
        assert (max(again.peak_memory_bytes), again.makespan_ns) == (point.peak_bytes, point.step_ns)
        best = plans.best_ns(point.peak_bytes)
        assert point.lower_bound_ns <= best <= point.step_ns
        if point.is_optimal:
            assert point.step_ns <= best * (1 + 2 * EQUAL_SHARE)
    for less, more in pairwise(curve.points):
        assert less.peak_bytes < more.peak_bytes
        assert less.step_ns > more.step_ns
    assert any(point.peak_bytes <= limit and point.step_ns <= outcome.makespan_ns * (1 + 2 * EQUAL_SHARE)
               for point in curve.points)  # fmt: skip
    if curve.least_bytes is not None:
        assert curve.least_bytes == plans.least_bytes
    assert curve.floor_ns <= plans.best_ns(None)
    if curve.is_whole:  # nothing is missing, but what takes as long
        for stair in plans.limits():
            known = min(point.step_ns for point in curve.points if point.peak_bytes <= stair)
            assert known <= plans.best_ns(stair) * (1 + 2 * EQUAL_SHARE + TOLERANCE)


@given(data=st.data())
@settings(max_examples=examples(40))
def test_a_smaller_peak_takes_no_time(data: st.DataObject):
    case = data.draw(cases(memory=MEGABYTE, any_order=False))
    problem = case.problem(None)
    outcome = solve(case.request(), schedule=case.sizes.family, time_limit_s=SECONDS)
    before = problem.counts(outcome.plan)
    after = smaller_peak(problem, before)
    assert (before.sum(axis=1) == after.sum(axis=1)).all()
    assert all(problem.may_hold(content) for content in after)
    peaks = [problem.rank_memory(problem.costs(counts)).max() for counts in (before, after)]
    assert peaks[1] <= peaks[0]
    steps = [
        makespan_ns(problem.graph, problem.costs(counts).durations, case.communication) for counts in (before, after)
    ]
    assert steps[1] <= steps[0]


def test_without_time_the_plan_alone_is_on_the_curve():
    request = Request(
        network=plain_network(8), sizes=Sizes(num_ranks=2, num_microbatches=4), memory_limit_bytes=999 * MEGABYTE
    )
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((4, 4),), recompute={"full": ((1, 0),)})
    curve = memory_curve(make_problem(request, schedule="1f1b"), plan, seconds=0.0)
    assert [point.plan.layers for point in curve.points] == [plan.layers]
    assert not curve.is_whole
    assert curve.least_bytes is None


def test_work_that_is_counted_gives_the_same_curve():
    request = Request(
        network=plain_network(8), sizes=Sizes(num_ranks=2, num_microbatches=4), memory_limit_bytes=999 * MEGABYTE
    )
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((4, 4),), recompute={"full": ((1, 0),)})
    curves = []
    for _time in range(2):
        with reproducible():
            curves.append(memory_curve(make_problem(request, schedule="1f1b"), plan, seconds=2.0))
    assert curves[0] == curves[1]


@given(data=st.data())
@settings(max_examples=examples(30), phases=NO_SHRINKING)
def test_a_curve_with_solves_that_found_nothing_in_time_is_not_said_to_be_whole(data: st.DataObject):
    case = data.draw(cases(time=MILLISECOND, memory=30 * MEGABYTE, any_order=False))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    outcome = solve(case.request(limit), schedule=case.sizes.family, time_limit_s=SECONDS)
    assume(outcome.plan is not None)

    really_solved = memory_curves._solved

    def solved(problem: Problem, known: list[MemoryPoint], bound_ns: int, seconds: float) -> Outcome | None:
        if problem.memory_limit_bytes is None or data.draw(st.booleans()):
            return really_solved(problem, known, bound_ns, seconds)
        return Outcome(
            status=Status.TIMEOUT, simulation=None, lower_bound_ns=bound_ns, solve_seconds=0.0,
            memory_limit_bytes=problem.memory_limit_bytes,
        )  # fmt: skip

    with patch.object(memory_curves, "_solved", solved):
        curve = memory_curve(case.problem(limit), outcome.plan, seconds=5 * SECONDS)
    if curve.is_whole:
        for stair in plans.limits():
            known = min(point.step_ns for point in curve.points if point.peak_bytes <= stair)
            assert known <= plans.best_ns(stair) * (1 + 2 * EQUAL_SHARE + TOLERANCE)
