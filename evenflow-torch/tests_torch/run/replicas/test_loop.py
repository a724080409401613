"""A training loop around pipelines and their replicas, on real processes: as in one process."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from evenflow.model import Plan
from tests_torch.run.cases import Answer, untroubled
from tests_torch.run.replicas.loop_cases import (
    evaluate_case,
    pretrained_case,
    saved_case,
    scaler_case,
    shapes_case,
    tensor_case,
    tokens_case,
    trained_case,
)
from tests_torch.run.replicas.test_replicas import CHUNKS, COPIED, NUM_PROCESSES, PLAN, SHARDED, SPLIT, TOLERANCE

pytestmark = pytest.mark.processes

WHOLE = Plan(schedule="1f1b", num_microbatches=3, layers=((3,),))
SIX_CHUNKS = Plan(schedule="interleaved", num_microbatches=6, layers=((1, 1), (0, 1)))
FOUR = Plan(schedule="interleaved", num_microbatches=4, layers=((1, 1), (1, 1), (1, 0), (0, 1)))

EVALUATIONS: dict[str, Callable[[int], Answer]] = {
    "evaluated, shared": partial(evaluate_case, SPLIT, SHARDED),
    "evaluated, four chunks": partial(evaluate_case, FOUR, SHARDED, tied=True),
    "evaluated, copied": partial(evaluate_case, replace(PLAN, recompute={"offload": ((1, 1),)}), COPIED),
}
TRAININGS: dict[str, Callable[[int], Answer]] = {
    "trained, shared": partial(trained_case, CHUNKS, SHARDED, tied=True),
    "trained, copied": partial(trained_case, SPLIT, COPIED),
}
PRETRAINED: dict[str, Callable[[int], Answer]] = {
    "pretrained": partial(pretrained_case, PLAN, SHARDED, WHOLE, {"pp": 1, "dp": 4}),
    "pretrained, copied": partial(pretrained_case, WHOLE, {"dp_replicate": 4, "pp": 1}, SIX_CHUNKS, SHARDED),
}
CASES: dict[str, Callable[[int], Answer]] = {
    **EVALUATIONS,
    **TRAININGS,
    "other shapes": partial(shapes_case, SPLIT, SHARDED),
    "other shapes, copied": partial(shapes_case, CHUNKS, COPIED),
    "saved": partial(saved_case, replace(PLAN, num_microbatches=6), SHARDED, WHOLE, {"pp": 1, "dp": 4}),
    "saved, copied": partial(saved_case, WHOLE, {"dp_replicate": 4, "pp": 1}, SIX_CHUNKS, SHARDED),
    **PRETRAINED,
    "tokens": partial(tokens_case, PLAN, SHARDED),
    "scaled": partial(scaler_case, PLAN, COPIED),
    "scaled, shared": partial(scaler_case, PLAN, SHARDED),
    "tensor": partial(tensor_case, SPLIT, {"pp": 2, "tp": 2}, ("pp",)),
    "tensor, shared": partial(
        tensor_case, replace(SPLIT, layers=((3,),), recompute={}), {"pp": 1, "dp": 2, "tp": 2}, ("pp", "dp")
    ),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled(CASES, NUM_PROCESSES)


@pytest.mark.parametrize("name", CASES)
def test_losses_gradients_and_parameters_are_those_of_one_process(answers: dict[str, list[Answer]], name: str) -> None:
    assert max(answer.error for answer in answers[name]) <= TOLERANCE
    assert max(answer.loss_error or 0.0 for answer in answers[name]) <= TOLERANCE


@pytest.mark.parametrize("name", EVALUATIONS)
def test_an_evaluation_leaves_nothing_behind(answers: dict[str, list[Answer]], name: str) -> None:
    assert [answer.found for answer in answers[name]] == [(True, True, 0)] * NUM_PROCESSES


@pytest.mark.parametrize("name", TRAININGS)
def test_whole_tensors_are_loaded(answers: dict[str, list[Answer]], name: str) -> None:
    assert all(answer.found for answer in answers[name])


@pytest.mark.parametrize("name", PRETRAINED)
def test_parameters_come_back_from_files_of_hugging_face(answers: dict[str, list[Answer]], name: str) -> None:
    assert all(answer.found for answer in answers[name])


def test_a_batch_of_padding_alone_has_the_loss_zero(answers: dict[str, list[Answer]]) -> None:
    assert {answer.found for answer in answers["tokens"]} == {None, 0.0}


@pytest.mark.parametrize("name", ["scaled", "scaled, shared"])
def test_all_ranks_skip_a_step_that_overflows_on_one(answers: dict[str, list[Answer]], name: str) -> None:
    assert {answer.found for answer in answers[name]} == {2.0**9}
