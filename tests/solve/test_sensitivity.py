"""What memory is worth, against every plan there is."""

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.model import Plan, Request, Sizes
from evenflow.solve import Status, solve
from evenflow.solve.clock import Clock
from evenflow.solve.race import Race
from evenflow.solve.sensitivity import RANK_BYTES, sensitivity
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network
from tests.solve.cases import NO_SHRINKING, SECONDS, TOLERANCE, cases
from tests.solve.exhaustive import every_plan
from tests.thoroughness import examples


@given(data=st.data())
@settings(max_examples=examples(20), phases=NO_SHRINKING)
def test_ranks_may_have_limits_of_their_own(data: st.DataObject):
    case = data.draw(cases(time=MILLISECOND, memory=MEGABYTE + 7))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    amounts = st.integers(0, 500).map(lambda number: number * MEGABYTE)
    more = tuple(data.draw(amounts) for _rank in range(case.sizes.num_ranks))
    best = plans.best_ns(limit, more)
    outcome = Race(replace(case.problem(limit), more_bytes=more)).run(Clock(limit_s=SECONDS))
    assert outcome.status is Status.OPTIMAL
    assert best <= outcome.makespan_ns <= best * (1 + TOLERANCE)
    assert outcome.lower_bound_ns <= best


@given(data=st.data())
@settings(max_examples=examples(15), phases=NO_SHRINKING)
def test_steps_with_other_memory(data: st.DataObject):
    case = data.draw(cases(time=MILLISECOND, memory=20 * MEGABYTE, any_order=False))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    outcome = solve(case.request(limit), schedule=case.sizes.family, time_limit_s=SECONDS)
    assume(outcome.plan is not None)
    found = sensitivity(case.request(limit), outcome.plan, case.schedule, time_limit_s=60 * SECONDS)
    assert found.step_ns == outcome.makespan_ns
    assert [one.rank for one in found.ranks] == list(found.binding) == [one.rank for one in outcome.binding]
    for one, binding in zip(found.ranks, outcome.binding, strict=True):
        assert one.more_bytes == max(RANK_BYTES, binding.more_bytes)
        more = [one.more_bytes if rank == one.rank else 0 for rank in range(case.sizes.num_ranks)]
        best = plans.best_ns(limit, more)
        assert best <= one.step_ns <= best * (1 + TOLERANCE)
        assert one.lower_bound_ns <= best


def test_nothing_is_said_without_a_limit():
    request = Request(network=plain_network(8), sizes=Sizes(num_ranks=2, num_microbatches=4))
    outcome = solve(request, schedule="1f1b", time_limit_s=SECONDS)
    assert sensitivity(request, outcome.plan, outcome.simulation.timeline.schedule) is None


def test_layers_that_are_decided_stay():
    request = Request(
        network=plain_network(8), sizes=Sizes(num_ranks=2, num_microbatches=4), memory_limit_bytes=999 * MEGABYTE,
        layers=((4, 4),),
    )  # fmt: skip
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((4, 4),), recompute={"full": ((1, 0),)})
    outcome = solve(request, schedule="1f1b", time_limit_s=SECONDS)
    found = sensitivity(request, plan, outcome.simulation.timeline.schedule, time_limit_s=2 * SECONDS)
    free = solve(replace(request, memory_limit_bytes=None), schedule="1f1b", time_limit_s=SECONDS)
    assert [one.step_ns for one in found.ranks] == [free.makespan_ns]
    assert (found.binding, found.ranks[0].more_bytes) == ((0,), RANK_BYTES)
    assert found.curve.points[-1].step_ns == free.makespan_ns
    assert all(point.plan.layers == plan.layers for point in found.curve.points)
