"""Planning and writing for a framework by its name, with every framework there is."""

import pytest

import evenflow
from evenflow.errors import InputError
from evenflow.model import FULL, Plan
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import all_targets
from tests.networks import plain_network

LIMIT = 900 * 2**20
"""Without recomputation the first of 4 ranks, with 3 layers, needs 3 x 50 + 4 x 3 x 100 MB: too much."""


@pytest.mark.parametrize("name", all_targets())
def test_the_best_plan_of_every_framework_is_one_that_it_can_run(name: str) -> None:
    target = all_targets()[name]
    found = evenflow.plan_for_target(
        plain_network(12, "full", "select"), name, num_ranks=4, num_microbatches=8, num_chunks=(1,),
        memory_limit_bytes=LIMIT, time_limit_s=10.0,
    )  # fmt: skip
    plan = found.outcome.plan
    assert plan is not None
    assert f"that {target.title} can run" in found.outcome.certificate()
    for version in target.versions:
        if refusal(plan, target.abilities(version), title=target.title) is None:
            written = evenflow.write_plan(plan, name, version=version)
            assert written.pieces
            assert all(piece.text.endswith("\n") and piece.title for piece in written.pieces)
    assert refusal(plan, target.abilities(target.versions[-1]), title=target.title) is None


@pytest.mark.parametrize("name", all_targets())
def test_no_framework_writes_a_plan_that_it_cannot_run(name: str) -> None:
    layers = ((3, 2, 2, 2),) if name == "megatron-deepspeed" else ((2, 2, 2, 3),)
    mine = Plan(schedule="1f1b", num_microbatches=8, layers=layers, recompute={"mine": ((1, 0, 0, 0),)})
    with pytest.raises(InputError, match="recompute"):
        evenflow.write_plan(mine, name)


def test_a_misspelt_framework_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"target must be one of .*, got 'megatorn'; did you mean megatron\?"):
        evenflow.plan_for_target(plain_network(8), "megatorn", num_ranks=2, num_microbatches=2)


def test_more_recomputation_than_one_number_says_is_refused() -> None:
    uneven = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 3),), recompute={FULL: ((2, 1),)})
    with pytest.raises(InputError, match="recompute must"):
        evenflow.write_plan(uneven, "megatron")
