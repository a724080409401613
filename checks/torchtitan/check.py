"""Do torchtitan and NeMo AutoModel build a plan as evenflow means it? Run by `make check-torchtitan`.

Every plan is written for torchtitan 0.2 (TOML), 0.3 (Python) and NeMo AutoModel (YAML). Each package, in an
environment of its own, reads what was written, cuts a model on the meta device and loads the order (`build_*.py`).
Modules per stage, stages per rank, the order, the number of microbatches and what runs under a checkpoint are compared
with the plan. What torchtitan 0.3 saves as its configuration is read back. Then plans are spoiled on purpose: each must
be found. Orders and cuts that the packages choose themselves are compared with those that are read from their settings.
At last plans train in four processes (`train.py`), and their losses are compared with those of the model without a
pipeline; the example of `examples/training` stops and goes on under another plan (`resume.py`).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import click
from plans import all_plans
from trained import train

from evenflow.adapters.torchtitan import LAYER_KINDS, MODULES, SETS
from evenflow.errors import InputError
from evenflow.model import FULL, NONE, Plan, Sizes
from evenflow.model.recompute_parts import recomputed_parts
from evenflow.predict.training import PRODUCTS
from evenflow.schedule import format_schedule, schedule_of
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import target_named
from evenflow.targets.stages import layers_by_kind, stages_of
from evenflow.targets.target import Baseline, GivenSizes, Target
from evenflow.targets.torch.schedule_names import NAMES, ON_A_V, SINGLE, named_schedule

HERE = Path(__file__).resolve().parent
PARTS = ("attention", "feed_forward", "attention_norm", "ffn_norm")
"""The sub-modules of a layer of torchtitan's Llama that a kind can name."""
SPOILED = 20
"""How many of the plans are also spoiled."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package, and how a plan is written for it."""

    target: Target
    version: str
    script: str
    settings: str
    """Name of the file with the settings."""
    names: Callable[[int], str]
    """The name of a layer."""
    first: tuple[str, ...]
    last: tuple[str, ...]
    everywhere: tuple[str, ...] = ()
    checkpoints: bool = True
    """Whether what runs under a checkpoint is compared."""


OLD = Package(
    target=target_named("torchtitan"),
    version="0.2.2",
    script="build_old.py",
    settings="config.toml",
    names="layers.{}".format,
    first=("tok_embeddings",),
    last=("norm", "output"),
)
NEW = replace(OLD, version="0.3.0", script="build_new.py", settings="evenflow_plan.py", last=("norm", "lm_head"))
AUTOMODEL = Package(
    target=target_named("nemo-automodel"),
    version="0.7.0",
    script="build_automodel.py",
    settings="recipe.yaml",
    names="model.layers.{}".format,
    first=("model.embed_tokens",),
    last=("model.norm", "lm_head"),
    everywhere=("model.rotary_emb",),
    checkpoints=False,
)


