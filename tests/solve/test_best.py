"""The best of all schedules, against each of them planned alone."""

import signal
import time
from dataclasses import replace

import pytest

from evenflow.errors import InputError, Interrupted
from evenflow.model import Communication, EndBlock, Network
from evenflow.schedule import FAMILIES
from evenflow.solve import Progress, Status, plan, plan_best, prover_thread
from evenflow.solve.best import chunk_counts
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.start import even_start
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network

TAIL = EndBlock(forward_ns=7 * MILLISECOND, backward_ns=14 * MILLISECOND, parameter_bytes=80 * MEGABYTE)


def network(num_layers: int = 8) -> Network:
    return plain_network(num_layers, tail=TAIL)


def expected_pairs(counts, sequence_splits=1) -> set[tuple[str, int]]:
    """Every family that is more than a comparison, with every number of chunks that it has."""
    return {
        (name, count)
        for name, family in FAMILIES.items()
        for count in counts
        if not (family.comparison_only or family.has_pairs)  # the layers exchange no tokens
        and (count == family.num_chunks or (family.num_chunks is None and count >= family.fewest_chunks))
        and (family.can_split or sequence_splits == 1)
    }


CASES = {
    "free": {"num_ranks": 2, "num_microbatches": 4},
    "tight": {"num_ranks": 2, "num_microbatches": 5, "memory_limit_bytes": 700 * MEGABYTE},
    "messages": {"num_ranks": 2, "num_microbatches": 3, "communication": Communication(latency_ns=4 * MILLISECOND)},
    "split": {"num_ranks": 2, "num_microbatches": 2, "sequence_splits": 2, "memory_limit_bytes": 900 * MEGABYTE},
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_as_good_as_the_best_of_all_planned_alone(case):
    arguments = CASES[case]
    pairs = expected_pairs((1, 2), arguments.get("sequence_splits", 1))
    best = plan_best(network(), num_chunks=(1, 2), time_limit_s=60, **arguments)
    assert {(each.schedule, each.num_chunks) for each in best.candidates} == pairs
    assert best.gap <= 2 * TOLERANCE  # all of it is proven
    alone = {pair: plan(network(), schedule=pair[0], num_chunks=pair[1], time_limit_s=4, **arguments) for pair in pairs}
    assert best.outcome.makespan_ns == min(each.makespan_ns for each in alone.values() if each.plan)
    assert best.outcome.simulation.fits(arguments.get("memory_limit_bytes"))
    assert best.candidates[0] is best.best
    assert (best.best.schedule, best.best.num_chunks) == (
        best.outcome.plan.schedule,
        best.outcome.plan.num_chunks,
    )
    for each in best.candidates:
        other = alone[each.schedule, each.num_chunks]
        if each.outcome is None:
            assert each.reason
        elif each.outcome.status is Status.INFEASIBLE:
            assert other.status is Status.INFEASIBLE
            needed, least = each.outcome.infeasibility, other.infeasibility.smallest_limit_bytes
            assert needed.smallest_limit_bytes >= least
            assert needed.smallest_limit_bytes == least or not needed.proven
        elif other.status is Status.OPTIMAL:
            # Its bound holds, its plan is not better than possible, and it is shown that it cannot win.
            assert each.outcome.lower_bound_ns <= other.makespan_ns <= each.makespan_ns
            assert other.makespan_ns >= best.outcome.makespan_ns * (1 - 2 * TOLERANCE)
        if each.outcome is not None and each.outcome.status is Status.OPTIMAL:
            assert each.outcome.gap <= 2 * TOLERANCE
    spans = [each.makespan_ns for each in best.candidates]
    known = [span for span in spans if span is not None]
    assert spans == sorted(known) + [None] * (len(spans) - len(known))


def test_the_same_order_is_tried_once():
    """With one microbatch on one chunk there is only one order of whole backwards."""
    best = plan_best(network(), num_ranks=2, num_microbatches=1, num_chunks=(1,), time_limit_s=20)
    whole = {each.schedule: each for each in best.candidates if each.schedule in ("f-then-b", "1f1b", "eager-1f1b")}
    assert whole.pop("1f1b").outcome is not None  # the default goes first
    assert [each.reason for each in whole.values()] == ["the same order as 1f1b, 1 chunk"] * 2


def test_what_a_family_refuses_is_told():
    """With 7 microbatches on 5 ranks, ranks of that family wait in a circle."""
    best = plan_best(
        network(10), num_ranks=5, num_microbatches=7, num_chunks=(2,), time_limit_s=20,
        families=("interleaved", "interleaved-remainder-last"),
    )  # fmt: skip
    winner, refused = best.candidates
    assert winner.schedule == "interleaved"
    assert best.verdict(refused).startswith("not tried: ")
    assert len(best.verdict(refused)) > 20
    assert best.outcome.status is Status.OPTIMAL
    assert "this schedule" in best.certificate()


def test_infeasible_names_the_schedule_that_needs_the_least():
    arguments = {"num_ranks": 2, "num_microbatches": 4}
    small = plan_best(network(), num_chunks=(1,), memory_limit_bytes=100 * MEGABYTE, time_limit_s=20, **arguments)
    reason = small.outcome.infeasibility
    assert small.outcome.status is Status.INFEASIBLE
    assert small.outcome.plan is small.best is small.gap is None
    needed = {each.schedule: each.outcome.infeasibility.smallest_limit_bytes for each in small.candidates}
    assert reason.smallest_limit_bytes == min(needed.values())
    assert reason.proven
    least = min(needed, key=needed.get)
    assert reason.advice[0] == f"it is that of {least}, 1 chunk"
    enough = plan_best(
        network(), num_chunks=(1,), memory_limit_bytes=reason.smallest_limit_bytes, time_limit_s=20, **arguments
    )
    assert enough.outcome.plan is not None
    assert plan(network(), memory_limit_bytes=reason.smallest_limit_bytes - 1, schedule=least, **arguments).plan is None


def test_given_layers_are_kept():
    layers = {1: ((5, 3),), 2: ((3, 2), (2, 1))}
    best = plan_best(network(), num_ranks=2, num_microbatches=4, layers=layers, time_limit_s=20)
    assert {each.num_chunks for each in best.candidates} == {1, 2}
    for each in best.candidates:
        if each.outcome is not None:
            assert each.outcome.plan.layers == layers[each.num_chunks]
    assert best.outcome.restrictions.fixed_layers
    assert "with these layers" in best.certificate()


def test_chunk_counts_leave_a_layer_for_every_cell():
    assert chunk_counts(network(8), num_ranks=2) == (1, 2, 3, 4)
    assert chunk_counts(network(8), num_ranks=3) == (1, 2)
    assert chunk_counts(network(8), num_ranks=9) == (1,)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_ranks": 9}, "body layers of .* must be at least"),
        ({"num_ranks": 2, "num_chunks": (5,)}, "body layers of .* must be at least"),
        ({"num_ranks": 2, "families": ("1f1b",), "num_chunks": (2,)}, "number of chunks"),
        ({"num_ranks": 2, "families": ("1f2b",)}, "did you mean 1f1b"),
        ({"num_ranks": 2, "layers": {5: ((1, 1),) * 5}}, "body layers of .* must be at least"),
    ],
)
def test_input_that_makes_no_sense_is_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        plan_best(network(), num_microbatches=2, time_limit_s=5, allow_empty=False, **arguments)


