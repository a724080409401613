"""Does MindFormers compute the sets of modules again that a plan says? Run by `make check-mindformers`.

Every plan is written as keys, the package's own layer setting reads them (`load_sets.py`, in its environment), and
what it computes again of every layer, dense or with experts, is compared with the plan. Then patterns are left out on
purpose: each must be found.
"""

import json
import random
import sys
import tempfile
from itertools import permutations
from pathlib import Path
from typing import Any

import click
from reading import read_by_mindformers

from evenflow.model import FULL, NONE, Plan, cells, looped
from evenflow.targets.frameworks.mindformers.block import fragment
from evenflow.targets.frameworks.mindformers.module_sets import PATTERNS, SETS
from evenflow.targets.stages import stages_of

OPERATORS = {
    "dense": {
        "layernorm": ["input_layernorm", "pre_mlp_layernorm"],
        "mlp": ["mlp.activation_func", "mlp.linear_fc1", "mlp.mul"],
        "shared_experts": [],
    },
    "experts": {
        "layernorm": ["input_layernorm", "pre_mlp_layernorm"],
        "mlp": [],
        "shared_experts": [f"mlp.shared_experts.{name}" for name in ("activation_func", "linear_fc1", "mul")],
    },
}
"""What is computed again of a layer under each module."""
COUNT = 240
SPOILED = 40
"""How many of the plans are also spoiled."""


@click.command()
@click.option(
    "--python",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="The interpreter of the environment that has mindformers.",
)
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
    """Make a plan with uneven layers and random sets, each in the one before in its cell; some layer is under one."""
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


def spoiled(text: str) -> str:
    """Return the text without one of its patterns."""
    left_out = next(json.dumps(pattern) for pattern in PATTERNS.values() if json.dumps(pattern) in text)
    return "".join(line for line in text.splitlines(keepends=True) if left_out not in line)


def wanted(plan: Plan) -> list[dict[str, Any]]:
    """Return what the plan computes again of every layer."""
    stages = stages_of(plan, looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks))
    kinds = [kind for stage in stages for kind in stage.kinds]
    return [
        {
            of: FULL
            if kind == FULL
            else sorted(path for name in kind.split("+") if name != NONE for path in paths[name])
            for of, paths in OPERATORS.items()
        }
        for kind in kinds
    ]


if __name__ == "__main__":
    check()
