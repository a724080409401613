"""Experts on several devices, on real processes: losses and gradients are those of a loop over experts on one."""

from collections.abc import Callable
from functools import partial

import pytest

from evenflow.model import Plan
from tests_torch.run.cases import Answer, untroubled
from tests_torch.run.mesh.expert_models import DATA, EXPERT, SUMMED, WIDTH, expert_case
from tests_torch.run.mesh.mesh_models import On

pytestmark = pytest.mark.processes

NUM_DEVICES = 4
TOLERANCE = 1e-12
ONE_STAGE = Plan(schedule="1f1b", num_microbatches=2, layers=((2,),))
PAIR = Plan(schedule="1f1b", num_microbatches=3, layers=((1, 2),), recompute={"full": ((1, 1),)})


def square(*axes: str) -> tuple[On, ...]:
    return (On(devices=(0, 1, 2, 3), mesh=(2, 2), axes=axes),)


def half(first: str, second: str) -> tuple[On, ...]:
    return (On(devices=(0, 1), mesh=(2,), axes=(first,)), On(devices=(2, 3), mesh=(2,), axes=(second,)))


FOUR = (On(devices=(0, 1, 2, 3), mesh=(4,), axes=(EXPERT,)),)
MESHES: dict[str, tuple[str, Plan, tuple[On, ...]]] = {
    "mixtral, experts over four": ("mixtral", ONE_STAGE, FOUR),
    "mixtral, experts x data": ("mixtral", ONE_STAGE, square(EXPERT, DATA)),
    "mixtral, data x width": ("mixtral", ONE_STAGE, square(DATA, WIDTH)),
    "mixtral, experts x width": ("mixtral", ONE_STAGE, square(EXPERT, WIDTH)),
    "mixtral, two stages": ("mixtral", PAIR, half(EXPERT, SUMMED)),
    "gpt-oss, experts x width": ("gpt_oss", ONE_STAGE, square(EXPERT, WIDTH)),
    "gpt-oss, data x experts that are summed": ("gpt_oss", ONE_STAGE, square(DATA, SUMMED)),
    "deepseek, experts over four": ("deepseek_v3", ONE_STAGE, FOUR),
    "deepseek, experts x experts": ("deepseek_v3", ONE_STAGE, square(EXPERT, EXPERT)),
    "deepseek, experts that are summed x experts": ("deepseek_v3", ONE_STAGE, square(SUMMED, EXPERT)),
    "deepseek, two stages": ("deepseek_v3", PAIR, half(EXPERT, WIDTH)),
}
LIMITED: dict[str, tuple[str, Plan, tuple[On, ...], float]] = {
    "mixtral, experts over four, at most an equal load": ("mixtral", ONE_STAGE, FOUR, 1.0),
    "mixtral, data x width, at most 1.25": ("mixtral", ONE_STAGE, square(DATA, WIDTH), 1.25),
    "mixtral, experts x data, at most 1.1": ("mixtral", ONE_STAGE, square(EXPERT, DATA), 1.1),
    "gpt-oss, experts x width, at most 1.1": ("gpt_oss", ONE_STAGE, square(EXPERT, WIDTH), 1.1),
    "deepseek, experts that are summed x experts, at most 1.2": ("deepseek_v3", ONE_STAGE, square(SUMMED, EXPERT), 1.2),
    "deepseek, two stages, at most 1.5": ("deepseek_v3", PAIR, half(EXPERT, WIDTH), 1.5),
}
CASES: dict[str, Callable[[int], Answer]] = {
    **{name: partial(expert_case, *mesh) for name, mesh in MESHES.items()},
    **{name: partial(expert_case, *mesh, capacity=factor) for name, (*mesh, factor) in LIMITED.items()},
    "mixtral, room for all": partial(expert_case, "mixtral", ONE_STAGE, FOUR, capacity=2.0),
}


WIDE = {
    "mixtral, experts x width", "deepseek, experts over four", "mixtral, data x width, at most 1.25",
    "mixtral, experts x data, at most 1.1", "gpt-oss, data x experts that are summed", "deepseek, two stages",
}  # fmt: skip
"""Layouts that others have with another model, and models that are there on another layout."""
NARROW = {name: case for name, case in CASES.items() if name not in WIDE}


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled(NARROW, NUM_DEVICES)


@pytest.fixture(scope="module")
def wide_answers() -> dict[str, list[Answer]]:
    return untroubled({name: CASES[name] for name in sorted(WIDE)}, NUM_DEVICES)


@pytest.mark.parametrize("name", NARROW)
def test_losses_and_gradients_are_those_of_one_device(answers: dict[str, list[Answer]], name: str) -> None:
    check(answers, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WIDE))
def test_so_they_are_on_more_layouts(wide_answers: dict[str, list[Answer]], name: str) -> None:
    check(wide_answers, name)
    assert name not in LIMITED or wide_answers[name][0].found > 0


def check(answers: dict[str, list[Answer]], name: str) -> None:
    """The losses and the gradients of a case are those of one device."""
    assert max(answer.error for answer in answers[name]) <= TOLERANCE
    losses = [answer.loss_error for answer in answers[name] if answer.loss_error is not None]
    assert losses
    assert max(losses) <= TOLERANCE


@pytest.mark.parametrize("name", [name for name in LIMITED if name in NARROW])
def test_some_tokens_were_dropped(answers: dict[str, list[Answer]], name: str) -> None:
    assert answers[name][0].found > 0


def test_nothing_is_dropped_where_all_find_room(answers: dict[str, list[Answer]]) -> None:
    free, limited = (answers[f"mixtral, {name}"][0] for name in ("experts over four", "room for all"))
    assert limited.found == 0
    assert (limited.loss_error, limited.error) == (free.loss_error, free.error)


def test_a_device_keeps_its_own_experts_only(answers: dict[str, list[Answer]]) -> None:
    whole, quarter = (answers[f"mixtral, {name}"][0].found for name in ("data x width", "experts over four"))
    assert whole == 1
    assert quarter < 0.5
