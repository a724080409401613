"""Plans that a person writes: a true file, what evenflow auto wrote, and every way in which they can be wrong."""

import json

import pytest

from evenflow.errors import InputError
from evenflow.predict.training import Sharding
from evenflow.profiles.own_plan_file import OwnPlan, parse_own_plan, read_own_plan

FOUND = {
    "layers": [[5, 3]],
    "recompute": {"full": [[5, 3]], "select": [[0, 0]]},
    "microbatch": 8,
    "microbatches": 4,
    "sequence": 128,
    "degrees": {
        "tensor": 2, "context": 1, "expert": 1, "data": 4, "replicas": 1, "zero": "1", "pipeline": 2, "chunks": 1,
        "sequence_parallel": True,
    },
}  # fmt: skip


def test_a_whole_plan(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(
        "tensor: 8\npipeline: 2\nzero: 1\nrecompute: full\nlayers: [21, 19]\n"
        "placements: {lm_head.weight: column, '*.down_proj.weight': 1}\n"
        "global_batch: 64\nmicrobatch: 8\nmicrobatches: 8\nsequence: 128\nschedule: f-then-b\n"
    )
    assert read_own_plan(path) == OwnPlan(
        file=str(path),
        degrees={"tensor": 8, "pipeline": 2},
        zero=Sharding.OPTIMIZER,
        recompute="full",
        layers=(21, 19),
        placements=(("lm_head.weight", "column"), ("*.down_proj.weight", "1")),
        global_batch=64,
        microbatch=8,
        microbatches=8,
        sequence=128,
        schedule="f-then-b",
    )


def test_the_same_in_json():
    assert parse_own_plan('{"data": 4, "zero": "3"}', place="own") == OwnPlan(
        file="own", degrees={"data": 4}, zero=Sharding.PARAMETERS
    )
    assert parse_own_plan("{}", place="own") == OwnPlan(file="own")


def test_a_plan_that_was_found():
    assert parse_own_plan(json.dumps(FOUND), place="found") == OwnPlan(
        file="found",
        degrees={"tensor": 2, "data": 4, "context": 1, "expert": 1, "pipeline": 2},
        zero=Sharding.OPTIMIZER,
        recompute="full",
        layers=(5, 3),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tensor: 0", "own, line 1: tensor must be an integer from 1 to 1,000,000, got 0"),
        ("tensor: two", "tensor must be an integer"),
        ("data: true", "data must be an integer"),
        ("tensr: 2", "own, line 1: tensr is an unknown field"),
        ("schedule: zb-h1", "schedule must be one of 1f1b, eager-1f1b, f-then-b, got 'zb-h1'"),
        ("microbatches: 0", "microbatches must be an integer from 1"),
        ("sequence: 4k", "sequence must be an integer"),
        ("zero: 4", "zero must be one of 0, 1, 2, 3, got 4"),
        ("zero: true", "zero must be one of 0, 1, 2, 3"),
        ("zero:", "zero must be one of 0, 1, 2, 3"),
        ("recompute: [full]", "recompute must be a text"),
        ("pipeline: 2\nlayers: [3]", "layers"),
        ("layers: 3", "layers must be"),
        ("layers: [0]", "layers"),
        ("placements: [a]", "placements must be"),
        ("placements: {a: [1]}", "placements.a must be a text"),
        ("- 1", "own"),
        ("tensor: {", "own"),
        ("", "own"),
    ],
)
def test_spoiled_plans(text, message):
    with pytest.raises(InputError) as caught:
        parse_own_plan(text, place="own")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": [[3, 2], [2, 1]]}, "layers must be those of a pipeline with 1 chunk"),
        ({"recompute": {"full": [[5, 2]]}}, "recompute must be of all layers or of none"),
        ({"degrees": None, "degrees_missing": "stage 0 is on 4 devices, stage 1 on 2"}, "stage 0 is on 4 devices"),
        ({"degrees": {**FOUND["degrees"], "zero": "x"}}, "degrees.zero must be one of"),
    ],
)
def test_found_plans_that_have_no_degrees(changes, message):
    with pytest.raises(InputError) as caught:
        parse_own_plan(json.dumps({**FOUND, **changes}), place="found")
    assert message in str(caught.value)
