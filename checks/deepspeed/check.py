"""Does DeepSpeed build a plan as evenflow means it, and train with it? Run by `make check-deepspeed`.

Every plan is written, the package builds a `PipelineModule` of it on every rank of a group that sends nothing
(`build.py`, in an environment of its own), and its stages and the layers that run twice are compared with the plan.
Then plans are spoiled on purpose: each must be found. The train schedule is compared with 1F1B. At last a plan trains
in four processes (`train.py`), and its losses are compared with those of the model without a pipeline.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from plans import all_plans

from evenflow.model import FULL, Plan
from evenflow.schedule import Op, make_schedule
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import target_named
from evenflow.targets.target import GivenSizes

HERE = Path(__file__).resolve().parent
TARGET = target_named("deepspeed")
VERSION = TARGET.versions[-1]
SPOILED = 20
"""How many of the plans are also spoiled."""
TRAINED = Plan(schedule="1f1b", num_microbatches=8, layers=((1, 3, 2, 2),), recompute={FULL: ((1, 0, 2, 1),)})
RESUMED = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 1, 4, 0),), recompute={FULL: ((0, 1, 3, 0),)})
"""The plan that goes on from a checkpoint of the other."""


@click.command()
@click.option(
    "--python",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="The interpreter of the environment that has deepspeed.",
)
def check(python: Path) -> None:
    """Write, let DeepSpeed build, compare; train."""
    plans = dict(all_plans())
    cases = dict(all_cases(plans))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.json").write_text(json.dumps(cases | baselines()), encoding="utf-8")
        run(python, HERE / "build.py", folder)
        seen = json.loads((folder / "seen.json").read_text("utf-8"))
    click.echo(f"DeepSpeed {seen['version']}: {len(plans)} plans, {len(cases) - len(plans)} spoiled on purpose")
    failures = [
        f"{plan.num_ranks} ranks, {name}: {error}"
        for name, plan in plans.items()
        if (error := refusal(plan, TARGET.abilities(VERSION), title=TARGET.title))
    ]
    for name, case in baselines().items():
        baseline = TARGET.read(neox_file(case), "neox.yml", GivenSizes()).plan
        full = [baseline.count(FULL, 0, rank) for rank in range(baseline.num_ranks)]
        if seen["cases"][name] != {"layers": list(baseline.layers[0]), "recomputed": full}:
            failures.append(f"{name}: read as {baseline}, DeepSpeed says {seen['cases'][name]}")
    click.echo(f"{len(baselines())} configurations of GPT-NeoX read")
    for name, case in cases.items():
        plan = plans[name.partition(".")[0]]
        fault = difference(expectation(plan, case), seen["cases"][name])
        if bool(fault) != ("spoiled" in name):
            failures.append(f"{name}: {fault or 'a spoiled plan was not noticed'}")
    orders = seen["orders"]
    failures += [f"order of {name}: not 1F1B" for name, jobs in orders.items() if jobs != one_f_one_b(name)]
    click.echo(f"{len(orders)} orders of its train schedule compared with 1F1B")
    whole, split, resumed = losses(python)
    click.echo(f"losses of the whole model:       {whole}")
    click.echo(f"losses of 4 ranks with a plan:   {split}")
    click.echo(f"the last one, after another cut: {resumed}")
    if max(abs(a - b) for a, b in zip([*whole, whole[-1]], [*split, *resumed], strict=True)) > 1e-6:
        failures.append("the losses differ")
    click.echo(f"{len(failures)} failures")
    for failure in failures:
        click.echo(failure, err=True)
    sys.exit(1 if failures else 0)


def run(python: Path, *arguments: object, processes: int = 0) -> str:
    """Run a script in DeepSpeed's environment, under torchrun where there are processes; return what it prints."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes else []
    path = f"{python.absolute().parent}{os.pathsep}{os.environ['PATH']}"
    compiled = python.absolute().parents[1] / "torch_extensions"  # DeepSpeed's operator for messages on CPU
    for lock in compiled.rglob("lock"):  # of a check that was stopped, for which the next would wait forever
        lock.unlink()
    done = subprocess.run(
        [python.absolute(), *launcher, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PATH": path,
            "DS_BUILD_OPS": "0",
            "OMP_NUM_THREADS": "1",
            "TORCH_EXTENSIONS_DIR": str(compiled),
        },
    )
    if done.returncode:
        sys.exit(f"DeepSpeed could not be run:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def all_cases(plans: dict[str, Plan]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a case for every plan, and cases with something else in them than the plan."""
    for index, (name, plan) in enumerate(plans.items()):
        head, tail = max(index % 4, plan.layers[0][0] == 0), max(index % 3, plan.layers[-1][-1] == 0)
        case = {
            "module": TARGET.write(plan, VERSION).pieces[0].text,
            "ranks": plan.num_ranks,
            "entries": head + plan.num_layers + tail,
            "head": head,
            "tail": tail,
            "functions": index % 2 == 1,
        }
        yield name, case
        if index >= SPOILED or plan.num_ranks == 1:
            continue
        [row] = plan.layers
        giver = max(range(plan.num_ranks), key=row.__getitem__)
        moved = [count + (rank == (giver + 1) % plan.num_ranks) - (rank == giver) for rank, count in enumerate(row)]
        yield f"{name}.spoiled-layer-moved", case | {"module": with_list(case["module"], "LAYERS", moved)}
        full = [plan.count(FULL, 0, rank) for rank in range(plan.num_ranks)]
        full[giver] += -1 if full[giver] else 1
        yield f"{name}.spoiled-recompute", case | {"module": with_list(case["module"], "RECOMPUTED", full)}
        uniform = case["module"].replace("type:^StageMarker_", "uniform")
        if moved_by_uniform(plan, head, tail):
            yield f"{name}.spoiled-method", case | {"module": uniform}


def baselines() -> dict[str, dict[str, Any]]:
    """Return sizes and methods of configurations of GPT-NeoX, always the same."""
    made = random.Random(1)
    cases = {}
    for index in range(100):
        ranks = made.randint(1, 8)
        cases[f"neox-{index:03}"] = {
            "ranks": ranks,
            "layers": made.randint(ranks, 50),
            "method": made.choice(["type:transformer|mlp", "type:^Parallel.*Pipe$", "type:transformer", "uniform"]),
            "interval": made.choice([0, 1, 1, 2, 3]),
        }
    return cases


def neox_file(case: dict[str, Any]) -> str:
    """Return a configuration of GPT-NeoX."""
    lines = [
        f'"pipe-parallel-size": {case["ranks"]}',
        f'"num-layers": {case["layers"]}',
        f'"pipe_partition_method": "{case["method"]}"',
        '"gradient_accumulation_steps": 8',
        f'"checkpoint-activations": {"true" if case["interval"] else "false"}',
        f'"checkpoint-num-layers": {case["interval"] or 1}',
    ]
    return "{\n" + ",\n".join(lines) + ",\n}\n"


def with_list(module: str, name: str, values: list[int]) -> str:
    """Return a written module with another list."""
    return re.sub(rf"^{name} = .*$", f"{name} = {values}", module, count=1, flags=re.MULTILINE)


def moved_by_uniform(plan: Plan, head: int, tail: int) -> bool:
    """Return whether an even cut of all entries is another one."""
    sizes = stage_sizes(plan, head, tail)
    each, more = divmod(sum(sizes), len(sizes))
    return sizes != [each + (rank < more) for rank in range(len(sizes))]


def stage_sizes(plan: Plan, head: int, tail: int) -> list[int]:
    """Return the entries of every stage."""
    sizes = list(plan.layers[0])
    sizes[0] += head
    sizes[-1] += tail
    return sizes


def expectation(plan: Plan, case: dict[str, Any]) -> dict[str, Any]:
    """Return what DeepSpeed should make of a plan, in the form of `build.py`."""
    sizes = stage_sizes(plan, case["head"], case["tail"])
    ranks = []
    first = 0
    for rank, size in enumerate(sizes):
        begin = first + (case["head"] if rank == 0 else 0)
        layers = list(range(first, first + size))
        twice = list(range(begin, begin + plan.count(FULL, 0, rank)))
        ranks.append({"layers": layers, "twice": twice, "without_gradient": [], "moved": []})
        first += size
    return {"parts": [sum(sizes[:rank]) for rank in range(len(sizes) + 1)], "ranks": ranks}


def difference(expected: dict[str, Any], seen: dict[str, Any]) -> str:
    """Return the first difference between the plan and what DeepSpeed built; empty for none."""
    if "error" in seen:
        return str(seen["error"])
    if expected["parts"] != seen["parts"]:
        return f"parts: the plan says {expected['parts']}, DeepSpeed {seen['parts']}"
    for rank, (mine, theirs) in enumerate(zip(expected["ranks"], seen["ranks"], strict=True)):
        if mine != theirs:
            return f"rank {rank}: the plan says {mine}, DeepSpeed {theirs}"
    return ""


def one_f_one_b(name: str) -> list[list[list[Any]]]:
    """Return evenflow's 1F1B in the form of `build.py`."""
    ranks, microbatches = map(int, name.split("x"))
    made = make_schedule("1f1b", num_ranks=ranks, num_chunks=1, num_microbatches=microbatches)
    names = {Op.F: "ForwardPass", Op.B: "BackwardPass"}
    return [[[names[each.op], each.microbatch] for each in made.order(rank)] for rank in range(ranks)]


def losses(python: Path) -> list[list[float]]:
    """Return the losses of the model in one piece, with `TRAINED`, and the last one with `RESUMED`."""
    script = HERE / "train.py"
    outputs = [run(python, script, "whole", TRAINED.num_microbatches)]
    with tempfile.TemporaryDirectory() as name:
        for plan in (TRAINED, RESUMED):
            folder = Path(name)
            module, use, config = TARGET.write(plan, VERSION).pieces
            for file, piece in ((module.file_name, module), ("use.py", use), ("config.json", config)):
                (folder / file).write_text(piece.text, encoding="utf-8")
            outputs.append(run(python, script, "pipeline", folder, folder / "checkpoint", processes=plan.num_ranks))
    lines = [line for text in outputs for line in text.splitlines() if line.startswith("losses ")]
    return [json.loads(line.removeprefix("losses ")) for line in lines]


if __name__ == "__main__":
    check()