@pytest.mark.parametrize("seconds", [0.001, 0.5])
def test_little_time_still_gives_a_plan_and_a_bound_that_holds(seconds):
    arguments = {"num_ranks": 4, "num_microbatches": 8, "memory_limit_bytes": 6_000 * MEGABYTE}
    best = plan_best(network(48), time_limit_s=seconds, **arguments)
    assert best.outcome.plan is not None
    assert best.outcome.simulation.fits(6_000 * MEGABYTE)
    assert 0 <= best.lower_bound_ns <= best.outcome.lower_bound_ns <= best.outcome.makespan_ns
    assert best.certificate()
    assert len(best.summary().splitlines()) > len(best.candidates)


def test_progress_never_goes_back():
    seen: list[Progress] = []
    best = plan_best(network(20), num_ranks=2, num_microbatches=4, time_limit_s=6, progress=seen.append)
    makespans = [each.makespan_ns for each in seen if each.makespan_ns is not None]
    bounds, seconds = [each.lower_bound_ns for each in seen], [each.seconds for each in seen]
    assert makespans == sorted(makespans, reverse=True)
    assert bounds == sorted(bounds)
    assert seconds == sorted(seconds)
    assert makespans[-1] == best.outcome.makespan_ns
    assert seen[0].phase.startswith(f"1/{len(best.candidates)} ")


def test_ctrl_c_returns_the_best_so_far():
    def interrupt(progress: Progress) -> None:
        if progress.makespan_ns is not None:
            signal.raise_signal(signal.SIGINT)

    best = plan_best(network(48), num_ranks=4, num_microbatches=8, time_limit_s=100, progress=interrupt)
    assert best.outcome.plan is not None
    assert best.solve_seconds < 60
    assert any(each.outcome is None and "time" in each.reason for each in best.candidates)


def test_ctrl_c_before_any_plan_is_an_error(monkeypatch):
    def slow_start(problem):
        time.sleep(0.5)
        return even_start(problem)

    def interrupt(_: Progress) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(prover_thread, "even_start", slow_start)
    with pytest.raises(Interrupted):  # where the even plan fits, that is an answer
        plan_best(
            network(), num_ranks=2, num_microbatches=2, memory_limit_bytes=MEGABYTE, time_limit_s=20, progress=interrupt
        )


def test_without_memory_data_there_is_no_limit():
    bare = replace(network(), has_memory=False)
    best = plan_best(bare, num_ranks=2, num_microbatches=2, num_chunks=(1,), memory_limit_bytes=1, time_limit_s=20)
    assert best.outcome.plan is not None
    assert best.outcome.memory_limit_bytes is None