@click.command()
@click.option(
    "--old", type=click.Path(exists=True, path_type=Path), required=True, help="Python with torchtitan 0.2.2."
)
@click.option(
    "--new", type=click.Path(exists=True, path_type=Path), required=True, help="Python with torchtitan 0.3.0."
)
@click.option(
    "--automodel", type=click.Path(exists=True, path_type=Path), required=True, help="Python with nemo-automodel 0.7.0."
)
def check(old: Path, new: Path, automodel: Path) -> None:
    """Write, let the packages build, compare; train."""
    failures: list[str] = []
    for package, python in ((OLD, old), (NEW, new), (AUTOMODEL, automodel)):
        with tempfile.TemporaryDirectory() as name:
            failures += [
                f"{package.target.title} {package.version}: {each}" for each in _check(package, python, Path(name))
            ]
    with tempfile.TemporaryDirectory() as name:
        failures += train(new, Path(name))
    for failure in failures:
        click.echo(failure, err=True)
    click.echo(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


def _check(package: Package, python: Path, folder: Path) -> Iterator[str]:
    by_layer = package is NEW
    kinds = LAYER_KINDS if by_layer else (FULL, PRODUCTS) if package is OLD else (FULL,)
    ends = 1 if package is AUTOMODEL else 0
    plans = dict(all_plans(kinds=kinds, ends=ends, is_by_layer=by_layer))
    for name, plan in plans.items():
        if error := refusal(plan, package.target.abilities(package.version), title="it"):
            yield f"{name}: {error}"
    expected = dict(_write_all(package, plans, folder / "cases"))
    cuts = _cuts(package)
    orders = [[name, *sizes] for name in NAMES for sizes in _order_sizes(name)] if package is NEW else []
    (folder / "asked.json").write_text(json.dumps({"orders": orders, "cuts": [own for own, _text in cuts]}))
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(HERE.parents[1] / "src")}
    run = subprocess.run(
        [python.absolute(), HERE / package.script, folder],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        sys.exit(f"{package.target.title} could not be run:\n{run.stdout[-2000:]}{run.stderr[-4000:]}")
    seen = json.loads((folder / "seen.json").read_text("utf-8"))
    for name, plan in expected.items():
        fault = _difference(package, plan, seen["cases"][name])
        if "spoiled" in name and not fault:
            yield f"{name}: a spoiled plan was not noticed"
        if "spoiled" not in name and fault:
            yield f"{name}: {fault}"
    num_spoiled = len(expected) - len(plans)
    click.echo(f"{seen['version']}: {len(plans)} plans, {num_spoiled} spoiled on purpose")
    yield from _read_back(package, plans, folder)
    yield from _own_orders(orders, seen.get("orders", []))
    yield from _own_cuts(package, cuts, seen.get("cuts", []))


def _write_all(package: Package, plans: Mapping[str, Plan], folder: Path) -> Iterator[tuple[str, Plan]]:
    for index, (name, plan) in enumerate(plans.items()):
        _write(package, plan, folder / name)
        yield name, plan
        if index < SPOILED:
            for fault, spoil in _spoiled(package, plan):
                _write(package, plan, folder / f"{name}.spoiled-{fault}", spoil)
                yield f"{name}.spoiled-{fault}", plan


def _write(
    package: Package, plan: Plan, folder: Path, spoil: Callable[[str, str], tuple[str, str]] | None = None
) -> None:
    settings, order = (piece.text for piece in package.target.write(plan, package.version).pieces)
    if spoil is not None:
        settings, order = spoil(settings, order)
    folder.mkdir(parents=True)
    (folder / package.settings).write_text(settings, encoding="utf-8")
    (folder / "order.csv").write_text(order, encoding="utf-8")
    (folder / "layers").write_text(str(plan.num_layers))


def _spoiled(package: Package, plan: Plan) -> Iterator[tuple[str, Callable[[str, str], tuple[str, str]]]]:
    """Yield names of faults, and what makes each of them in the texts of settings and order."""
    last = f'"{package.names(plan.num_layers - 1)}"'
    yield "layer-lost", lambda settings, order: (re.sub(rf"{last}(, )?", "", settings), order)
    yield "two-actions-swapped", lambda settings, order: (settings, re.sub(r"^([^,\n]+),([^,\n]+)", r"\2,\1", order))
    batch = rf"(local_batch_size[ =:]+){plan.num_microbatches}\b"
    yield (
        "one-microbatch-more",
        lambda settings, order: (
            re.sub(batch, rf"\g<1>{plan.num_microbatches + 1}", settings),
            order,
        ),
    )
    yield "stages-rotated", lambda settings, order: (_rotated(settings), order)
    if package is NEW and plan.recompute:
        yield (
            "kind-changed",
            lambda settings, order: (
                re.sub(r'^(\s+)"[\w+]+": \[\d+', r'\1"comm": [99999', settings, count=1, flags=re.MULTILINE),
                order,
            ),
        )
    if package is OLD and plan.recompute:
        yield (
            "mode-off",
            lambda settings, order: (re.sub('mode = "(full|selective)"', 'mode = "none"', settings), order),
        )


def _rotated(settings: str) -> str:
    """Return settings whose first stage is the last one."""
    lines = settings.splitlines(keepends=True)
    parts = [index for index, line in enumerate(lines) if re.match(r"\s+(- )?\[\"", line)]
    texts = [lines[index] for index in parts]
    for index, text in zip(parts, [*texts[1:], texts[0]], strict=True):
        lines[index] = text
    return "".join(lines)


def _difference(package: Package, plan: Plan, seen: dict[str, Any]) -> str:
    """Return the first difference between a plan and what the package built; empty for none."""
    if "error" in seen:
        return str(seen["error"])
    schedule = schedule_of(plan)
    stages = stages_of(plan, schedule.stage_ranks)
    for rank, built in enumerate(seen["ranks"]):
        mine = [index for index, stage in enumerate(stages) if stage.rank == rank]
        if sorted(built["stages"]) != mine:
            return f"rank {rank} has the stages {built['stages']}, the plan {mine}"
        for index, modules, under in zip(built["stages"], built["modules"], built["checkpointed"], strict=True):
            stage = stages[index]
            names = {package.names(layer) for layer in stage.layers} | set(package.everywhere)
            names |= set(package.first if index == 0 else ()) | set(package.last if index == len(stages) - 1 else ())
            if set(modules) != names:
                return f"stage {index} has {sorted(modules)}, the plan {sorted(names)}"
            wanted = {
                f"layers.{layer}.{part}".replace(".*", "*").rstrip(".")
                for layer, kind in zip(stage.layers, stage.kinds, strict=True)
                for part in _parts(kind)
            }
            if package.checkpoints and set(under) != wanted:
                return f"stage {index} checkpoints {sorted(under)}, the plan {sorted(wanted)}"
    if seen["order"] != format_schedule(schedule).splitlines():
        return "the order differs"
    if seen["microbatches"] != plan.num_microbatches:
        return f"{seen['microbatches']} microbatches, the plan has {plan.num_microbatches}"
    return ""


def _parts(kind: str) -> Sequence[str]:
    """Return the sub-modules of a layer that run under a checkpoint, the layer itself as the empty name."""
    if kind == PRODUCTS:
        return ("*",)
    if kind in SETS:
        return [MODULES[name] for name in kind.split("+") if MODULES[name] in PARTS]
    return recomputed_parts(kind, ("", *PARTS)) if kind != NONE else ()


def _read_back(package: Package, plans: Mapping[str, Plan], folder: Path) -> Iterator[str]:
    """Read what was written, or what the package saved of it, and compare."""
    assert package.target.read is not None
    count = 0
    for name, plan in plans.items():
        path = folder / "cases" / name / ("saved.json" if package is NEW else package.settings)
        if not path.exists():
            continue
        try:
            found = package.target.read(path.read_text("utf-8"), str(path), GivenSizes())
        except InputError as error:
            yield f"{name}: {error}"
        else:
            count += 1
            if not _is_same(plan, found):
                yield f"{name}: read back as {found}"
    click.echo(f"{package.target.title} {package.version}: {count} settings read back")


def _is_same(plan: Plan, found: Baseline) -> bool:
    ours, theirs = schedule_of(plan), schedule_of(found.plan)
    return (
        plan.layers == found.plan.layers
        and ours.same_order(theirs)
        and layers_by_kind(stages_of(plan, ours.stage_ranks)) == layers_by_kind(stages_of(found.plan, ours.stage_ranks))
        and not found.unknown
    )


def _order_sizes(name: str) -> Iterator[tuple[int, int, int]]:
    for ranks in range(2, 6):
        for chunks in (1,) if name in SINGLE else (2,) if name in ON_A_V else (2, 3):
            # With fewer microbatches than ranks PyTorch's list of 1F1B, for pictures, is not what runs.
            for microbatches in range(ranks if name == "1F1B" else 1, 14):
                yield ranks, chunks, microbatches


def _own_orders(asked: list[list[Any]], seen: list[list[str] | None]) -> Iterator[str]:
    """Compare the orders that PyTorch makes with those that its names are read as."""
    for (name, ranks, chunks, microbatches), theirs in zip(asked, seen, strict=True):
        sizes = Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)
        try:
            ours = format_schedule(named_schedule(name, sizes, place="asked")).splitlines()
        except InputError:
            ours = None
        # PyTorch's list of 1F1B is for pictures: it counts the last rank's forwards from 1, and is not what runs.
        shown = -1 if name == "1F1B" else None
        if (ours and ours[:shown]) != (theirs and theirs[:shown]):
            yield f"{name}, {ranks} ranks x {chunks}, {microbatches} microbatches: PyTorch has another order"
    if asked:
        click.echo(f"PyTorch's own schedules: {len(asked)} names and sizes")


