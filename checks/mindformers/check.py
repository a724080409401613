"""Does MindFormers read a plan as evenflow means it? Run by `make check-mindformers`.

Every plan is written into training YAMLs, MindFormers' own code reads them (`load.py`, in an environment of its own),
and what it makes of each layer is compared with the plan. So are the plans that evenflow reads in training YAMLs of
every form. Then plans are spoiled on purpose: each must be found.
"""

import copy
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from forms import all_forms
from plans import all_plans
from reading import read_by_mindformers, with_python

from evenflow.export.train_yaml import apply_to_training_yaml
from evenflow.model import BOTH, COMM, FULL, SELECT, Plan
from evenflow.targets.frameworks.mindformers.block import format_mindformers
from evenflow.targets.frameworks.mindformers.training_yaml import apply_plan
from evenflow.targets.frameworks.mindformers.values import training_values

HERE = Path(__file__).resolve().parent
TEMPLATES = {name: (HERE / f"{name}.yaml").read_text(encoding="utf-8") for name in ("llama", "qwen3")}
EMPTY_STAGE = Plan(schedule="interleaved", num_microbatches=4, layers=((3, 0), (3, 2)))
IN_ALL_FORMS = 40
"""How many of the random plans are written in all forms; the others in one each, in turn."""
SPOILED = 12
"""How many of the plans are also spoiled."""


@click.command()
@with_python
def check(python: Path) -> None:
    """Write, let MindFormers read, compare."""
    plans = dict(all_plans())
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), plans)
        click.echo(f"{len(plans)} plans in {len(files)} training YAMLs; MindFormers reads them ...")
        seen = read_by_mindformers(python, "load.py", Path(folder), files)
        known = json.loads((Path(folder) / "installed.json").read_text("utf-8"))
    failures = [f"not in the packages: {what}" for what, is_there in known.items() if not is_there]
    failures += [f"{name}: {fault}" for name, plan in files.items() if (fault := difference(name, plan, seen[name]))]
    print_table(plans, files, seen)
    spoiled = [name for name in files if "spoiled" in name]
    click.echo(
        f"\n{len(plans)} plans, {len(files) - len(spoiled)} training YAMLs read back, "
        f"{sum(name.endswith('.read') for name in files)} of them of users, "
        f"{len(spoiled)} spoiled on purpose, {len(failures)} failures"
    )
    for failure in failures:
        click.echo(failure, err=True)
    sys.exit(1 if failures else 0)


def write_files(folder: Path, plans: dict[str, Plan]) -> dict[str, Plan]:
    """Write the training YAMLs; return for each name the plan that it should hold (or, if spoiled, should not)."""
    files = {}

    def write(name: str, text: str, plan: Plan) -> None:
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        files[name] = plan

    for index, (name, plan) in enumerate(plans.items()):
        forms = [*TEMPLATES, "pasted"]
        if name.startswith("random") and index >= IN_ALL_FORMS:
            forms = [forms[index % len(forms)]]
        for form in forms:
            if form == "pasted":
                text = pasted(plan)
            else:
                text = apply_plan(TEMPLATES[form].replace("LAYERS", str(plan.num_layers)), file=form, plan=plan)
            write(f"{name}.{form}", text, plan)
        if index < SPOILED:
            for fault, values in spoiled_values(plan):
                text = TEMPLATES["qwen3"].replace("LAYERS", str(plan.num_layers))
                text = apply_to_training_yaml(text, file="qwen3", values=values)
                write(f"{name}.spoiled-{fault}", text, plan)
    for name, text, plan in all_forms():
        write(f"{name}.read", text, plan)
    # A block whose comment says that MindFormers refuses it.
    write("refused.spoiled-empty-stage", pasted(EMPTY_STAGE), EMPTY_STAGE)
    return files


def pasted(plan: Plan) -> str:
    """Return the training YAML of a user who pastes the printed block, word for word, and adds a model."""
    model = {
        "model_type": "qwen3",
        "architectures": "Qwen3ForCausalLM",
        "num_hidden_layers": plan.num_layers,
        "num_attention_heads": 4,
        "hidden_size": 64,
    }
    values = {f"model.model_config.{key}": value for key, value in model.items()}
    values |= {"parallel.parallel_mode": 1, "use_legacy": False, "use_parallel": True, "run_mode": "train"}
    _headline, _, block = format_mindformers(plan).partition("\n")
    return apply_to_training_yaml(block, file="the block", values=values)


