"""The best group size against every one planned alone."""

import pytest

from evenflow.errors import InputError
from evenflow.model import Communication, Request, Sizes
from evenflow.schedule import different_group_sizes
from evenflow.simulate import simulate
from evenflow.solve import Status, plan, plan_best
from evenflow.solve.group_choice import least_group_size, tried_group_sizes
from evenflow.solve.proof import TOLERANCE
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network

SIZES = Sizes(num_ranks=3, num_chunks=2, num_microbatches=8)
MESSAGE = Communication(latency_ns=4 * MILLISECOND)


def request(communication: Communication | None = None, sizes: Sizes = SIZES) -> Request:
    return Request(network=plain_network(6), sizes=sizes, communication=communication)


@pytest.mark.parametrize("message", [None, MESSAGE])
@pytest.mark.parametrize("limit", [None, 900 * MEGABYTE])
@pytest.mark.parametrize("schedule", ["interleaved", "interleaved-less-memory"])
def test_the_best_of_every_size_is_that_of_all_planned_alone(schedule, limit, message):
    arguments = {"num_ranks": 3, "num_microbatches": 8, "memory_limit_bytes": limit, "communication": message}
    best = plan_best(
        plain_network(6), families=(schedule,), num_chunks=(2,), group_sizes="every", time_limit_s=60, **arguments
    )
    sizes = different_group_sizes(schedule, SIZES)
    assert {each.group_size for each in best.candidates} == set(sizes)
    alone = {
        size: plan(plain_network(6), schedule=schedule, num_chunks=2, group_size=size, time_limit_s=20, **arguments)
        for size in sizes
    }
    assert all(each.status in (Status.OPTIMAL, Status.INFEASIBLE) for each in alone.values())
    known = {size: each.makespan_ns for size, each in alone.items() if each.makespan_ns is not None}
    assert best.outcome.makespan_ns == min(known.values())
    assert best.gap <= 2 * TOLERANCE
    assert known[best.best.group_size] == best.outcome.makespan_ns
    assert best.outcome.plan.group_size == best.best.group_size
    assert simulate(plain_network(6), best.outcome.plan, communication=message).makespan_ns == min(known.values())


def test_another_size_fits_where_the_usual_one_does_not():
    """The usual groups of 3 and 5 begin with 5; groups of 4 keep fewer."""
    arguments = {"num_ranks": 3, "num_microbatches": 8, "num_chunks": 2, "schedule": "interleaved", "time_limit_s": 20}
    assert least_group_size(request(), "interleaved") == 4
    usual, fewer = (plan(plain_network(6), group_size=size, **arguments) for size in (None, 4))
    assert max(fewer.simulation.peak_memory_bytes) < max(usual.simulation.peak_memory_bytes)
    needed = plan(plain_network(6), memory_limit_bytes=100 * MEGABYTE, **arguments)
    assert any(sentence.startswith("groups of 4 microbatches would") for sentence in needed.infeasibility.advice)


def test_a_few_promising_sizes_are_tried_with_all_schedules():
    assert tried_group_sizes(request(), "1f1b", which="promising") == (None,)
    assert tried_group_sizes(request(), "interleaved", which="promising") == (None, 4)
    even = Sizes(num_ranks=3, num_chunks=2, num_microbatches=9)
    assert tried_group_sizes(request(sizes=even), "interleaved", which="promising") == (None,)
    with_messages = tried_group_sizes(request(MESSAGE, even), "interleaved", which="promising")
    assert len(with_messages) == 2
    assert set(tried_group_sizes(request(), "interleaved", which="every")) == set(
        different_group_sizes("interleaved", SIZES)
    )
    best = plan_best(plain_network(6), num_ranks=3, num_microbatches=8, num_chunks=(2,), time_limit_s=20)
    assert {each.group_size for each in best.candidates if each.schedule == "interleaved"} == {None, 4}


def test_the_bound_covers_sizes_for_which_there_was_no_time():
    best = plan_best(
        plain_network(40), num_ranks=4, num_microbatches=40, families=("interleaved",), num_chunks=(2,),
        group_sizes="every", time_limit_s=0.01,
    )  # fmt: skip
    untried = [each for each in best.candidates if each.outcome is None and each.is_bounded]
    assert untried
    assert 0 < best.lower_bound_ns <= best.outcome.makespan_ns
    for each in untried[:3]:
        alone = plan(
            plain_network(40), num_ranks=4, num_microbatches=40, num_chunks=2, schedule="interleaved",
            group_size=each.group_size, time_limit_s=5,
        )  # fmt: skip
        assert alone.makespan_ns >= best.lower_bound_ns


def test_a_size_that_the_family_does_not_have_is_refused():
    with pytest.raises(InputError, match="group size must be from 3 to"):
        plan(plain_network(6), num_ranks=3, num_microbatches=8, num_chunks=2, group_size=2)
