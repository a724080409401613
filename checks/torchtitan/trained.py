"""Plans train torchtitan's Llama debug model in four processes; the losses are compared with those of one process.

So is the example of a training that goes on from its checkpoint, also under another plan, with one that did not stop.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from evenflow.model import BOTH, COMM, FULL, SELECT, Plan
from evenflow.schedule import schedule_of
from evenflow.targets.registry import target_named
from evenflow.targets.stages import stages_of

TRAIN = Path(__file__).resolve().parent / "train.py"
RESUME = TRAIN.with_name("resume.py")
EXAMPLE = TRAIN.parents[2] / "examples" / "training" / "with_torchtitan.py"
PLANS = {
    "1F1B, every kind": Plan(
        schedule="1f1b",
        num_microbatches=8,
        layers=((1, 3, 1, 1),),
        recompute={FULL: ((1, 0, 0, 0),), BOTH: ((0, 1, 0, 0),), SELECT: ((0, 1, 0, 0),), COMM: ((0, 0, 1, 0),)},
    ),
    "interleaved, empty ends": Plan(
        schedule="interleaved",
        num_microbatches=8,
        layers=((0, 1, 1, 1), (1, 1, 1, 0)),
        recompute={FULL: ((0, 1, 0, 0), (1, 0, 0, 0))},
    ),
    "ZB-V, split backwards": Plan(schedule="zbv", num_microbatches=8, layers=((0, 1, 1, 1), (0, 1, 1, 1))),
}
STEPS, MICROBATCHES = 3, 8
TOLERANCE = 1e-6
"""Largest difference of two losses, as a share: whole batches and microbatches add up in another order."""


def train(python: Path, folder: Path) -> list[str]:
    """Train; return what went wrong."""
    unsplit = _losses(_run(python, folder / "unsplit", 1, None))
    failures = []
    for name, plan in PLANS.items():
        ranks = _run(python, folder / name.replace(" ", "-"), plan.num_ranks, plan)
        losses = _losses(ranks)
        gap = max((abs(mine - theirs) / theirs for mine, theirs in zip(losses, unsplit, strict=False)), default=1.0)
        click.echo(f"trained, {name}: losses {losses}, without a pipeline {unsplit}")
        if len(losses) != STEPS or gap > TOLERANCE:
            failures.append(f"trained, {name}: losses {losses}, without a pipeline {unsplit}")
        failures += [f"trained, {name}: {fault}" for fault in _wrong_forwards(plan, ranks)]
    return failures + _resumed(python, folder)


def _resumed(python: Path, folder: Path) -> list[str]:
    """Let the example stop in its middle and go on under another plan; return where its losses differ."""
    first, second, *_others = PLANS.values()
    whole, parts = folder / "whole", folder / "parts"
    uninterrupted = _example(python, whole, first, last=2 * STEPS)
    before = _example(python, parts, first, last=STEPS)
    after = _example(python, parts, second, last=2 * STEPS)
    click.echo(f"example: losses {uninterrupted}, with a stop {before}, under another plan {after}")
    gone_on = {**before, **after}
    if set(before) & set(after) or set(gone_on) != set(uninterrupted) or len(gone_on) != 2 * STEPS:
        return [f"example: steps {sorted(before)}, then {sorted(after)}; without a stop {sorted(uninterrupted)}"]
    gap = max(abs(gone_on[step] / loss - 1) for step, loss in uninterrupted.items())
    return [f"example: losses {gone_on}, without a stop {uninterrupted}"] if gap > TOLERANCE else []


def _example(python: Path, folder: Path, plan: Plan, *, last: int) -> dict[str, float]:
    """Run the example until a step has ended; return the losses by step, of the rank that knows them."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(plan, folder)
    ranks = _start(python, folder, plan.num_ranks, RESUME, EXAMPLE, str(2 * STEPS), str(last))
    return next(rank["losses"] for rank in ranks if min(rank["losses"].values()) >= 0)


def _run(python: Path, folder: Path, processes: int, plan: Plan | None) -> list[dict[str, Any]]:
    folder.mkdir(parents=True)
    module = []
    if plan is not None:
        _write(plan, folder)
        module = ["evenflow_plan.py"]
    return _start(python, folder, processes, TRAIN, folder, *module)


def _write(plan: Plan, folder: Path) -> None:
    for piece in target_named("torchtitan").write(plan, "0.3.0").pieces:
        (folder / piece.file_name).write_text(piece.text, encoding="utf-8")


def _start(python: Path, folder: Path, processes: int, *command: Path | str) -> list[dict[str, Any]]:
    """Run a script in several processes; return what each of them has written."""
    environment = os.environ | {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(TRAIN.parents[2] / "src"),
    }
    run = subprocess.run(
        [
            *(python.absolute(), "-m", "torch.distributed.run", "--standalone"),
            *(f"--nproc-per-node={processes}", *command),
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        sys.exit(f"torchtitan could not train:\n{run.stdout[-2000:]}{run.stderr[-6000:]}")
    return [json.loads((folder / f"rank{rank}.json").read_text("utf-8")) for rank in range(processes)]


def _losses(ranks: list[dict[str, Any]]) -> list[float]:
    """Return the losses of the rank that has the last stage; the others say -1."""
    return next((rank["losses"] for rank in ranks if min(rank["losses"], default=-1.0) >= 0), [])


def _wrong_forwards(plan: Plan, ranks: list[dict[str, Any]]) -> list[str]:
    """Return the modules that ran more or less often than the plan recomputes them."""
    schedule = schedule_of(plan)
    if schedule.splits_backward:
        return []
    seen = {name: count for rank in ranks for name, count in rank["forwards"].items()}
    once = (STEPS - 1) * MICROBATCHES  # counted after the first step
    faults = []
    for stage in stages_of(plan, schedule.stage_ranks):
        for layer, kind in zip(stage.layers, stage.kinds, strict=True):
            again = {"attention": (FULL, BOTH, SELECT), "attention_norm": (FULL, BOTH, COMM)}
            for part, kinds in again.items():
                wanted = once * (2 if kind in kinds else 1)
                found = seen.get(f"layers.{layer}.{part}")
                if found != wanted:
                    faults.append(f"layers.{layer}.{part} ran {found} times, planned are {wanted}")
    return faults
