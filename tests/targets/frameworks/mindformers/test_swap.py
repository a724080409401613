"""Layers that move to the host in a training YAML: written, set in a user's file, read back."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.export.train_yaml import value_at
from evenflow.model import BOTH, COMM, FULL, OFFLOAD, SELECT, Plan, cells, looped, moves
from evenflow.profiles.yaml_values import load_document
from evenflow.targets.frameworks.mindformers.block import fragment
from evenflow.targets.frameworks.mindformers.module_sets import PATTERNS, has_sets
from evenflow.targets.frameworks.mindformers.reader import read_plan
from evenflow.targets.frameworks.mindformers.target import TARGET
from evenflow.targets.frameworks.mindformers.training_yaml import apply_plan
from evenflow.targets.refusal import refusal
from evenflow.targets.stages import stages_of
from evenflow.targets.target import Baseline, GivenSizes
from tests.thoroughness import examples

USERS = """
model:
  model_config: {num_hidden_layers: 7, offset: [1, 0]}
recompute_config: {recompute: RECOMPUTE, select_recompute: SELECT}
parallel_config: {pipeline_stage: 2, micro_batch_num: 4}
swap_config: {swap: True, SWAP}
"""
MOVED = (
    r"[{op_name: ['self_attention\.(core_attention|reshape)', 'self_attention\.linear_proj\.reshape'], "
    "backward_prefetch: 1, layers: [0, 1]}]"
)


def read(text: str) -> Baseline:
    return read_plan(text, "train.yaml", GivenSizes())


def users(swap: str, *, recompute: str = "False", select: str = "False") -> str:
    return USERS.replace("RECOMPUTE", recompute).replace("SELECT", select).replace("SWAP", swap)


WHOLE_KINDS = (FULL, BOTH, OFFLOAD, "both+offload", "select+offload", "comm+offload")
NEWER_KINDS = (
    FULL,
    OFFLOAD,
    "layernorm+mlp",
    "layernorm",
    "offload_core_attn+offload_attn_proj",
    "layernorm+offload_core_attn+offload_attn_proj",
    "layernorm+mlp+shared_experts+offload_core_attn+offload_attn_proj",
    "mlp+offload",
)


@st.composite
def moving_plans(draw: st.DrawFn) -> Plan:
    num_chunks, num_ranks = draw(st.integers(1, 2)), draw(st.integers(2, 3))
    is_newer = draw(st.booleans())
    every = NEWER_KINDS if is_newer else (*WHOLE_KINDS, SELECT, COMM)
    tables = {kind: [[0] * num_ranks for _row in range(num_chunks)] for kind in every}
    layers = []
    for chunk in range(num_chunks):
        row = []
        for rank in range(num_ranks):
            own = every if is_newer else (*WHOLE_KINDS, draw(st.sampled_from([SELECT, COMM])))
            for kind in own:
                tables[kind][chunk][rank] = draw(st.integers(0, 1))
            row.append(sum(table[chunk][rank] for table in tables.values()) + draw(st.integers(1, 2)))
        layers.append(row)
    tables[draw(st.sampled_from([kind for kind in every if moves(kind)]))][0][0] += 1
    layers[0][0] += 1
    return Plan(
        schedule="interleaved" if num_chunks > 1 else "1f1b",
        num_microbatches=draw(st.integers(4, 9)),
        layers=cells(layers),
        recompute={kind: cells(table) for kind, table in tables.items() if any(map(any, table))},
    )


@settings(max_examples=examples(60), deadline=None)
@given(plan=moving_plans(), is_newer=st.booleans())
def test_what_moves_is_read_back(plan: Plan, is_newer: bool) -> None:
    assert refusal(plan, TARGET.abilities("1.9.0"), title="MindFormers") is None
    is_newer |= has_sets(plan)
    text = f"use_legacy: {not is_newer}\nmodel: {{model_config: {{num_layers: {plan.num_layers}}}}}\n"
    applied = apply_plan(text, file="train.yaml", plan=plan)
    assert read(applied).plan == plan
    assert apply_plan(applied, file="train.yaml", plan=plan) == applied
    top = load_document(applied, file="train.yaml").value
    assert value_at(top, ("swap_config", "swap")) is True
    assert value_at(top, ("model", "model_config", "swap")) is (True if is_newer else None)
    still = replace(plan, recompute={FULL: plan.layers})
    without = apply_plan(applied, file="train.yaml", plan=still)
    assert read(without).plan == still
    assert "swap: true" not in without


@given(plan=moving_plans())
@settings(max_examples=examples(30), deadline=None)
def test_every_operator_is_kept_moved_or_computed_again(plan: Plan) -> None:
    """By MindFormers' rule for lists with swap on, layer by layer, in its own words."""
    top = load_document(fragment(plan), file="block").value
    again, moved = value_at(top, ("recompute_config",)), value_at(top, ("model", "model_config"))
    assert isinstance(again, dict)
    assert isinstance(moved, dict)
    stages = stages_of(plan, looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks))
    select = again["select_recompute"]
    for layer, kind in enumerate(kind for stage in stages for kind in stage.kinds):
        parts = set(kind.split("+"))
        assert (layer in (again["recompute"] or [])) == (kind == FULL)
        if isinstance(select, dict):
            for module, patterns in PATTERNS.items():
                assert {layer in select.get(pattern, []) for pattern in patterns} == {module in parts}
        else:
            assert (layer in (select or [])) == bool(parts & {SELECT, BOTH})
        assert (layer in (again["select_comm_recompute"] or [])) == bool(parts & {COMM, BOTH})
        assert any(layer in entry["layers"] for entry in moved["layer_swap"]) == (OFFLOAD in parts)
        assert any(layer in entry["layers"] for entry in moved.get("op_swap", [])) == ("offload_core_attn" in parts)


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
        (
            users("layer_swap: {backward_prefetch: 1, layers: [0, 4]}", select="[4]"),
            {"offload": ((1, 0),), "select+offload": ((0, 1),)},
        ),
        (users(f"op_swap: {MOVED}"), {"offload_core_attn+offload_attn_proj": ((2, 0),)}),
        (
            users(f"layer_swap: [], op_swap: {MOVED}", select=f"{{'{PATTERNS['layernorm'][0]}': [0, 6]}}"),
            {
                "layernorm+offload_core_attn+offload_attn_proj": ((1, 0),),
                "layernorm": ((0, 1),),
                "offload_core_attn+offload_attn_proj": ((1, 0),),
            },
        ),
    ],
)
def test_lists_have_numbers_of_layers(text: str, recompute: dict[str, object]) -> None:
    found = read(text)
    assert found.plan.recompute == recompute
    assert found.unknown == ()