def spoiled_values(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield training values that differ from the plan's in one place, with a name for the fault."""
    right: dict[str, Any] = dict(training_values(plan))
    chunk, rank = max(
        ((c, r) for c in range(plan.num_chunks) for r in range(plan.num_ranks)),
        key=lambda cell: plan.layers[cell[0]][cell[1]],
    )
    other = (rank + 1) % plan.num_ranks

    values = copy.deepcopy(right)
    values["model.model_config.offset"][chunk][rank] -= 1
    values["model.model_config.offset"][chunk][other] += 1
    yield "layer-moved", values

    # One count up or down, above the fully recomputed layers, where it matters.
    full = plan.count(FULL, chunk, rank)
    for key, count in (
        ("select_recompute", plan.count(BOTH, chunk, rank) + plan.count(SELECT, chunk, rank)),
        ("select_comm_recompute", plan.count(BOTH, chunk, rank) + plan.count(COMM, chunk, rank)),
    ):
        if full < plan.layers[chunk][rank]:
            values = copy.deepcopy(right)
            values[f"recompute_config.{key}"][chunk][rank] += -1 if count else 1
            yield f"{key}-changed", values

    if plan.num_chunks > 1:
        off = {
            "parallel.pipeline_config.pipeline_interleave": False,
            "parallel.pipeline_config.pipeline_scheduler": "1f1b",
        }
        yield "interleave-off", right | off


def difference(name: str, plan: Plan, seen: dict[str, Any]) -> str:
    """Return the first difference between the plan and what MindFormers saw in file `name`; empty for none."""
    fault = seen.get("error") or first_difference(expectation(plan), seen)
    if "spoiled" in name:
        return "" if fault else "a spoiled plan was not noticed"
    return fault


def expectation(plan: Plan) -> dict[str, Any]:
    """Return what MindFormers should see, in the form that `load.py` writes."""
    layers: list[dict[str, Any]] = []
    for chunk in range(plan.num_chunks):
        for rank in range(plan.num_ranks):
            full, both, select, comm = (plan.count(kind, chunk, rank) for kind in (FULL, BOTH, SELECT, COMM))
            layers += (
                {
                    "rank": rank,
                    "chunk": chunk,
                    "full": index < full,
                    "select": full <= index < full + both + select,
                    "comm": full <= index < full + both + comm,
                }
                for index in range(plan.layers[chunk][rank])
            )
    values = training_values(plan)
    return {
        "layers_per_cell": [list(row) for row in plan.layers],
        "layers": layers,
        "interleave": values["parallel.pipeline_config.pipeline_interleave"],
        "scheduler": values["parallel.pipeline_config.pipeline_scheduler"],
        "stages": plan.num_ranks,
        "micro_batch_num": plan.num_microbatches,
        "seq_split_num": plan.sequence_splits,
    }


def first_difference(expected: dict[str, Any], seen: dict[str, Any]) -> str:
    """Return the first key or layer that MindFormers sees differently; empty for none."""
    for key, value in expected.items():
        if key == "layers" and len(value) == len(seen[key]):
            for index, (mine, theirs) in enumerate(zip(value, seen[key], strict=True)):
                if mine != theirs:
                    return f"layer {index}: the plan says {mine}, MindFormers {theirs}"
        elif seen[key] != value:
            return f"{key}: the plan says {value}, MindFormers {seen[key]}"
    return ""


def print_table(plans: dict[str, Plan], files: dict[str, Plan], seen: dict[str, dict[str, Any]]) -> None:
    """Print a row for each plan: its size, its recomputed layers, and how many of its files agree."""
    click.echo("\nplan                          ranks x chunks  layers  a cell  full  select  comm  result")
    for name, plan in plans.items():
        layers = expectation(plan)["layers"]
        counts = [count for row in plan.layers for count in row]
        full, select, comm = (sum(layer[key] for layer in layers) for key in ("full", "select", "comm"))
        own = [file for file in files if file.rpartition(".")[0] == name]
        right = sum(not difference(file, plan, seen[file]) for file in own)
        click.echo(
            f"{name:<30}{f'{plan.num_ranks} x {plan.num_chunks}':>14}{plan.num_layers:>8}"
            f"{f'{min(counts)}..{max(counts)}':>8}{full:>6}{select:>8}{comm:>6}"
            f"  {right} of {len(own)} files {'agree' if right == len(own) else '- DIFFERENT'}"
        )


if __name__ == "__main__":
    check()
