"""Data parallelism around the pipeline, on real processes: losses and gradients are those of one process."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from evenflow.model import Plan
from tests_torch.run.cases import Answer, run_group, untroubled
from tests_torch.run.replicas.replica_cases import replica_case

pytestmark = pytest.mark.processes

NUM_PROCESSES = 4
TOLERANCE = 1e-12

PLAN = Plan(schedule="1f1b", num_microbatches=3, layers=((2, 1),), recompute={"full": ((1, 0),), "select": ((1, 1),)})
SPLIT = replace(PLAN, schedule="zb-h1")
CHUNKS = Plan(schedule="interleaved", num_microbatches=4, layers=((1, 1), (2, 0)), recompute={"full": ((0, 1), (1, 0))})
ON_HOST = replace(PLAN, recompute={"offload": ((1, 1),)})
ONE = Plan(schedule="1f1b", num_microbatches=2, layers=((2,),))

SHARDED, COPIED = {"dp": 2, "pp": 2}, {"pp": 2, "dp_replicate": 2}

IN_A_V = Plan(schedule="zbv", num_microbatches=4, layers=((1, 1), (1, 0)))

CASES: dict[str, Callable[[int], Answer]] = {
    "shared": partial(replica_case, PLAN, SHARDED),
    "shared, dropout": partial(replica_case, PLAN, SHARDED, dropout=0.2),
    "shared, split backward": partial(replica_case, SPLIT, SHARDED, dropout=0.2),
    "shared, chunks, tied": partial(replica_case, CHUNKS, SHARDED, tied=True),
    "shared, on the host": partial(replica_case, ON_HOST, SHARDED),
    "copied": partial(replica_case, PLAN, COPIED, dropout=0.2),
    "copied, split backward, tied": partial(replica_case, SPLIT, COPIED, tied=True),
    "hybrid": partial(replica_case, ONE, {"dp_replicate": 2, "dp_shard": 2, "pp": 1}, tied=True),
    "the pipeline alone": partial(replica_case, replace(PLAN, layers=((1, 1, 1, 0),), recompute={}), {"pp": 4}),
}


ON_EIGHT: dict[str, Callable[[int], Answer]] = {
    "hybrid, split backward, tied": partial(
        replica_case, SPLIT, {"pp": 2, "dp_replicate": 2, "dp_shard": 2}, tied=True, dropout=0.2
    ),
    "copied": partial(replica_case, CHUNKS, {"dp_replicate": 4, "pp": 2}),
    "in a V, tied": partial(replica_case, IN_A_V, {"dp": 4, "pp": 2}, tied=True),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled(CASES, NUM_PROCESSES)


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_are_those_of_one_process(answers: dict[str, list[Answer]], name: str) -> None:
    assert max(answer.error for answer in answers[name]) <= TOLERANCE
    losses = [answer.loss_error for answer in answers[name] if answer.loss_error is not None]
    assert losses
    assert max(losses) <= TOLERANCE


@pytest.mark.slow
def test_eight_processes_train_what_one_does() -> None:
    for name, answers_of_case in run_group(ON_EIGHT, 8).items():
        assert not any(answer.trouble for answer in answers_of_case), name
        assert max(answer.error for answer in answers_of_case) <= TOLERANCE, name
        assert max(answer.loss_error or 0.0 for answer in answers_of_case) <= TOLERANCE, name
