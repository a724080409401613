"""Does MindFormers compute again, and move, the sets of modules that a plan says? Run by `make check-mindformers`.

Every plan is written as keys, the package's own layer setting reads them (`load_sets.py`, in its environment), and
what it computes again and moves of every layer, dense or with experts, is compared with the plan. Then patterns are
left out on purpose: each must be found.
"""

import json
import random
import sys
import tempfile
from itertools import permutations
from pathlib import Path
from typing import Any

import click
from reading import read_by_mindformers, with_python

from evenflow.model import FULL, NONE, OFFLOAD, Plan, cells, looped
from evenflow.targets.frameworks.mindformers.block import fragment
from evenflow.targets.frameworks.mindformers.module_sets import KINDS, MOVED, MOVING_SETS, PATTERNS, SETS
from evenflow.targets.stages import stages_of

_NORMS = [f"{name}.{operator}" for name in ("input_layernorm", "pre_mlp_layernorm") for operator in ("norm", "cast")]
_MLP = [
    "mul", "split", "transpose", "add", "linear_fc1.matmul", "linear_fc1.cast", "linear_fc1.add",
    "activation_func.silu", "linear_fc2.reshape",
]  # fmt: skip
OPERATORS: dict[str, dict[str, list[str]]] = {
    "dense": {"layernorm": _NORMS, "mlp": [f"mlp.{name}" for name in _MLP], "shared_experts": []},
    "experts": {
        "layernorm": _NORMS,
        "mlp": ["mlp.mul"],  # of the layer with experts itself, where that has one
        "shared_experts": [f"mlp.shared_experts.{name}" for name in _MLP],
    },
}
"""What is computed again of a layer under each module."""
MOVES = ["self_attention.core_attention", "self_attention.linear_proj.reshape", "self_attention.reshape"]
"""What returns what moves."""
COUNT = 240
SPOILED = 40
"""How many of the plans are also spoiled."""


@click.command()
@with_python
def check(python: Path) -> None:
    """Write, let MindFormers read, compare."""
    plans = {f"random-{index:03}": random_plan(random.Random(f"sets {index}")) for index in range(COUNT)}
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        for index, (name, plan) in enumerate(plans.items()):
            text = f"num_layers: {plan.num_layers}\n{fragment(plan)}"
            written = {name: text} | ({f"{name}.spoiled": spoiled(text)} if index < SPOILED else {})
            for own, content in written.items():
                Path(folder, f"{own}.yaml").write_text(content, encoding="utf-8")
                files[own] = plan
        seen = read_by_mindformers(python, "load_sets.py", Path(folder), files)
    failures = []
    for name, plan in files.items():
        is_same = seen[name] == wanted(plan)
        if is_same == ("spoiled" in name):
            failures.append(f"{name}: {'a spoiled plan was not noticed' if is_same else seen[name]}")
    layers = sum(plan.num_layers for plan in plans.values())
    spoilt = len(files) - len(plans)
    click.echo(f"sets: {len(plans)} plans, {layers} layers, {spoilt} spoiled on purpose, {len(failures)} failures")
    for failure in failures:
        click.echo(failure, err=True)
    sys.exit(1 if failures else 0)


def random_plan(pick: random.Random) -> Plan:
    """Make a plan with uneven layers and random sets; some layer is under one.

    Of a half of the plans nothing moves, and each set is in the one before in its cell.
    """
    if pick.random() < 0.5:
        return moving_plan(pick)
    num_ranks, num_chunks = pick.randint(1, 5), pick.randint(1, 3)
    layers = [[pick.randint(1, 5) for _rank in range(num_ranks)] for _chunk in range(num_chunks)]
    tables = {kind: [[0] * num_ranks for _chunk in range(num_chunks)] for kind in (FULL, *SETS)}
    for chunk, row in enumerate(layers):
        for rank, count in enumerate(row):
            order = pick.choice(list(permutations(PATTERNS)))
            chain = ["+".join(name for name in PATTERNS if name in order[:size]) for size in (3, 2, 1)]
            left = count
            for kind in (FULL, *chain):
                tables[kind][chunk][rank] = pick.randint(0, left)
                left -= tables[kind][chunk][rank]
    if not any(any(map(any, tables[kind])) for kind in SETS):
        tables = {FULL: [[0] * num_ranks for _chunk in range(num_chunks)], "mlp": layers}
    return Plan(
        schedule="1f1b" if num_chunks == 1 else "interleaved",
        num_microbatches=num_ranks,
        layers=cells(layers),
        recompute={kind: cells(table) for kind, table in tables.items() if any(map(any, table))},
    )


def moving_plan(pick: random.Random) -> Plan:
    """Make a plan with layers that move something, each under any kind."""
    num_ranks, num_chunks = pick.randint(1, 5), pick.randint(1, 3)
    layers = [[pick.randint(1, 5) for _rank in range(num_ranks)] for _chunk in range(num_chunks)]
    kinds = [kind for kind in KINDS if kind not in (*SETS, MOVING_SETS[-1]) and pick.random() < 0.6]
    kinds += [pick.choice(SETS), MOVING_SETS[-1]]  # one of those that share no cell
    tables = {kind: [[0] * num_ranks for _chunk in range(num_chunks)] for kind in kinds}
    for chunk, row in enumerate(layers):
        for rank, count in enumerate(row):
            for kind in pick.choices([*kinds, NONE], k=count):
                if kind != NONE:
                    tables[kind][chunk][rank] += 1
    tables[MOVING_SETS[-1]][0][0] += 1
    layers[0][0] += 1
    return Plan(
        schedule="1f1b" if num_chunks == 1 else "interleaved",
        num_microbatches=num_ranks,
        layers=cells(layers),
        recompute={kind: cells(table) for kind, table in tables.items() if any(map(any, table))},
    )


def spoiled(text: str) -> str:
    """Return the text without one of its patterns."""
    patterns = (pattern for of in PATTERNS.values() for pattern in of)
    left_out = next(json.dumps(pattern) for pattern in patterns if json.dumps(pattern) in text)
    return "".join(line for line in text.splitlines(keepends=True) if left_out not in line)


def wanted(plan: Plan) -> list[dict[str, Any]]:
    """Return what the plan computes again and moves of every layer."""
    stages = stages_of(plan, looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks))
    return [
        {of: noted(kind.split("+"), paths) for of, paths in OPERATORS.items()}
        for stage in stages
        for kind in stage.kinds
    ]


def noted(parts: list[str], paths: dict[str, list[str]]) -> dict[str, Any]:
    """Return what a kind with these parts does with a layer that has operators at these paths."""
    return {
        "runs_again": sorted({path for part in parts for path in paths.get(part, [])}),
        "moves": sorted(MOVES) if MOVED[0] in parts else [],
        "full": FULL in parts,
        "offload": OFFLOAD in parts,
    }


if __name__ == "__main__":
    check()
