"""What the solver answers to a small problem, held against the best of all plans."""

from hypothesis import strategies as st

from evenflow import reproducible
from evenflow.simulate import simulate
from evenflow.solve import Outcome, Status, plan
from tests.solve.cases import SECONDS, TOLERANCE
from tests.solve.exhaustive import Case, every_plan


def assert_best(case: Case, limit_bytes: int | None, best_ns: int) -> None:
    """The plan takes `best_ns`, its bound is no longer, and the simulator takes as long."""
    with reproducible():  # the end of the time is the same on every machine
        outcome = plan(case.network, memory_limit_bytes=limit_bytes, time_limit_s=10.0, **case.arguments)
    assert best_ns <= outcome.makespan_ns <= best_ns * (1 + TOLERANCE)
    assert outcome.lower_bound_ns <= best_ns
    again = simulate(case.network, outcome.plan, communication=case.communication)
    assert again.makespan_ns == outcome.makespan_ns


def planned_as_the_best(data: st.DataObject, case: Case) -> Outcome:
    """Plan a case under some limit, or none, and return the outcome, which is the best of all plans and proven so."""
    plans = every_plan(case)
    limit = data.draw(st.sampled_from([None, *plans.limits(), max(1, plans.least_bytes - 1)]))
    best = plans.best_ns(limit)
    outcome = plan(case.network, memory_limit_bytes=limit, time_limit_s=SECONDS, **case.arguments)
    if best is None:
        assert outcome.infeasibility.smallest_limit_bytes == plans.least_bytes
        return outcome
    assert outcome.status is Status.OPTIMAL
    assert best <= outcome.makespan_ns <= best * (1 + TOLERANCE)
    assert best * (1 - 2 * TOLERANCE) <= outcome.lower_bound_ns <= best
    assert limit is None or max(outcome.simulation.peak_memory_bytes) <= limit
    return outcome
