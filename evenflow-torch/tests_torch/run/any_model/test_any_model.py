"""Modules that evenflow does not know, in pipelines on real processes: as in one process, under their own names."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from evenflow.model import Plan
from tests_torch.run.any_model.any_cases import (
    dropout_case,
    gpt_case,
    labelled,
    masked,
    planned_case,
    replicas_case,
    translator_case,
    tuples_case,
)
from tests_torch.run.any_model.own_models import Gpt, Translator, Tuples
from tests_torch.run.cases import Answer, untroubled

pytestmark = pytest.mark.processes

NUM_PROCESSES = 2
TOLERANCE = 1e-12
PLAN = Plan(schedule="1f1b", num_microbatches=3, layers=((2, 1),))
CHUNKS = Plan(schedule="interleaved", num_microbatches=2, layers=((1, 1), (1, 1)))
RECOMPUTED = replace(
    CHUNKS, recompute={"full": ((0, 1), (0, 0)), "comm": ((1, 0), (0, 0)), "up+norm": ((0, 0), (1, 0))}
)
SPLIT = Plan(schedule="zbv", num_microbatches=4, layers=((1, 1), (1, 1)))

MODELS = {
    "masks": (partial(gpt_case, PLAN, masked), Gpt(3)),
    "labels": (partial(gpt_case, RECOMPUTED, labelled), Gpt(4)),
    "split backwards, frozen": (partial(gpt_case, SPLIT, masked, frozen=1), Gpt(4)),
    "two tensors": (partial(translator_case, CHUNKS), Translator(2)),
    "tuples": (partial(tuples_case, PLAN), Tuples(3)),
}
CASES: dict[str, Callable[[int], Answer]] = {
    **{name: case for name, (case, _model) in MODELS.items()},
    "dropout": partial(dropout_case, PLAN),
    "planned by auto": planned_case,
    "replicas": partial(replicas_case, Plan(schedule="1f1b", num_microbatches=2, layers=((3,),)), {"pp": 1, "dp": 2}),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled(CASES, NUM_PROCESSES)


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_are_those_of_one_process(answers: dict[str, list[Answer]], name: str) -> None:
    assert max(answer.error for answer in answers[name]) <= TOLERANCE
    assert max(answer.loss_error or 0.0 for answer in answers[name]) <= TOLERANCE


@pytest.mark.parametrize("name", MODELS)
def test_the_state_of_all_ranks_is_that_of_the_model(answers: dict[str, list[Answer]], name: str) -> None:
    assert {own for answer in answers[name] for own in answer.names} == set(MODELS[name][1].state_dict())
    assert all(answer.found for answer in answers[name])


def test_dropout_is_drawn_by_step_in_training_alone(answers: dict[str, list[Answer]]) -> None:
    assert [answer.found for answer in answers["dropout"]] == [None, (True, True)]
