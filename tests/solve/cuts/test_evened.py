"""The plan of which the rank that takes longest by itself takes least, with one chunk per rank."""

from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.solve.bounds import ramp_bound_ns
from evenflow.solve.cuts.evened import evened_plan
from evenflow.solve.known_plans import allowed_counts
from tests.solve.cuts.graph_cases import graph_cases
from tests.thoroughness import examples


@given(data=st.data(), limited=graph_cases(most_chunks=1))
@settings(max_examples=examples(100), deadline=None)
def test_no_plan_is_shorter_than_its_bound_and_the_plan_is_allowed(data, limited):
    case, limit, best = limited
    problem = case.problem(limit)
    upper = data.draw(st.integers(best, 3 * best))
    evened = evened_plan(problem, lower_ns=ramp_bound_ns(problem), upper_ns=upper, keep_going=lambda: True)
    assert evened.bound_ns <= best
    if upper > 2 * best:
        assert evened.counts is not None
    if evened.counts is not None:
        assert allowed_counts(problem, problem.plan(evened.counts)) is not None
        simulation = problem.simulate(evened.counts)
        assert simulation.makespan_ns >= best
        assert simulation.fits(limit)
