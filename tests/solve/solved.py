"""What the solver answers to a small problem, held against the best of all plans."""

from evenflow import reproducible
from evenflow.simulate import simulate
from evenflow.solve import plan
from tests.solve.cases import TOLERANCE
from tests.solve.exhaustive import Case


def assert_best(case: Case, limit_bytes: int | None, best_ns: int) -> None:
    """The plan takes `best_ns`, its bound is no longer, and the simulator takes as long."""
    with reproducible():  # the end of the time is the same on every machine
        outcome = plan(case.network, memory_limit_bytes=limit_bytes, time_limit_s=10.0, **case.arguments)
    assert best_ns <= outcome.makespan_ns <= best_ns * (1 + TOLERANCE)
    assert outcome.lower_bound_ns <= best_ns
    again = simulate(case.network, outcome.plan, communication=case.communication)
    assert again.makespan_ns == outcome.makespan_ns
