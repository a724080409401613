"""Devices and placements read back from a two-level plan's file."""

import json
from pathlib import Path
from typing import Any

import pytest

from evenflow.cluster.mesh_plan import AttentionOnMesh, RowExchange
from evenflow.cluster.placement import PARTIAL, REPLICATE
from evenflow.errors import InputError
from evenflow.profiles.mesh_plan_file import parse_mesh_plan, parse_sizes, read_mesh_plan

RING = {"placement": "S(2)", "rows": "ring", "backward_rows": "balanced"}
STAGE = {
    "rank": 0,
    "devices": [0, 1],
    "mesh": [2],
    "input": {"shape": [4, 8], "item_bytes": 8, "placement": "S(0)"},
    "output": {"shape": [4, 8, 16], "item_bytes": 2, "placement": "R"},
    "parameters": {"model.embed_tokens.weight": "S(1)"},
    "gradients": {"model.embed_tokens.weight": "S(0)"},
    "updates": {"model.embed_tokens.weight": "S(0)"},
    "gathered": {"model.embed_tokens.weight": "R"},
    "entries": {"model.embed_tokens": "R"},
    "products": {
        "model.layers.0.mlp.down_proj": {"reads": "S(1)", "gives": "P"},
        "model.layers.1.mlp.experts": {"reads": "R", "gives": "P", "experts": "S(0)"},
    },
    "attention": {"model.layers.0.self_attn": RING},
}
LAST = {
    **STAGE,
    "rank": 1,
    "devices": [2],
    "mesh": [1],
    "input": {"shape": [4, 8, 16], "item_bytes": 2, "placement": "R"},
    "output": None,
    "parameters": {"lm_head.weight": "R"},
    "gradients": {},
    "updates": {},
    "gathered": {},
    "entries": {},
    "products": {},
}
CLUSTER = {
    "name": "three",
    "mesh": [1, 3],
    "memory_mb": 1024.0,
    "intra_bytes_per_s": 10**9,
    "inter_bytes_per_s": 10**9,
    "intra_latency_ns": 0,
    "inter_latency_ns": 5,
}
PLAN: dict[str, Any] = {"cluster": CLUSTER, "stages": [STAGE, LAST], "sequence": 8, "microbatch": 4}


def text(**changes: Any) -> str:
    return json.dumps({**PLAN, **changes})


def first(**changes: Any) -> str:
    return text(stages=[{**STAGE, **changes}, LAST])


def test_what_stands_there_is_read() -> None:
    plan = parse_mesh_plan(text(), place="plan.json")
    assert plan is not None
    assert plan.devices_of_rank() == [[0, 1], [2]]
    assert plan.rank_of(2) == 1
    assert (plan.cluster.num_devices, plan.cluster.inter.latency_ns) == (3, 5)
    before, after = plan.stages
    assert (before.mesh, before.input.placement, before.output and before.output.placement) == (
        (2,),
        (0,),
        (REPLICATE,),
    )
    assert before.parameters == {"model.embed_tokens.weight": (1,)}
    assert before.updates == before.gradients == {"model.embed_tokens.weight": (0,)}
    assert before.attention == {
        "model.layers.0.self_attn": AttentionOnMesh(
            placement=(2,), rows=RowExchange.RING, backward_rows=RowExchange.BALANCED
        )
    }
    assert before.gathered == {"model.embed_tokens.weight": (REPLICATE,)}
    newer = {"gradients", "attention", "gathered"}
    older = json.dumps({**PLAN, "stages": [{key: STAGE[key] for key in STAGE if key not in newer}, LAST]})
    plan = parse_mesh_plan(older, place="plan.json")
    assert plan is not None
    assert plan.stages[0].gradients == plan.stages[0].attention == plan.stages[0].gathered == {}
    product = before.products["model.layers.0.mlp.down_proj"]
    assert (product.reads, product.gives, product.experts) == ((1,), (PARTIAL,), None)
    assert before.products["model.layers.1.mlp.experts"].experts == (0,)
    assert after.output is None
    assert plan.expert_capacity is None
    limited = parse_mesh_plan(text(expert_capacity=1.25), place="plan.json")
    assert limited is not None
    assert limited.expert_capacity == 1.25
    assert limited.stages[0].token_groups() == {"model.layers.1.mlp.experts": 1}
    split = {**STAGE["products"], "model.layers.1.mlp.experts": {"reads": "S(0)", "gives": "S(0)", "experts": "S(0)"}}
    apart = parse_mesh_plan(first(products=split), place="plan.json")
    assert apart is not None
    assert apart.stages[0].token_groups() == {"model.layers.1.mlp.experts": 2}
    assert parse_sizes(text(), place="plan.json") == (8, 8, 4)


