"""Layers that move to the host in a training YAML: written, set in a user's file, read back."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import BOTH, COMM, FULL, OFFLOAD, SELECT, Plan, cells
from evenflow.profiles.yaml_values import load_document
from evenflow.targets.frameworks.mindformers.block import fragment
from evenflow.targets.frameworks.mindformers.reader import read_plan
from evenflow.targets.frameworks.mindformers.target import TARGET
from evenflow.targets.frameworks.mindformers.training_yaml import apply_plan
from evenflow.targets.refusal import refusal
from evenflow.targets.target import Baseline, GivenSizes
from tests.thoroughness import examples

USERS = """
model:
  model_config: {num_hidden_layers: 7, offset: [1, 0]}
recompute_config: {recompute: RECOMPUTE, select_recompute: SELECT}
parallel_config: {pipeline_stage: 2, micro_batch_num: 4}
swap_config: {swap: True, SWAP}
"""


def read(text: str) -> Baseline:
    return read_plan(text, "train.yaml", GivenSizes())


def users(swap: str, *, recompute: str = "False", select: str = "False") -> str:
    return USERS.replace("RECOMPUTE", recompute).replace("SELECT", select).replace("SWAP", swap)


@st.composite
def moving_plans(draw: st.DrawFn) -> Plan:
    num_chunks, num_ranks = draw(st.integers(1, 2)), draw(st.integers(2, 3))
    tables: dict[str, list[list[int]]] = {}
    layers = []
    for chunk in range(num_chunks):
        row = []
        for rank in range(num_ranks):
            apart = draw(st.sampled_from([SELECT, COMM]))
            for kind in (FULL, BOTH, apart, OFFLOAD):
                table = tables.setdefault(kind, [[0] * num_ranks for _row in range(num_chunks)])
                table[chunk][rank] = draw(st.integers(0, 2))
            row.append(sum(table[chunk][rank] for table in tables.values()) + draw(st.integers(1, 2)))
        layers.append(row)
    tables[OFFLOAD][0][0] += 1
    layers[0][0] += 1
    return Plan(
        schedule="interleaved" if num_chunks > 1 else "1f1b",
        num_microbatches=draw(st.integers(4, 9)),
        layers=cells(layers),
        recompute={kind: cells(table) for kind, table in tables.items() if any(map(any, table))},
    )


@settings(max_examples=examples(60))
@given(plan=moving_plans())
def test_what_moves_is_read_back(plan: Plan) -> None:
    assert refusal(plan, TARGET.abilities("1.9.0"), title="MindFormers") is None
    text = f"model: {{model_config: {{num_layers: {plan.num_layers}}}}}\n"
    applied = apply_plan(text, file="train.yaml", plan=plan)
    assert read(applied).plan == plan
    assert apply_plan(applied, file="train.yaml", plan=plan) == applied
    swap = load_document(fragment(plan), file="block").value["swap_config"]  # type: ignore[index, call-overload]
    assert swap["swap"] is True
    still = replace(plan, recompute={kind: table for kind, table in plan.recompute.items() if kind != OFFLOAD})
    without = apply_plan(applied, file="train.yaml", plan=still)
    assert read(without).plan == still


def test_the_keys_of_a_plan_that_moves() -> None:
    plan = Plan(
        schedule="1f1b",
        num_microbatches=4,
        layers=((4, 3),),
        recompute={"full": ((1, 0),), "select": ((0, 1),), "offload": ((2, 1),)},
    )
    assert """recompute_config:
  recompute: [0]
  select_recompute: [4]
  select_comm_recompute: false
""" in fragment(plan)
    assert """swap_config:
  swap: true
  layer_swap: [{backward_prefetch: 1, layers: [1, 2, 5]}]
""" in fragment(plan)


@pytest.mark.parametrize(
    ("text", "recompute"),
    [
        (
            users("layer_swap: [{backward_prefetch: 1, layers: [0, 1]}, {backward_prefetch: 2, layers: [4]}]"),
            {"offload": ((2, 1),)},
        ),
        (
            users("layer_swap: [{backward_prefetch: 1, layers: True}]", recompute="[0, 4]"),
            {"full": ((1, 1),), "offload": ((3, 2),)},
        ),
        (users("layer_swap: []", select="{mul: [4], norm: [4]}"), {"select": ((0, 1),)}),
    ],
)
def test_lists_have_numbers_of_layers(text: str, recompute: dict[str, object]) -> None:
    found = read(text)
    assert found.plan.recompute == recompute
    assert found.unknown == ()


def test_what_moves_beside_whole_layers_is_named() -> None:
    assert read(users("layer_swap: ")).unknown == ("train.yaml, line 6: swap_config.swap",)
    found = read(users("op_swap: [{op_name: mul, backward_prefetch: 1, layers: [0]}]"))
    assert [place.rpartition(".")[2] for place in found.unknown] == ["op_swap"]


def test_layers_in_the_middle_of_a_stage_are_counted_as_the_first() -> None:
    found = read(users("layer_swap: [{backward_prefetch: 1, layers: [2, 5]}]", recompute="[2]"))
    assert found.plan.recompute == {"full": ((1, 0),), "offload": ((0, 1),)}
    assert any("do not move" in note for note in found.notes)
    assert any("counted as the first" in note for note in found.notes)


def test_layers_that_predict_further_tokens_are_named() -> None:
    found = read(users("layer_swap: [{backward_prefetch: 1, layers: [0, 7]}]"))
    assert found.plan.recompute == {"offload": ((1, 0),)}
    assert any("layers from 7 on" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (users("layer_swap: 3"), "layer_swap must be a list of entries with backward_prefetch and layers"),
        (
            users("layer_swap: [{layers: [0]}]"),
            "layer_swap must be a list of entries with backward_prefetch and layers",
        ),
        (users("layer_swap: [{backward_prefetch: 1, layers: [[0]]}]"), "must be true, false or a list of numbers"),
        (users("layer_swap: []", select="{mul: [4], norm: [3]}"), "must have the same layers for every pattern"),
    ],
)
def test_what_mindformers_refuses_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        read(text)


def test_split_sequences_do_not_move() -> None:
    plan = Plan(
        schedule="1f1b", num_microbatches=4, layers=((2, 2),), recompute={"offload": ((1, 1),)}, sequence_splits=2
    )
    with pytest.raises(InputError, match=r"recompute must be of the kinds both, select, comm.*sequences are split"):
        fragment(plan)
