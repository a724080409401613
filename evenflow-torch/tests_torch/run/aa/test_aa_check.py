"""The A/A check on real processes, every kind of family: a flipped bit is found where it was, and nothing else is."""

from collections.abc import Callable
from functools import partial

import pytest

from evenflow.model import Plan
from evenflow.schedule import FAMILIES
from tests_torch.run.aa.aa_models import (
    FAULTY_RANK,
    aa_case,
    many_checks_case,
    same_case,
    squared_error,
    stateful_case,
)
from tests_torch.run.cases import NUM_RANKS, Answer, untroubled
from tests_torch.run.plans import V_PLAN, family_plan, own_order_plan

pytestmark = pytest.mark.processes

NUM_CLEAN_STEPS = 28

KINDS = ("naive", "1f1b", "interleaved", "zb-h1", "zbv", "dualpipe-v", "1f1b-overlap", "interleaved-remainder-last")
"""Families of one and two chunks, on a line, in turn and in a V, with split backwards and with pairs."""
CASES: dict[str, Callable[[int], Answer]] = {
    **{name: partial(aa_case, family_plan(name)) for name in KINDS},
    "in a V, split on rank 1": partial(aa_case, V_PLAN, tied=True),
    "its own order": partial(aa_case, own_order_plan(5)),
    "row": partial(
        aa_case,
        Plan(schedule="zb-h1", num_microbatches=4, layers=((1, 2, 1),), recompute={"full": ((1, 1, 0),)}),
        is_llama=False,
    ),
    "a loss that saves its input": partial(
        aa_case, Plan(schedule="1f1b", num_microbatches=4, layers=((1, 2, 1),)), is_llama=False, loss=squared_error
    ),
    "the same, split": partial(
        aa_case, Plan(schedule="zb-h1", num_microbatches=4, layers=((1, 2, 1),)), is_llama=False, loss=squared_error
    ),
}
OTHER_FAMILIES: dict[str, Callable[[int], Answer]] = {
    name: partial(aa_case, family_plan(name)) for name in FAMILIES if name not in KINDS
}
SAME: dict[str, Callable[[int], Answer]] = {
    "dropout": partial(same_case, family_plan("interleaved")),
    "dropout that is not seeded": partial(same_case, family_plan("zb-h1"), seed=None),
    "stages in a V": partial(same_case, V_PLAN),
}
MANY = partial(
    many_checks_case,
    Plan(schedule="interleaved", num_microbatches=3, layers=((1, 1, 1),) * 2, recompute={"full": ((1, 0, 0),) * 2}),
    num_steps=NUM_CLEAN_STEPS,
)
STATEFUL = partial(stateful_case, Plan(schedule="1f1b", num_microbatches=4, layers=((1, 1, 1),)))


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled({**CASES, **SAME, "many": MANY, "stateful": STATEFUL})


@pytest.fixture(scope="module")
def answers_of_others() -> dict[str, list[Answer]]:
    return untroubled(OTHER_FAMILIES)


@pytest.mark.parametrize("name", CASES)
def test_a_flipped_bit_is_found_where_it_was_and_nothing_else_is(answers: dict[str, list[Answer]], name: str) -> None:
    check(answers, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER_FAMILIES)
def test_so_it_is_in_all_other_families(answers_of_others: dict[str, list[Answer]], name: str) -> None:
    check(answers_of_others, name)


def check(answers: dict[str, list[Answer]], name: str, backward: str = "gradient of the input") -> None:
    """`backward` is the first tensor of a backward on the faulty rank."""
    for rank, answer in enumerate(answers[name]):
        audit, wanted, faults = answer.found
        assert audit.num_checks == wanted
        assert audit.never_checked == []
        assert 0 < audit.share_per_step <= audit.share_of_run <= 1
        if rank != FAULTY_RANK:
            assert (audit.mismatches, audit.injected) == ([], [])
            continue
        places = [
            f"stage {one.stage}, microbatch {one.microbatch}, step {one.step + 1}, {one.direction}, which was checked"
            for one in audit.mismatches
        ]
        assert audit.injected == places
        tensors = {"forward": "output", "backward": backward}
        assert [(one.rank, one.step, one.direction, one.tensor, one.num_different) for one in audit.mismatches] == [
            (FAULTY_RANK, step, direction, tensors[direction], 1) for step, direction in sorted(faults)
        ]


@pytest.mark.parametrize("name", SAME)
def test_gradients_are_those_of_steps_without_checks_to_the_bit(answers: dict[str, list[Answer]], name: str) -> None:
    for answer in answers[name]:
        assert (answer.error, answer.found) == (0, [])


def test_there_are_no_false_alarms(answers: dict[str, list[Answer]]) -> None:
    found = [answer.found for answer in answers["many"]]
    assert [mismatches for *_, mismatches in found] == [[]] * NUM_RANKS
    assert [checks for checks, *_ in found] == [wanted for _, wanted, _ in found]
    assert sum(checks for checks, *_ in found) >= 250


def test_a_forward_that_is_done_again_leaves_nothing_behind(answers: dict[str, list[Answer]]) -> None:
    for mismatches, counts, goes_on in (answer.found for answer in answers["stateful"]):
        assert mismatches == []
        assert counts == [4.0], "one forward a microbatch"
        assert goes_on, "random numbers go on as without a check"
    assert len(answers["stateful"]) == NUM_RANKS