def _cuts(package: Package) -> list[tuple[dict[str, Any], str]]:
    """Return what is asked of a package, and the settings that ask for it."""
    sizes = product((4, 7, 16, 30, 61), (2, 3, 4, 8), ("1F1B", "Interleaved1F1B"), (None, 2, 3, 5))
    if package is NEW:
        return [_titan_cut(*each, first, last) for each in sizes for first, last in ((1, 1), (0, 2), (3, 0))]
    if package is AUTOMODEL:
        return [_automodel_cut(*each, rounding) for each in sizes for rounding in (None, "up", "down")]
    return []


def _titan_cut(
    num_layers: int, ranks: int, name: str, per_stage: int | None, first: int, last: int
) -> tuple[dict[str, Any], str]:
    values: dict[str, Any] = {
        "pipeline_parallel_degree": ranks,
        "pipeline_parallel_schedule": name,
        "pipeline_parallel_first_stage_less_layers": first,
        "pipeline_parallel_last_stage_less_layers": last,
        "pipeline_parallel_layers_per_stage": per_stage,
    }
    saved = {"parallelism": values, "training": {"local_batch_size": 2 * ranks}, "activation_checkpoint": None}
    return {"num_layers": num_layers, **values}, json.dumps(
        {"model_spec": {"model": {"layers": [0] * num_layers}}, **saved}
    )


