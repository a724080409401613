"""The order of a plan: what can be run of it, and which sends of gradients have ended when a forward comes."""

from dataclasses import replace
from typing import Any

import pytest

from evenflow.errors import InputError
from evenflow.model import HostLink, Plan
from evenflow.schedule import FAMILIES, Op, make_schedule
from evenflow_torch.run.engine.order import answered_backwards, check_keepers, check_world, runnable_order


@pytest.mark.parametrize("family", FAMILIES)
def test_a_forward_says_which_backwards_came_before_it(family: str) -> None:
    chunks = FAMILIES[family].num_chunks or 2
    schedule = make_schedule(family, num_ranks=3, num_chunks=chunks, num_microbatches=6)
    assert not answered_backwards(schedule, 0), "no stage is before the first"
    for stage in range(1, schedule.num_stages):
        order = [a for a in schedule.order(schedule.stage_ranks[stage - 1]) if a.stage == stage - 1]
        seen: set[int] = set()
        answered = answered_backwards(schedule, stage)
        for action in order:
            if action.op == Op.F:
                seen |= set(answered[action.microbatch])
                before = order[: order.index(action)]
                assert seen == {one.microbatch for one in before if one.op in (Op.B, Op.I)}


def test_in_1f1b_each_forward_of_the_steady_phase_answers_for_one_backward() -> None:
    # Rank 0 of two runs F0 F1 B0 F2 B1 F3 B2 B3: what it sends for microbatch 2 says that gradient 0 has come.
    schedule = make_schedule("1f1b", num_ranks=2, num_chunks=1, num_microbatches=4)
    assert answered_backwards(schedule, 1) == {0: [], 1: [], 2: [0], 3: [1]}


PLAN = Plan(schedule="1f1b", num_microbatches=1, layers=((1,),))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sequence_splits": 2}, "sequence_splits must be 1"),
        ({"order": ("0F0,0F1,0B0,0B1",)}, "num_microbatches"),
        ({"order": ("0F0",)}, "must have backwards"),
        ({"order": ("0F0,0I0",)}, "exactly once"),
    ],
)
def test_an_order_that_cannot_be_run_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        runnable_order(replace(PLAN, **changes))


def test_a_plan_runs_in_its_own_order() -> None:
    plan = replace(PLAN, schedule="search", order=("0F0,0I0,0W0",))
    assert [str(action) for action in runnable_order(plan).order(0)] == ["0F0", "0I0", "0W0"]


def test_there_is_one_process_per_rank() -> None:
    check_world(PLAN, 1)
    with pytest.raises(InputError, match="world size must be 1, one process per rank, got 3; start 1 processes"):
        check_world(PLAN, 3)


def test_activations_wait_on_the_host_alone() -> None:
    check_keepers(None)
    check_keepers(HostLink(bytes_per_s=1, keepers=(None, None)))
    with pytest.raises(InputError, match="to the host, not to other ranks, got '0:1'; plan without"):
        check_keepers(HostLink(bytes_per_s=1, keepers=(1, None)))
