"""The A/A check on real processes, every family: a flipped bit is found where it was, and nothing else is."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from evenflow.model import Plan
from evenflow.run.aa.bits import flip_bit, num_different
from evenflow.run.aa.check import set_apart
from evenflow.schedule import FAMILIES
from tests.run.aa.aa_models import FAULTY_RANK, aa_case, many_checks_case, same_case, stateful_case
from tests.run.cases import NUM_RANKS, Answer, run_group
from tests.run.engine.test_processes import V_PLAN, family_plan, own_order_plan

NUM_CLEAN_STEPS = 28

CASES: dict[str, Callable[[int], Answer]] = {
    **{name: partial(aa_case, family_plan(name)) for name in FAMILIES},
    "in a V, split on rank 1": partial(aa_case, V_PLAN, tied=True),
    "its own order": partial(aa_case, own_order_plan(5)),
    "row": partial(
        aa_case,
        Plan(schedule="zb-h1", num_microbatches=4, layers=((1, 2, 1),), recompute={"full": ((1, 1, 0),)}),
        is_llama=False,
    ),
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
    found = run_group({**CASES, **SAME, "many": MANY, "stateful": STATEFUL})
    troubles = {(name, answer.trouble) for name, case in found.items() for answer in case if answer.trouble}
    assert not troubles, "\n".join(f"{name}: {trouble}" for name, trouble in sorted(troubles))
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_flipped_bit_is_found_where_it_was_and_nothing_else_is(answers: dict[str, list[Answer]], name: str) -> None:
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
        tensors = {"forward": "output", "backward": "gradient of the input"}
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


@given(
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]),
    st.lists(st.integers(0, 4), max_size=3),
    st.booleans(),
)
def test_one_flipped_bit_is_one_number(dtype: torch.dtype, shape: list[int], turned: bool) -> None:
    values = torch.randn(shape).to(dtype)
    values = values.transpose(0, -1) if turned and values.dim() > 1 else values
    other = values.clone()
    assert num_different(values, other) == 0
    if values.numel():
        flip_bit(other)
        assert num_different(values, other) == 1


def test_bits_tell_what_numbers_do_not() -> None:
    nan = torch.tensor([float("nan"), 1.0])
    assert num_different(nan, nan.clone()) == 0
    assert num_different(torch.tensor([0.0, 2.0]), torch.tensor([-0.0, 2.0])) == 1
    other = nan.clone()
    other.view(torch.int32)[0] ^= 1  # another NaN
    assert num_different(nan, other) == 1
    assert num_different(nan, nan.double()) == 2
    assert num_different(nan, nan[:1]) == 2


@pytest.mark.parametrize("had", [False, True])
def test_gradients_set_apart_are_added_where_they_belong(had: bool) -> None:
    parameter = nn.Parameter(torch.ones(2))
    frozen = nn.Parameter(torch.ones(1))
    parameter.grad = torch.full((2,), 5.0) if had else None
    before = parameter.grad
    gradients: dict[str, torch.Tensor] = {}
    with set_apart({"a": parameter, "b": frozen}, gradients):
        (3 * parameter).sum().backward()
    assert gradients["a"].tolist() == [3.0, 3.0]
    assert list(gradients) == ["a"]
    assert parameter.grad.tolist() == [8.0 if had else 3.0] * 2
    assert before is None or parameter.grad is before
    with set_apart({"a": parameter, "b": frozen}, gradients, merge=False):
        (4 * parameter).sum().backward()
    assert gradients["a"].tolist() == [4.0, 4.0]
    assert parameter.grad.tolist() == [8.0 if had else 3.0] * 2
