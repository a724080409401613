"""The adapter of Paddle, on a stand-in of the package; `make check-paddle` has the real one."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evenflow.adapters.paddle import planned_layers
from evenflow.errors import InputError
from evenflow.model import COMM, FULL, Plan
from tests.adapters.layer_lists import entries_for, full_plans
from tests.adapters.stub_packages import class_name, is_recomputed, made, paddle

__all__ = ["paddle"]


def stages(entries: list[Any], method: list[int] | str) -> list[list[Any]]:
    """The entries of every stage."""
    if isinstance(method, list):
        assert method[-1] == len(entries)
    else:
        assert method == "layer:^StageEnd_"
        ends = [index + 1 for index, entry in enumerate(entries) if class_name(entry).startswith("StageEnd_")]
        method = [0, *ends]
        assert ends[-1] == len(entries)
    return [entries[begin:end] for begin, end in pairwise(method)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=full_plans(max_chunks=3), head=st.integers(0, 3), tail=st.integers(0, 3))
def test_every_stage_has_its_layers_and_the_first_of_them_recompute(
    paddle: None, plan: Plan, head: int, tail: int
) -> None:
    assume(head + plan.layers[0][0] and tail + plan.layers[-1][-1])
    entries = entries_for(plan, head=head, tail=tail)
    planned = stages(*planned_layers(entries, plan, head=head, tail=tail))
    counts = [count for row in plan.layers for count in row]
    full = [plan.count(FULL, chunk, rank) for chunk in range(plan.num_chunks) for rank in range(plan.num_ranks)]
    same = [made(entry, build="build_layer") for stage in planned for entry in stage]
    assert same == [made(entry, build="build_layer") for entry in entries_for(plan, head=head, tail=tail)]
    extra = [head] + [0] * (len(counts) - 1)
    extra[-1] += tail
    assert [len(stage) for stage in planned] == [a + b for a, b in zip(counts, extra, strict=True)]
    for index, stage in enumerate(planned):
        first = head if index == 0 else 0
        assert [is_recomputed(each, build="build_layer") for each in stage] == [
            first <= place < first + full[index] for place in range(len(stage))
        ]


def test_one_chunk_needs_no_entries_of_its_own(paddle: None) -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((1, 3, 2),))
    entries = entries_for(plan, head=1, tail=2)
    assert planned_layers(entries, plan, head=1, tail=2) == (entries, [0, 2, 5, 9])


def test_what_cannot_be_planned_is_refused() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((6,),), recompute={COMM: ((1,),)})
    with pytest.raises(InputError, match="recompute must be of the kinds full, full_attn for Paddle, got 'comm'"):
        planned_layers([], plan, head=0, tail=0)
    plan = Plan(schedule="dualpipe-v", num_microbatches=8, layers=((1, 1), (1, 1)))
    with pytest.raises(InputError, match="must be a family whose chunks go through the ranks from first to last"):
        planned_layers([], plan, head=0, tail=0)