def test_other_plan_files_have_none(tmp_path: Path) -> None:
    assert parse_mesh_plan('{"layers": [[1]]}', place="plan.json") is None
    file = tmp_path / "plan.json"
    file.write_text('{"layers": [[1]]}', encoding="utf-8")
    with pytest.raises(InputError, match="evenflow auto"):
        read_mesh_plan(file)
    file.write_text(text(), encoding="utf-8")
    assert read_mesh_plan(file).num_ranks == 2


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        (first(devices=[0, 0]), r"plan.json: stages\[0\].input"),
        (first(devices=[0, 5]), "must be each of the 3 devices"),
        (first(mesh=[3]), r"stages\[0\].input"),
        (first(mesh=["2"]), r"stages\[0\].mesh"),
        (first(rank=-1), r"stages\[0\].rank"),
        (first(parameters={"w": "S"}), r"stages\[0\].parameters.w"),
        (first(parameters={"w": "R R"}), "each of the 1 axes"),
        (first(gradients={"w": "S"}), r"stages\[0\].gradients.w"),
        (first(gathered={"w": "S"}), r"stages\[0\].gathered.w"),
        (first(gathered=["w"]), r"stages\[0\].gathered"),
        (first(products={"w": {"reads": "R"}}), "gives"),
        (first(products={"w": {"reads": "R", "gives": "P", "experts": "S(2)"}}), "experts"),
        (first(products={"w": {"reads": "R", "gives": "P", "experts": "P"}}), "experts"),
        (first(products={"w": {"reads": "R", "gives": "P", "experts": 0}}), "experts"),
        (
            first(attention={"w": {**RING, "rows": "zigzag"}}),
            r"attention.w.rows must be one of gathered, balanced, ring",
        ),
        (first(attention={"w": {**RING, "backward_rows": 1}}), r"attention.w.backward_rows"),
        (first(attention={"w": {**RING, "placement": "S(3)"}}), r"attention.w.placement"),
        (first(attention={"w": {**RING, "placement": "P"}}), r"attention.w.placement"),
        (first(attention={"w": {"rows": "ring"}}), r"attention.w must have the field 'placement'"),
        (first(attention=["w"]), r"stages\[0\].attention"),
        (first(input={"shape": [4, 8], "item_bytes": 8, "placement": "S(2)"}), r"stages\[0\].input"),
        (text(expert_capacity=0.5), "plan.json: expert_capacity must be a number from 1 to 1,000"),
        (text(expert_capacity="1"), "expert_capacity"),
        (text(expert_capacity=None), "expert_capacity"),
        (text(stages=[]), "stages"),
        (text(cluster={**CLUSTER, "mesh": [3]}), "cluster.mesh"),
        (text(cluster={**CLUSTER, "mesh": [0, 3]}), "cluster"),
        (text(cluster={**CLUSTER, "intra_latency_ns": 0.5}), "cluster.intra_latency_ns"),
    ],
)
def test_what_makes_no_sense_is_named_with_its_place(broken: str, named: str) -> None:
    with pytest.raises(InputError, match=named) as caught:
        parse_mesh_plan(broken, place="plan.json")
    assert "plan.json" in str(caught.value)
