"""Does MindFormers in PyNative mode read a plan as evenflow means it? Run by `make check-mindformers`.

Every plan is written into a configuration, the package's own classes read it (`load.py`, in an environment of its own),
and what they make of every stage and layer is compared with the plan. Then plans are spoiled on purpose: each must be
found.
"""

import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from evenflow.model import FULL, NONE, SELECT, Plan, cells, looped
from evenflow.targets.frameworks.mindformers_pynative.layer_ranges import layer_ranges
from evenflow.targets.frameworks.mindformers_pynative.target import TARGET
from evenflow.targets.frameworks.mindformers_pynative.values import PATHS, SELECT_MODULE, apply_plan
from evenflow.targets.stages import stages_of

HERE = Path(__file__).resolve().parent
USERS = """# a configuration of a user
parallelism:
  tensor_parallel: 1   # within a machine
  pipeline_parallel: 1
  pipeline_parallel_layers_per_stage: null
recompute: {mode: full, full_recompute_layer: ["0"]}
model:
  model_type: qwen3
"""
CLASSES = {"1f1b": "Schedule1F1B", "interleaved": "ScheduleInterleaved1F1B", "f-then-b": "ScheduleGPipe"}
NAMES = {NONE: "", FULL: "full", SELECT: SELECT_MODULE, **{kind: ",".join(paths) for kind, paths in PATHS.items()}}
RANDOM = 240
SPOILED = 40
"""How many of the plans are also spoiled."""


@click.command()
@click.option(
    "--python",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="The interpreter of the environment that has mindformers 2.",
)
def check(python: Path) -> None:
    """Write, let MindFormers read, compare."""
    plans = {f"random-{index:03}": random_plan(random.Random(f"plan {index}"), index) for index in range(RANDOM)}
    files: dict[str, Plan] = {}
    with tempfile.TemporaryDirectory() as folder:
        for index, (name, plan) in enumerate(plans.items()):
            for label, text in texts(plan, spoils=index < SPOILED):
                Path(folder, f"{name}.{label}.yaml").write_text(text, encoding="utf-8")
                files[f"{name}.{label}"] = plan
        click.echo(f"{len(plans)} plans in {len(files)} configurations; MindFormers reads them ...")
        run = subprocess.run(
            [python.absolute(), HERE / "load.py", folder], cwd=folder, capture_output=True, text=True, check=False
        )
        if run.returncode:
            sys.exit(f"MindFormers could not be run:\n{run.stdout[-2000:]}{run.stderr[-4000:]}")
        seen = {name: json.loads(Path(folder, f"{name}.seen.json").read_text("utf-8")) for name in files}
        known = json.loads(Path(folder, "installed.json").read_text("utf-8"))
    failures = [f"not in the package: {what}" for what, is_there in known.items() if not is_there]
    failures += [f"{name}: {fault}" for name, plan in files.items() if (fault := difference(name, plan, seen[name]))]
    spoiled = sum("spoiled" in name for name in files)
    counts = Counter(plan.schedule for plan in plans.values())
    click.echo("\n" + ", ".join(f"{count} plans under {schedule}" for schedule, count in counts.items()))
    click.echo(
        f"{len(files) - spoiled} configurations read back, {spoiled} spoiled on purpose, {len(failures)} failures"
    )
    for failure in failures:
        click.echo(failure, err=True)
    sys.exit(1 if failures else 0)


def random_plan(pick: random.Random, index: int) -> Plan:
    """Make a plan with uneven layers and random recompute counts that it can run."""
    schedule = list(CLASSES)[index % len(CLASSES)]
    num_ranks, num_chunks = pick.randint(1, 6), pick.randint(2, 4) if schedule == "interleaved" else 1
    layers = [[pick.randint(1, 6) for _ in range(num_ranks)] for _ in range(num_chunks)]
    tables = {kind: [[0] * num_ranks for _ in range(num_chunks)] for kind in (FULL, SELECT, *PATHS)}
    for kind in pick.choice([(), (FULL,), (SELECT,), (FULL, SELECT), (FULL, *PATHS), tuple(PATHS)]):
        for chunk, row in enumerate(layers):
            for rank, count in enumerate(row):
                left = count - sum(table[chunk][rank] for table in tables.values())
                tables[kind][chunk][rank] = pick.randint(0, left)
    plan = Plan(
        schedule=schedule,
        num_microbatches=num_ranks * pick.randint(1, 4),
        layers=cells(layers),
        recompute={kind: cells(table) for kind, table in tables.items() if any(map(any, table))},
    )
    assert TARGET.can_run(plan), plan
    return plan


def texts(plan: Plan, *, spoils: bool) -> Iterator[tuple[str, str]]:
    """Yield configurations of a plan, with a name for each: pasted, in a user's file, and with a fault."""
    model = f"model: {{num_hidden_layers: {plan.num_layers}}}\n"
    pasted = TARGET.write(plan, TARGET.versions[-1]).pieces[0].text + model
    yield "pasted", pasted
    yield "applied", apply_plan(USERS + f"  num_hidden_layers: {plan.num_layers}\n", "user.yaml", plan)
    if not spoils:
        return
    stages = stages_of(plan, looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks))
    if len(stages) > 1 and len(stages[0].layers) > 1:
        moved = pasted.replace(f'["{layer_ranges(stages[0].layers)[0]}', f'["{layer_ranges(stages[0].layers[:-1])[0]}')
        yield "spoiled-layer-lost", moved
    kinds = [kind for stage in stages for kind in stage.kinds]
    full = [layer for layer, kind in enumerate(kinds) if kind == FULL]
    if full and len(full) < len(kinds):
        other = next(layer for layer, kind in enumerate(kinds) if kind != FULL)
        text = pasted.replace(str(layer_ranges(full)).replace("'", '"'), str(layer_ranges(sorted([*full, other]))))
        yield "spoiled-recomputed-more", text
    if {SELECT, *PATHS} & set(kinds):
        yield "spoiled-mode", pasted.replace('mode: "select"', "mode: full" if full else 'mode: "None"')


def difference(name: str, plan: Plan, seen: dict[str, Any]) -> str:
    """Return the first difference between the plan and what MindFormers saw in file `name`; empty for none."""
    stages = stages_of(plan, looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks))
    expected = {
        "ranks": plan.num_ranks,
        "stages": [[stage.layers[0], stage.layers[-1]] for stage in stages],
        "kinds": [NAMES[kind] for stage in stages for kind in stage.kinds],
        "schedule": CLASSES[plan.schedule],
    }
    fault = seen.get("error") or next(
        (
            f"{key}: the plan says {value}, MindFormers {seen[key]}"
            for key, value in expected.items()
            if seen[key] != value
        ),
        "",
    )
    if "spoiled" in name:
        return "" if fault else "a spoiled plan was not noticed"
    return str(fault)


if __name__ == "__main__":
    check()
