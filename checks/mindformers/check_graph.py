"""Does MindSpore move, keep and compute again what a plan says? Run by `make check-mindformers`.

Every plan is written as keys, and real layers go through the real compiler (`load_graph.py`, in its environment). What
the forward hands to the backward of each layer is compared with the plan, module by module; the bytes that
``op_swap`` moves are compared with `evenflow.predict`. Then patterns are left out on purpose: each must be found.
"""

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from reading import read_by_mindformers, with_python

from evenflow.model import FULL, NONE, OFFLOAD, Plan, cells, looped
from evenflow.predict.activations import moved_bytes
from evenflow.predict.training import Degrees, Software, Training, set_kind
from evenflow.predict.transformer import Transformer
from evenflow.profiles.yaml_text import block_text, nested
from evenflow.targets.frameworks.mindformers.module_sets import MOVED, MOVED_PATTERNS, PATTERNS
from evenflow.targets.frameworks.mindformers.values import training_values
from evenflow.targets.stages import stages_of

TOKENS, HEADS, KEYS, WIDTH, FFN = 32, 4, 2, 16, 160
MODEL = {
    "hidden_size": HEADS * WIDTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEYS,
    "head_dim": WIDTH,
    "intermediate_size": FFN,
    "seq_length": TOKENS,
    "hidden_dropout": 0.0,
    "position_embedding_type": "none",
}
VARIANTS: dict[str, dict[str, object]] = {
    "fused": {"hidden_act": "swiglu", "bias_swiglu_fusion": True},
    "apart": {"hidden_act": "silu", "use_interleaved_weight_layout_mlp": False},
    "interleaved": {"hidden_act": "swiglu"},
    "packed": {"hidden_act": "swiglu", "bias_swiglu_fusion": True, "use_eod_attn_mask_compression": True},
    "query norms": {"hidden_act": "silu", "qk_layernorm": True},
}
"""Activations, ways to lay out what attention reads, and norms of queries and keys."""
SPOILED = ("fused",)
KINDS = (
    FULL,
    OFFLOAD,
    "layernorm",
    "layernorm+mlp",
    set_kind(MOVED),
    set_kind(("layernorm", *MOVED)),
    set_kind(("layernorm", "mlp", *MOVED)),
    "mlp+offload",
    NONE,
)
_SUMS = 2 * 8 * 4
"""Bytes of flash attention's sums for each head and token, which `predict` counts as 4."""
_NOTHING = 2
"""Bytes of its empty output."""


