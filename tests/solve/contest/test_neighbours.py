"""A quick look around a plan: shorter neighbours are found, and it ends when it should."""

import signal
from dataclasses import replace

import pytest

from evenflow.model import LayerRun, Plan, Request, Sizes
from evenflow.simulate import simulate
from evenflow.solve import Outcome, Status, find_neighbours, solve
from evenflow.solve.contest.neighbours import Neighbours, comparison_seconds
from evenflow.units import MEGABYTE
from tests.networks import plain_network

FAMILIES = ("1f1b", "interleaved", "interleaved-less-memory", "f-then-b")
REQUEST = Request(
    network=plain_network(8), sizes=Sizes(num_ranks=2, num_microbatches=4), memory_limit_bytes=1100 * MEGABYTE
)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """4 layers on each rank, nothing recomputed: 1000 MB on rank 0, and (4 + 1) x 120 ms."""
    return solve(REQUEST, schedule="1f1b", time_limit_s=20)


def test_a_share_of_the_time_limit():
    assert [comparison_seconds(limit) for limit in (1, 4.9, 5, 20, 60, 600)] == [0, 0, 0.5, 2, 6, 10]


def test_a_shorter_neighbour_is_found(outcome):
    assert outcome.makespan_ns == 600_000_000
    found = find_neighbours(REQUEST, outcome, FAMILIES, time_limit_s=5)
    best = found.candidates[0]
    # Two chunks of 60 ms halve fill and drain; with a limit of 1100 MB nothing is recomputed for it.
    assert (best.num_chunks, best.makespan_ns) == (2, 540_000_000)
    assert best.schedule.startswith("interleaved")
    assert best.outcome is not None
    assert best.outcome.simulation is not None
    assert best.outcome.simulation.fits(REQUEST.memory_limit_bytes)
    assert {(candidate.schedule, candidate.num_chunks) for candidate in found.candidates} == {
        ("f-then-b", 1), ("interleaved", 2)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("chunks", "schedule", "changes", "expected"),
    [
        (1, "1f1b", {}, {"f-then-b 1", "interleaved 2"}),
        (
            2,
            "interleaved-less-memory",
            {},
            {"f-then-b 2", "interleaved 2", "1f1b 1", "interleaved-less-memory 3"},
        ),
        (2, "zbv", {"layers": ((2, 2), (2, 2))}, {"f-then-b 2", "interleaved 2", "interleaved-less-memory 2"}),
        (
            4,
            "interleaved",
            {},
            {"f-then-b 4", "interleaved-less-memory 4", "interleaved 3"},
        ),
        (
            4,
            "f-then-b",
            {"allow_empty": True},
            {"interleaved 4", "interleaved-less-memory 4", "interleaved 3", "interleaved 5"},
        ),
    ],
)  # fmt: skip
def test_another_schedule_or_one_chunk_less_or_more(chunks, schedule, changes, expected):
    sizes = Sizes(num_ranks=2, num_chunks=chunks, num_microbatches=4)
    request = Request(network=plain_network(8), sizes=sizes, **({"allow_empty": False} | changes))
    plan = Plan(schedule=schedule, num_microbatches=4, layers=((4 // chunks,) * 2,) * chunks)
    outcome = Outcome(
        status=Status.FEASIBLE, simulation=simulate(request.network, plan), lower_bound_ns=0, memory_limit_bytes=None,
        solve_seconds=1.0,
    )  # fmt: skip
    found = find_neighbours(request, outcome, FAMILIES, time_limit_s=0.5)
    assert {f"{candidate.schedule} {candidate.num_chunks}" for candidate in found.candidates} == expected


def test_the_same_order_is_not_tried_again():
    # On one rank with one microbatch nothing is left to interleave.
    request = replace(REQUEST, sizes=Sizes(num_ranks=1, num_chunks=2, num_microbatches=1))
    found = find_neighbours(request, solve(request, schedule="interleaved", time_limit_s=20), FAMILIES, time_limit_s=5)
    reasons = {(candidate.schedule, candidate.num_chunks): candidate.reason for candidate in found.candidates}
    assert reasons["interleaved-less-memory", 2] == "the same order as interleaved"


@pytest.mark.parametrize(("limit_mb", "same"), [(1100, True), (999, False), (None, False)])
def test_a_limit_that_changes_nothing_is_proven_to(limit_mb, same):
    limit = None if limit_mb is None else limit_mb * MEGABYTE
    request = replace(REQUEST, memory_limit_bytes=limit)
    found = find_neighbours(request, solve(request, schedule="1f1b", time_limit_s=20), (), time_limit_s=5)
    assert found == Neighbours(same_without_limit=same)


def test_there_is_nothing_around_no_plan_or_an_interrupted_one(outcome):
    nothing = Outcome(status=Status.TIMEOUT, simulation=None, lower_bound_ns=0, memory_limit_bytes=1, solve_seconds=1.0)
    for each, seconds in ((nothing, 5), (replace(outcome, interrupted=True), 5), (outcome, 0)):
        assert find_neighbours(REQUEST, each, FAMILIES, time_limit_s=seconds) == Neighbours()


def test_ctrl_c_keeps_what_was_found(outcome):
    # With the limit the proof takes a while for many microbatches, and the first report comes at once.
    request = replace(REQUEST, network=plain_network(40, "select"), sizes=Sizes(num_ranks=4, num_microbatches=8))
    plan = solve(request, schedule="1f1b", time_limit_s=5)
    phases = []

    def stop(report):
        phases.append(report.phase)
        signal.raise_signal(signal.SIGINT)

    found = find_neighbours(request, plan, FAMILIES, time_limit_s=60, progress=stop)
    assert phases[0].startswith("comparing 1/2 ")
    assert len(found.candidates) == 2
    assert any(candidate.reason == "the time ran out first" for candidate in found.candidates)


def test_ctrl_c_in_a_solve_is_noted():
    sent = []

    def stop(report):
        if report.makespan_ns is not None and not sent:
            sent.append(report)
            signal.raise_signal(signal.SIGINT)

    # Layers that all differ: the proof takes longer than the time to the first report.
    (run,) = plain_network(1, "select").runs
    layers = [replace(run.layer, forward_ns=10**7 + 7919 * index**2 % 10**6) for index in range(96)]
    request = replace(
        REQUEST,
        network=replace(plain_network(), runs=tuple(LayerRun(layer=layer, count=1) for layer in layers)),
        sizes=Sizes(num_ranks=8, num_microbatches=32, num_chunks=2),
        memory_limit_bytes=5000 * MEGABYTE,
    )
    assert solve(request, schedule="interleaved", time_limit_s=60, progress=stop).interrupted
