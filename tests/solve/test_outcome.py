"""Outcomes in words and numbers, of one schedule and of several."""

from dataclasses import replace
from typing import Any

import pytest

from evenflow.baselines.even_plan import even_plan
from evenflow.language import CHINESE, speaking
from evenflow.model import NONE, Layer, LayerRun, Mode, Network, Sizes
from evenflow.simulate import Simulation, simulate
from evenflow.solve import BestOutcome, BindingLimit, Infeasibility, Outcome, ScheduleCandidate, Status
from evenflow.units import MEGABYTE


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    """Two layers on two ranks, 1 and 2 ms each: two microbatches take (2 + 1) x 3 ms."""
    modes = {NONE: Mode(activation_bytes=MEGABYTE, backward_ns=2_000_000)}
    layer = Layer(name="layer", forward_ns=1_000_000, parameter_bytes=MEGABYTE, modes=modes)
    network = Network(name="two", runs=(LayerRun(layer=layer, count=2),))
    return simulate(network, even_plan(network, Sizes(num_ranks=2, num_microbatches=2), schedule="1f1b"))


def outcome(simulation: Simulation | None, status: Status, *, bound_ns: int = 0, smallest: int = 0) -> Outcome:
    reason = Infeasibility(rank=1, smallest_limit_bytes=smallest, proven=True, advice=("more ranks would help",))
    return Outcome(
        status=status,
        simulation=simulation,
        lower_bound_ns=bound_ns,
        memory_limit_bytes=4 * MEGABYTE,
        solve_seconds=1.0,
        infeasibility=reason if status is Status.INFEASIBLE else None,
    )


def restricted(answer: Outcome, **changes: Any) -> Outcome:
    return replace(answer, restrictions=replace(answer.restrictions, **changes))


def test_certificates_say_what_is_proven(simulation):
    optimal = outcome(simulation, Status.OPTIMAL, bound_ns=9_000_000)
    assert (optimal.makespan_ns, optimal.gap) == (9_000_000, 0)
    assert "no plan of this schedule is shorter than 9.000 ms" in optimal.certificate()
    full = restricted(optimal, full_cells=True).certificate()
    assert "no plan of this schedule with a layer in every cell is shorter than 9.000 ms" in full
    assert restricted(optimal, full_cells=True, fixed_layers=True).restricted == " with these layers"
    apart = restricted(optimal, kept_apart=("select", "comm"))
    assert apart.restricted == " with select and comm in different cells"
    both = " with a layer in every cell, and select and comm in different cells"
    assert restricted(apart, full_cells=True).restricted == both
    all_of_it = restricted(apart, full_cells=True, group_sizes=(4, 6, 12), copies_timed=True)
    assert all_of_it.restricted == (
        " with a layer in every cell, select and comm in different cells, groups of 4, 6 or 12 microbatches, "
        "and copies timed as here"
    )
    feasible = outcome(simulation, Status.FEASIBLE, bound_ns=6_750_000)
    assert feasible.gap == 0.25
    assert "within 25.00 % of optimal: 9.000 ms, bound 6.750 ms" in feasible.certificate()
    assert "not yet bounded" in outcome(simulation, Status.FEASIBLE).certificate()
    assert "peak memory: 3 MB of 4 MB" in optimal.summary()
    assert "binds" not in optimal.summary()
    binding = (BindingLimit(rank=1, more_bytes=1, takes_layer=True),)
    assert "memory binds on ranks [1]" in replace(optimal, binding=binding).summary()


def test_without_a_plan_there_is_no_gap():
    nothing = outcome(None, Status.INFEASIBLE, smallest=7 * MEGABYTE)
    assert nothing.plan is nothing.makespan_ns is nothing.gap is None
    assert "smallest limit that would do is 7 MB" in nothing.certificate()
    assert nothing.summary().endswith("more ranks would help")
    assert "in the time given" in outcome(None, Status.TIMEOUT).certificate()


def test_candidates_win_lose_or_stay_open(simulation):
    best = ScheduleCandidate(
        schedule="1f1b", num_chunks=1, outcome=outcome(simulation, Status.OPTIMAL, bound_ns=9_000_000)
    )
    slow = ScheduleCandidate(
        schedule="f-then-b", num_chunks=1, outcome=outcome(simulation, Status.FEASIBLE, bound_ns=9_000_000)
    )
    still = ScheduleCandidate(
        schedule="zb-h1", num_chunks=1, outcome=outcome(simulation, Status.FEASIBLE, bound_ns=8_000_000)
    )
    large = ScheduleCandidate(
        schedule="zb-h2", num_chunks=1, outcome=outcome(None, Status.INFEASIBLE, smallest=2_000 * MEGABYTE)
    )
    never = ScheduleCandidate(schedule="zbv", num_chunks=2, outcome=None, reason="too few layers", is_bounded=False)
    assert best.outcome is not None
    together = BestOutcome(
        outcome=best.outcome,
        candidates=(best, slow, still, large, never),
        lower_bound_ns=8_000_000,
        solve_seconds=1.0,
    )
    assert together.best is best
    assert [together.verdict(each) for each in together.candidates] == [
        "best",
        "proven not to be shorter",
        "open: may have a shorter plan",
        "infeasible: needs 2,000 MB",
        "not tried: too few layers",
    ]
    assert together.gap == pytest.approx(1 / 9)
    assert "these 4 schedules is shorter than 8.000 ms" in together.certificate()


def test_the_status_is_a_word_of_the_language_spoken() -> None:
    assert [status.word for status in Status] == [status.value for status in Status]
    with speaking(CHINESE):
        assert not any(status.word.isascii() for status in Status)