@click.command()
@with_python
def check(python: Path) -> None:
    """Write, let MindSpore compile, compare."""
    plans: dict[str, tuple[Plan, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for variant, keys in VARIANTS.items():
            plan = random_plan(random.Random(f"graph {variant}"))
            text, name = text_of(plan, keys), variant.replace(" ", "-")
            written = {name: text} | ({f"{name}.spoiled": spoiled(text)} if variant in SPOILED else {})
            for own, content in written.items():
                Path(folder, f"{own}.yaml").write_text(content, encoding="utf-8")
                plans[own] = plan, variant
        seen = read_by_mindformers(python, "load_graph.py", Path(folder), plans)
    failures = []
    for name, (plan, variant) in plans.items():
        faults = [seen[name]] if isinstance(seen[name], str) else list(differences(plan, variant, seen[name]))
        if bool(faults) != ("spoiled" in name):
            failures.append(f"{name}: {'; '.join(faults) or 'a spoiled plan was not noticed'}")
    spoilt = sum("spoiled" in name for name in plans)
    layers = sum(plan.num_layers for name, (plan, _variant) in plans.items() if "spoiled" not in name)
    click.echo(f"graphs: {len(plans) - spoilt} plans, {layers} layers, {spoilt} spoiled, {len(failures)} failures")
    for failure in failures:
        click.echo(failure, err=True)
    sys.exit(1 if failures else 0)


def random_plan(pick: random.Random) -> Plan:
    """Make a plan of two ranks with a layer under each kind, in any order of ranks."""
    tables = {kind: [[0, 0]] for kind in KINDS}
    for kind in KINDS:
        tables[kind][0][pick.randrange(2)] = 1
    layers = [[sum(table[0][rank] for table in tables.values()) for rank in range(2)]]
    for rank in range(2):  # no rank without layers
        if not layers[0][rank]:
            layers[0][rank] += 1
    return Plan(
        schedule="1f1b",
        num_microbatches=2,
        layers=cells(layers),
        recompute={kind: cells(table) for kind, table in tables.items() if kind != NONE},
    )


def text_of(plan: Plan, keys: dict[str, object]) -> str:
    """Return the training YAML of a plan for a small model."""
    model = {"num_hidden_layers": plan.num_layers, **MODEL, **keys}
    values = {**training_values(plan), **{f"model.model_config.{key}": value for key, value in model.items()}}
    return f"use_legacy: false\n{block_text(nested(values))}"


def spoiled(text: str) -> str:
    """Return the text with one pattern that names nothing."""
    pattern = json.dumps(PATTERNS["mlp"][-1])
    assert pattern in text
    return text.replace(pattern, json.dumps("nothing")).replace(json.dumps(MOVED_PATTERNS[1]), json.dumps("nothing"))


def differences(plan: Plan, variant: str, handed_on: list[dict[str, Any]]) -> list[str]:
    """Return where what the forward hands to the backward is not as planned."""
    stages = stages_of(plan, looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks))
    found = []
    for layer, kind in enumerate(kind for stage in stages for kind in stage.kinds):
        own = [entry for entry in handed_on if entry["layer"] == layer and not is_weight(entry["of"])]
        parts = set(kind.split("+"))
        states = {module: state(own, module) for module in ("layernorm", "attention", "mlp")}
        wanted = {
            module: ""
            if kind == FULL or module in parts
            else "moves"
            if OFFLOAD in parts or (module == "attention" and parts & set(MOVED))
            else "stays"
            for module in states
        }
        if OFFLOAD in parts and "mlp" not in parts and "fused" not in variant and variant != "packed":
            wanted["mlp"] = "both"  # the halves of the first product are elements of a tuple
        if variant == "query norms" and parts & set(MOVED):
            wanted["attention"] = "both"  # what the norms of queries and keys read stays
        found += [
            f"layer {layer}, {kind}: {module} {states[module] or 'is gone'}"
            for module in states
            if states[module] != wanted[module]
        ]
        moved = sum(entry["bytes"] for entry in own if entry["moves"] and "self_attention" in entry["of"])
        if parts & set(MOVED) and moved != predicted():
            found.append(f"layer {layer}, {kind}: attention moves {moved} bytes, {predicted()} are predicted")
    return found


def is_weight(name: str) -> bool:
    """Return whether what is held is a weight in the format of the product."""
    return "linear_" in name and "/Cast-" in name


def state(entries: list[dict[str, Any]], module: str) -> str:
    """Return whether what a module keeps moves, stays, both, or is gone."""
    names = {
        "layernorm": ("input_layernorm", "pre_mlp_layernorm"),
        "attention": ("self_attention",),
        "mlp": ("mlp",),
    }[module]
    moves = {entry["moves"] for entry in entries if entry["of"].startswith(names)}
    return {frozenset(): "", frozenset({True}): "moves", frozenset({False}): "stays"}.get(frozenset(moves), "both")


def predicted() -> int:
    """Return the bytes that `predict` says move, with the sums of MindSpore's operator."""
    model = Transformer(
        layers=2, hidden=HEADS * WIDTH, ffn=FFN, heads=HEADS, kv_heads=KEYS, head_dim=WIDTH, vocabulary=8, gated=True
    )
    training = Training(
        model=model,
        degrees=Degrees(),
        microbatch=1,
        global_batch=1,
        sequence=TOKENS,
        software=Software(transposes_attention=True),
        recompute_sets=(MOVED,),
    )
    return moved_bytes(training, model.kinds[0], kind=set_kind(MOVED)) + _SUMS * HEADS * TOKENS + _NOTHING


if __name__ == "__main__":
    check()
