"""The adapter of DeepSpeed, on a stand-in of the package; `make check-deepspeed` has the real one."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evenflow.adapters.deepspeed import planned_layers
from evenflow.errors import InputError
from evenflow.model import FULL, SELECT, Plan
from tests.adapters.layer_lists import entries_for, full_plans
from tests.adapters.stub_packages import class_name, deepspeed, is_recomputed, made

__all__ = ["deepspeed"]
PLAN = Plan(schedule="1f1b", num_microbatches=8, layers=((1, 3, 2),), recompute={FULL: ((1, 0, 1),)})


def stages(entries: list[Any]) -> list[list[Any]]:
    """The entries from each marked one on; what is before the first of them is with these."""
    marks = [index for index, entry in enumerate(entries) if class_name(entry).startswith("StageMarker_")]
    return [entries[begin:end] for begin, end in pairwise([0, *marks[1:], len(entries)])]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=full_plans(), head=st.integers(0, 3), tail=st.integers(0, 3))
def test_every_stage_has_its_layers_and_the_first_of_them_recompute(
    deepspeed: None, plan: Plan, head: int, tail: int
) -> None:
    assume(head + plan.layers[0][0] and tail + plan.layers[-1][-1])
    entries = entries_for(plan, head=head, tail=tail)
    planned = stages(planned_layers(entries, plan, head=head, tail=tail))
    same = [made(entry, build="build") for stage in planned for entry in stage]
    assert same == [made(entry, build="build") for entry in entries_for(plan, head=head, tail=tail)]
    extra = [head] + [0] * (plan.num_ranks - 1)
    extra[-1] += tail
    assert [len(stage) for stage in planned] == [a + b for a, b in zip(plan.layers[0], extra, strict=True)]
    for rank, stage in enumerate(planned):
        first = head if rank == 0 else 0
        wanted = range(first, first + plan.count(FULL, 0, rank))
        assert [is_recomputed(each, build="build") for each in stage] == [
            index in wanted for index in range(len(stage))
        ]


def test_the_plan_comes_from_a_file(deepspeed: None, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    fields = {"ranks": 3, "chunks": 1, "microbatches": 8, "schedule": "1f1b", "sequence_splits": 1}
    file.write_text(json.dumps({**fields, "layers": PLAN.layers, "recompute": PLAN.recompute}), encoding="utf-8")
    entries = entries_for(PLAN, head=1, tail=0)
    assert [len(stage) for stage in stages(planned_layers(entries, str(file), head=1, tail=0))] == [2, 3, 2]


@pytest.mark.parametrize(
    ("plan", "head", "message"),
    [
        (PLAN, 2, "must be as many as the plan has layers (6), got 5"),
        (
            Plan(schedule="1f1b", num_microbatches=8, layers=((6, 0),)),
            1,
            "tail must be at least 1 beside a stage without layers, got 0; give every stage a layer",
        ),
        (PLAN, -1, "head must be a number of entries, zero or more, got -1"),
        (PLAN, True, "head must be a number of entries, zero or more, got True"),
        (
            Plan(schedule="interleaved", num_microbatches=8, layers=((3, 3), (0, 0))),
            1,
            "chunks must be 1 for DeepSpeed",
        ),
        (
            Plan(schedule="1f1b", num_microbatches=8, layers=((6,),), recompute={SELECT: ((1,),)}),
            1,
            "recompute must be full recomputation for DeepSpeed, got 'select'",
        ),
        (Plan(schedule="own", num_microbatches=1, layers=((6,),), order=("0F0,0B0",)), 1, "schedule must be a family"),
    ],
)
def test_what_cannot_be_planned_is_refused(plan: Plan, head: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        planned_layers(entries_for(PLAN, head=1, tail=0), plan, head=head, tail=0)
    assert message in str(caught.value)
