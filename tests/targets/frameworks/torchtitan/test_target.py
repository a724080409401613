"""torchtitan: what each version can run."""

import json

import pytest
from hypothesis import given

from evenflow.model import FULL, Plan
from evenflow.targets.frameworks.torchtitan.target import TARGET
from evenflow.targets.refusal import refusal
from tests.targets.torch.strategies import plans


@given(plans())
def test_the_newest_version_runs_any_recomputation(plan: Plan) -> None:
    assert refusal(plan, TARGET.abilities("0.3.0"), title=TARGET.title) is None


@pytest.mark.parametrize(
    ("second_chunk", "message"),
    [
        ((0, 2), None),  # on a V the last stage is chunk 1 on rank 0
        (
            (2, 0),
            "layers, chunk 1, rank 1 must be above zero for torchtitan, where only the first and the last stage may be "
            "empty, got 0",
        ),
    ],
)
def test_only_the_ends_may_be_empty(second_chunk: tuple[int, int], message: str | None) -> None:
    plan = Plan(schedule="zbv", num_microbatches=2, layers=((2, 1), second_chunk))
    error = refusal(plan, TARGET.abilities("0.3.0"), title=TARGET.title)
    assert (None if error is None else str(error)) == message


def test_schedules_with_whole_backwards_are_planned_for_and_all_can_be_written() -> None:
    schedules = TARGET.abilities("0.3.0").schedules
    assert "1f1b-v" in schedules
    assert not {"zbv", "zb-h1", "dualpipe-v"} & set(schedules)


@pytest.mark.parametrize(
    ("recompute", "is_possible"),
    [
        ({}, True),
        ({"full": ((2, 3),)}, True),
        ({"full": ((2, 2),)}, False),
        ({"select": ((2, 3),)}, False),
    ],
)
def test_the_old_version_recomputes_all_layers_or_none(
    recompute: dict[str, tuple[tuple[int, int]]], is_possible: bool
) -> None:
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((2, 3),), recompute=recompute)
    assert (refusal(plan, TARGET.abilities("0.2.2"), title=TARGET.title) is None) == is_possible


def test_one_rank_has_no_pipeline() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((2,),), recompute={FULL: ((1,),)})
    error = refusal(plan, TARGET.abilities("0.3.0"), title=TARGET.title)
    assert str(error) == "ranks must be at least 2 for torchtitan, got 1"


def test_versions() -> None:
    toml = "[parallelism]\npipeline_parallel_degree = 2\n"
    assert TARGET.version_of(toml, "run.toml") == "0.2.2"
    saved = {"model_spec": {}, "training": {"local_batch_size": 8}}
    assert TARGET.version_of(json.dumps(saved), "config.json") == "0.3.0"
    saved = {"model_spec": {}, "training": {"num_tokens_per_microbatch_per_dp_rank": 8192}}
    assert TARGET.version_of(json.dumps(saved), "config.json") == "0.4.0"
    assert [TARGET.version(asked) for asked in ("0.2.9", "0.3.5", "0.4")] == ["0.2.2", "0.3.0", "0.4.0"]
    assert TARGET.version_of('{"model": {}}', "config.json") == "0.2.2"
    assert TARGET.version_of("{", "config.json") == "0.3.0"
    assert TARGET.version(None) == "0.3.0"
    assert TARGET.version("0.2.9") == "0.2.2"
