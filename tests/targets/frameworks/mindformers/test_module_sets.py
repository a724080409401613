"""Sets of modules as patterns: MindFormers' own rule gives every layer the set that the plan has for it."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.export.train_yaml import apply_to_training_yaml
from evenflow.model import FULL, NONE, Plan, cells, ordered_kinds
from evenflow.profiles.yaml_values import load_document
from evenflow.targets.frameworks.mindformers.block import fragment
from evenflow.targets.frameworks.mindformers.module_sets import APART, PATTERNS, SETS
from evenflow.targets.frameworks.mindformers.reader import read_plan
from evenflow.targets.frameworks.mindformers.target import TARGET
from evenflow.targets.frameworks.mindformers.training_yaml import apply_plan
from evenflow.targets.target import GivenSizes
from tests.thoroughness import examples

FILE = (
    "use_legacy: False\nmodel:\n  model_config:\n    num_layers: LAYERS\nrecompute_config:\n  select_recompute: True\n"
)
CHAINS: list[tuple[str, ...]] = [
    ("layernorm+mlp+shared_experts", "layernorm+mlp", "layernorm"),
    ("layernorm+mlp+shared_experts", "mlp+shared_experts", "mlp"),
    ("layernorm+shared_experts", "shared_experts"),
    ("mlp",),
    (),
]
BOTH_SETS = Plan(
    schedule="1f1b", num_microbatches=2, layers=((3, 3),), recompute={"mlp": ((1, 0),), "layernorm": ((0, 2),)}
)


@st.composite
def plans(draw) -> Plan:
    ranks, chunks = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    layers = [[draw(st.integers(1, 5)) for _rank in range(ranks)] for _chunk in range(chunks)]
    tables = {kind: [[0] * ranks for _chunk in range(chunks)] for kind in (FULL, *SETS)}
    for chunk, row in enumerate(layers):
        for rank, count in enumerate(row):
            left = count
            for kind in (FULL, *draw(st.sampled_from(CHAINS))):
                tables[kind][chunk][rank] = draw(st.integers(0, left))
                left -= tables[kind][chunk][rank]
    return Plan(
        schedule="1f1b" if chunks == 1 else "interleaved",
        num_microbatches=6,
        layers=cells(layers),
        recompute={kind: cells(table) for kind, table in tables.items() if any(map(any, table))},
    )


def read_back(text: str, plan: Plan) -> Plan:
    found = read_plan(text, "train.yaml", GivenSizes(num_layers=plan.num_layers))
    assert not found.unknown
    return found.plan


@given(plan=plans())
@settings(max_examples=examples(60), deadline=None)
def test_what_is_written_reads_back(plan: Plan) -> None:
    assert read_back(fragment(plan), plan) == plan
    applied = apply_plan(FILE.replace("LAYERS", str(plan.num_layers)), file="train.yaml", plan=plan)
    assert read_back(applied, plan) == plan
    assert apply_plan(applied, file="train.yaml", plan=plan) == applied


@given(plan=plans())
@settings(max_examples=examples(60), deadline=None)
def test_the_rule_of_first_layers_gives_every_layer_its_set(plan: Plan) -> None:
    config = load_document(fragment(plan), file="x").value["recompute_config"]
    select = config["select_recompute"]
    patterns = select if isinstance(select, dict) else {}
    for chunk, row in enumerate(plan.layers):
        for rank, count in enumerate(row):
            order = ordered_kinds({*plan.used_kinds, NONE})
            kinds = [kind for kind in order for _layer in range(plan.count(kind, chunk, rank))]
            for layer, kind in zip(range(count), kinds, strict=True):
                is_full = layer < config["recompute"][chunk][rank]
                reached = [
                    {name for name in PATTERNS if layer < _count(patterns.get(PATTERNS[name][piece]), chunk, rank)}
                    for piece in (0, -1)
                ]
                under = reached[0]
                assert reached == [under, under]
                assert is_full == (kind == FULL)
                assert is_full or under == set(kind.split("+")) - {NONE}


def _count(table: list[list[int]] | None, chunk: int, rank: int) -> int:
    return table[chunk][rank] if table else 0


@pytest.mark.parametrize(
    ("module", "names", "others"),
    [
        (
            "layernorm",
            ["input_layernorm.norm", "pre_mlp_layernorm.cast", "pre_mlp_layernorm.layer_norm", "input_layernorm.mul2"],
            ["input_layernorm", "pre_cross_attn_layernorm.norm", "input_layernorm.weight"],
        ),
        (
            "mlp",
            ["mlp.linear_fc1.matmul", "mlp.activation_func.silu", "mlp.mul", "mlp.split", "mlp.linear_fc2.reshape"],
            # A cell would keep what it returns; what the package computes again anyway must not be named.
            ["mlp.linear_fc1", "mlp.activation_func", "mlp.linear_fc2.matmul", "mlp.router.mul", "mlp.reshape"],
        ),
        (
            "shared_experts",
            ["mlp.shared_experts.linear_fc1.matmul", "mlp.shared_experts.linear_fc2.reshape"],
            ["mlp.linear_fc1.matmul", "mlp.shared_experts.linear_fc1.reshape"],
        ),
    ],
)
def test_patterns_are_of_the_operators_of_a_module(module: str, names: list[str], others: list[str]) -> None:
    def is_matched(name: str) -> bool:
        path = name.split(".")
        every = [pattern.split(r"\.") for pattern in PATTERNS[module]]
        return any(len(path) == len(pieces) and all(map(re.fullmatch, pieces, path)) for pieces in every)

    assert all(map(is_matched, names))
    assert not any(map(is_matched, others))


def test_sets_neither_of_which_is_in_the_other_share_no_cell() -> None:
    assert TARGET.can_run(BOTH_SETS)
    mixed = Plan(
        schedule="1f1b", num_microbatches=2, layers=((3, 3),), recompute={"mlp": ((1, 0),), "layernorm": ((1, 0),)}
    )
    assert not TARGET.can_run(mixed)
    with pytest.raises(InputError, match="must not mix layernorm-only and mlp-only layers in one cell for MindFormers"):
        fragment(mixed)
    assert all(not set(first.split("+")) <= set(second.split("+")) for first, second in APART)


def test_sets_are_of_newer_models() -> None:
    with pytest.raises(InputError, match="use_legacy must be false for sets of modules"):
        apply_plan("recompute_config: {}\n", file="train.yaml", plan=BOTH_SETS)
    assert "# with use_legacy False" in fragment(BOTH_SETS)
    split = Plan(schedule="1f1b", num_microbatches=2, layers=((1, 1),), recompute={"mlp": ((1, 0),)}, sequence_splits=2)
    with pytest.raises(InputError, match="sequence_splits must be 1 with sets of modules"):
        fragment(split)


def test_patterns_of_newer_models_are_not_understood_in_a_file_for_older_ones() -> None:
    found = read_plan(f"use_legacy: True\n{fragment(BOTH_SETS)}", "train.yaml", GivenSizes(num_layers=6))
    assert found.plan.recompute == {}
    assert [place.split(":")[-1].strip() for place in found.unknown] == ["recompute_config.select_recompute"]


def test_other_patterns_beside_are_one_kind_as_before() -> None:
    (pattern,) = PATTERNS["layernorm"]
    text = apply_to_training_yaml(
        fragment(Plan(schedule="1f1b", num_microbatches=2, layers=((3, 3),))),
        file="x",
        values={"recompute_config.select_recompute": {pattern: [[1, 2]], r"mlp\.router": [[1, 2]]}},
    )
    found = read_plan(text, "train.yaml", GivenSizes(num_layers=6))
    assert found.plan.recompute == {"select": ((1, 2),)}


def test_communication_beside_sets_is_not_understood() -> None:
    text = apply_to_training_yaml(
        fragment(BOTH_SETS), file="x", values={"recompute_config.select_comm_recompute": [[1, 0]]}
    )
    found = read_plan(text, "train.yaml", GivenSizes(num_layers=6))
    assert found.plan == BOTH_SETS
    assert [place.split(":")[-1].strip() for place in found.unknown] == ["recompute_config.select_comm_recompute"]


def test_a_module_with_a_pattern_less_is_none() -> None:
    patterns = {pattern: [[1, 2]] for pattern in PATTERNS["mlp"][1:]}
    text = apply_to_training_yaml(
        fragment(Plan(schedule="1f1b", num_microbatches=2, layers=((3, 3),))),
        file="x",
        values={"recompute_config.select_recompute": patterns},
    )
    found = read_plan(text, "train.yaml", GivenSizes(num_layers=6))
    assert found.plan.recompute == {"select": ((1, 2),)}
    assert any("linear_fc2" in note for note in found.notes)
