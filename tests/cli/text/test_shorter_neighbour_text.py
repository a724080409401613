from dataclasses import replace

from evenflow.cli.text.shorter_neighbour_text import neighbour_line, shorter_neighbour
from evenflow.model import Communication, Plan
from evenflow.simulate import simulate
from evenflow.solve import Neighbours, Outcome, ScheduleCandidate, Status
from evenflow.units import MEGABYTE
from tests.networks import plain_network


def outcome(chunks: int, *, limit_mb: int | None = 1100, communication: Communication | None = None) -> Outcome:
    """8 layers on 2 ranks, 4 microbatches: (4 + 1) x 120 ms on one chunk, 540 ms on two."""
    plan = Plan(
        schedule="interleaved" if chunks > 1 else "1f1b", num_microbatches=4, layers=((4 // chunks,) * 2,) * chunks
    )
    return Outcome(
        status=Status.FEASIBLE,
        simulation=simulate(plain_network(8), plan, communication=communication),
        lower_bound_ns=1,
        memory_limit_bytes=None if limit_mb is None else limit_mb * MEGABYTE,
        solve_seconds=1.0,
    )


def test_says_how_much_shorter_and_what_it_fits():
    one = outcome(1)
    two = outcome(2)
    free = "; messages cost nothing here, and more chunks send more of them"
    line = f"shorter: -i 2 takes 540.0 ms (10.0 % less) and fits 1,100 MB{free}"
    assert neighbour_line(two, one, options="-i 2") == line
    priced = outcome(1, communication=Communication(latency_ns=1))
    assert neighbour_line(two, priced, options="-i 2").endswith("and fits 1,100 MB")
    assert neighbour_line(two, outcome(1, limit_mb=None), options="-i 2").startswith(
        "shorter: -i 2 takes 540.0 ms (10.0 % less); messages"
    )
    assert neighbour_line(two, outcome(2), options="-lm 0") == (
        "shorter: -lm 0 takes 540.0 ms (0.0 % less) and fits 1,100 MB"
    )


def outcome_of(plan: Plan, *, makespan_ms: int = 0) -> Outcome:
    simulation = simulate(plain_network(8), plan)
    if makespan_ms:
        simulation = replace(simulation, timeline=replace(simulation.timeline, makespan_ns=makespan_ms * 1_000_000))
    return Outcome(
        status=Status.FEASIBLE, simulation=simulation, lower_bound_ns=1, memory_limit_bytes=None, solve_seconds=1.0
    )


def plan(chunks: int, *, schedule: str = "interleaved", microbatches: int = 4) -> Plan:
    return Plan(schedule=schedule, num_microbatches=microbatches, layers=((4 // chunks,) * 2,) * chunks)


def around(*plans: tuple[Plan, int]) -> Neighbours:
    return Neighbours(
        candidates=tuple(
            ScheduleCandidate(
                schedule=each.schedule, num_chunks=each.num_chunks, outcome=outcome_of(each, makespan_ms=makespan_ms)
            )
            for each, makespan_ms in plans
        )
    )


def test_the_best_one_is_named_if_it_saves_anything():
    own = outcome_of(plan(1, schedule="1f1b"))  # 600 ms
    shorter = around((plan(2), 540), (plan(2, schedule="interleaved-less-memory"), 590))
    assert shorter_neighbour(shorter, own) is shorter.candidates[0]
    assert shorter_neighbour(around((plan(2), 600)), own) is None
    assert shorter_neighbour(Neighbours(), own) is None
    untried = ScheduleCandidate(schedule="interleaved", num_chunks=2, outcome=None, reason="too few layers")
    assert shorter_neighbour(Neighbours(candidates=(untried,)), own) is None


def test_one_that_the_framework_refuses_is_named_only_beside_another_such():
    few, refused = outcome_of(plan(1, schedule="1f1b", microbatches=1)), around((plan(2, microbatches=1), 10))
    assert shorter_neighbour(refused, outcome_of(plan(1, schedule="1f1b"))) is None
    assert shorter_neighbour(refused, few) is refused.candidates[0]