def test_what_moves_beside_whole_layers_is_named() -> None:
    assert read(users("layer_swap: ")).unknown == ("train.yaml, line 6: swap_config.swap",)
    found = read(users("op_swap: [{op_name: mul, backward_prefetch: 1, layers: [0]}]"))
    assert [place.rpartition(".")[2] for place in found.unknown] == ["op_swap: mul"]
    one = MOVED.replace(r"'self_attention\.linear_proj\.reshape'", "mul")
    found = read(users(f"op_swap: {one}"))
    assert found.plan.recompute == {}
    assert [place.partition(": swap_config.")[2] for place in found.unknown] == [
        r"op_swap: self_attention\.(core_attention|reshape)",
        "op_swap: mul",
    ]
    beside = read(users(f"op_swap: {MOVED}", select="[1]"))
    assert beside.plan.recompute == {
        "select": ((1, 0),),
        "offload_core_attn+offload_attn_proj": ((1, 0),),
    }
    assert [place.rpartition(".")[2] for place in beside.unknown] == ["op_swap"]
    older = read("use_legacy: True" + users(f"op_swap: {MOVED}"))
    assert older.plan.recompute == {}
    assert len(older.unknown) == 2


NEWER = """
use_legacy: False
model:
  model_config: {num_hidden_layers: 7, offset: [1, 0], SWAP}
recompute_config: {recompute: [1, 0]}
parallel_config: {pipeline_stage: 2, micro_batch_num: 4}
swap_config: {swap: True, layer_swap: [{backward_prefetch: 1, layers: [0]}]}
"""


def test_newer_models_look_into_their_own_configuration() -> None:
    found = read(NEWER.replace(", SWAP", ""))
    assert found.plan.recompute == {"full": ((1, 0),)}  # counts of cells
    assert found.unknown == ()
    assert any("nothing moves: newer models" in note for note in found.notes)
    moved = "cpu_offloading: True, cpu_offloading_num_layers: [{backward_prefetch: 1, layers: [4, 5]}]"
    found = read(NEWER.replace("SWAP", moved))
    assert found.plan.recompute == {"full": ((2, 0),), "offload": ((0, 2),)}  # numbers of layers
    assert any("linear_fc1" in note for note in found.notes)
    alone = read(NEWER.replace("SWAP", "swap: True"))
    assert alone.plan.recompute == {"full": ((2, 0),)}
    assert alone.unknown == ()
    assert any("swap without lists moves nothing" in note for note in alone.notes)
    applied = apply_plan(NEWER.replace("SWAP", moved), file="train.yaml", plan=alone.plan)
    assert "cpu_offloading: false" in applied
    assert read(applied).plan == alone.plan


def test_what_a_file_moved_before_is_gone() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((4, 3),), recompute={"offload": ((1, 0),)})
    applied = apply_plan(users(f"op_swap: {MOVED}"), file="train.yaml", plan=plan)
    assert read(applied).plan == plan
    assert "op_swap: []" in applied


def test_layers_in_the_middle_of_a_stage_are_counted_as_the_first() -> None:
    found = read(users("layer_swap: [{backward_prefetch: 1, layers: [2, 5]}]", recompute="[2]"))
    assert found.plan.recompute == {"full": ((1, 0),), "offload": ((0, 1),)}
    assert any("do not move, though swap names them" in note for note in found.notes)
    assert any("counted as the first" in note for note in found.notes)


def test_layers_that_predict_further_tokens_are_named() -> None:
    found = read(users("layer_swap: [{backward_prefetch: 1, layers: [0, 7]}]"))
    assert found.plan.recompute == {"offload": ((1, 0),)}
    assert any("layers from 7 on" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (users("layer_swap: 3"), "layer_swap must be a list of entries with backward_prefetch, layers"),
        (users("layer_swap: [{layers: [0]}]"), "layer_swap must be a list of entries with backward_prefetch, layers"),
        (
            users("op_swap: [{backward_prefetch: 1, layers: [0]}]"),
            "op_swap must be a list of entries with backward_prefetch, layers, op_name",
        ),
        (
            users("op_swap: [{op_name: 3, backward_prefetch: 1, layers: [0]}]"),
            "op_swap must have a text, or a list of texts, as op_name",
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