def _automodel_cut(
    num_layers: int, ranks: int, name: str, per_stage: int | None, rounding: str | None
) -> tuple[dict[str, Any], str]:
    pipeline = {
        "pp_schedule": name,
        "layers_per_stage": per_stage,
        "round_virtual_stages_to_pp_multiple": rounding,
    }
    recipe = {
        "step_scheduler": {"local_batch_size": 2 * ranks},
        "distributed": {"pp_size": ranks, "pipeline": pipeline},
    }
    asked = {
        "num_layers": num_layers,
        "pp_size": ranks,
        "pp_schedule": name,
        "layers_per_stage": per_stage,
        "rounding": rounding,
    }
    return asked, json.dumps(recipe)


def _own_cuts(
    package: Package, asked: list[tuple[dict[str, Any], str]], seen: list[list[list[str]] | None]
) -> Iterator[str]:
    """Compare the cuts that a package chooses itself with those that are read from its settings."""
    assert package.target.read is not None
    refused = 0
    for (values, text), theirs in zip(asked, seen, strict=True):
        given = GivenSizes(num_layers=values["num_layers"])
        try:
            plan = package.target.read(text, "settings", given).plan
        except InputError:
            ours = None
            refused += 1
        else:
            ours = [count for row in plan.layers for count in row]
        counts = None if theirs is None else [sum("layers." in name for name in part) for part in theirs]
        if ours != counts:
            yield f"cut of {values}: {counts}, read as {ours}"
    if asked:
        click.echo(f"{package.target.title} {package.version}: {len(asked)} cuts of its own, {refused} of them refused")


if __name__ == "__main__":
    check()
