"""Replicas around plans whose stages lie on several devices: losses and gradients are the unsplit model's."""

from collections.abc import Callable
from functools import partial

import pytest

from evenflow.model import Plan
from tests_torch.run.cases import Answer, untroubled
from tests_torch.run.mesh.mesh_models import DATA, SHARDED, TENSOR, On
from tests_torch.run.mesh.replicated_models import saved_case, steps_case

pytestmark = pytest.mark.processes

ONE_STAGE = Plan(schedule="1f1b", num_microbatches=2, layers=((3,),), recompute={"full": ((1,),)})
SPLIT = Plan(schedule="zb-h1", num_microbatches=3, layers=((2, 1),), recompute={"select": ((1, 1),)})
IN_ORDER, BESIDE = ("dp_replicate", "pp"), ("pp", "dp_replicate")
ONE_EACH = tuple(On(devices=(device,), mesh=(1,), axes=(DATA,)) for device in range(2))

CASES: dict[str, Callable[[int], Answer]] = {
    "tensor": partial(steps_case, ONE_STAGE, (On(devices=(0, 1), mesh=(2,), axes=(TENSOR,)),), IN_ORDER),
    "data, replicas beside each other": partial(
        steps_case, ONE_STAGE, (On(devices=(0, 1), mesh=(2,), axes=(DATA,)),), BESIDE
    ),
    "sharded data": partial(steps_case, ONE_STAGE, (On(devices=(0, 1), mesh=(2,), axes=(SHARDED,)),), IN_ORDER),
    "two ranks, split backward": partial(steps_case, SPLIT, ONE_EACH, BESIDE),
}
SAVED: dict[str, Callable[[int], Answer]] = {
    "saved, sharded data": partial(saved_case, ONE_STAGE, (On(devices=(0, 1), mesh=(2,), axes=(SHARDED,)),), IN_ORDER),
    "saved, two ranks": partial(saved_case, SPLIT, ONE_EACH, BESIDE),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled({**CASES, **SAVED}, 4)


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_are_those_of_all_samples(answers: dict[str, list[Answer]], name: str) -> None:
    assert max(answer.error for answer in answers[name]) <= 1e-12
    losses = [answer.loss_error for answer in answers[name] if answer.loss_error is not None]
    assert losses
    assert max(losses) <= 1e-12


@pytest.mark.parametrize("name", SAVED)
def test_a_checkpoint_goes_on_with_replicas_elsewhere(answers: dict[str, list[Answer]], name: str) -> None:
    assert max(answer.error for answer in answers[name]) <= 1e-10
    assert all(answer.found for answer in answers[name])
