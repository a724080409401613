"""Do frameworks build the degrees that evenflow tune proposes? Run by `make check-degrees`.

For dense models and a mixture of experts, each with the winner of a small search and random legal configurations: the
degrees are written for the framework, and its own code, in an environment of its own (`build_*.py`), makes devices and
layers of them. Parameters, meshes and copies must be those that evenflow predicts. Then degrees are spoiled on purpose:
each must be found by evenflow's rules and by the package.
"""

import json
import random
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.predict.expert_work import expert_tensor
from evenflow.predict.limits.checks import check_training
from evenflow.predict.parameters import expert_group, layer_parameters, padded_vocabulary
from evenflow.predict.training import Sharding, Training
from evenflow.predict.transformer import Experts, Transformer
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import target_named
from evenflow.targets.target import Target
from evenflow.targets.tuning import for_framework
from evenflow.tune.axes import schedule_of
from evenflow.tune.question import TuningQuestion
from evenflow.tune.search import search
from evenflow.tune.space import space_of

HERE = Path(__file__).resolve().parent
DENSE = Transformer(
    hidden=256, layers=8, heads=16, kv_heads=8, head_dim=16, ffn=512, vocabulary=1000, gated=True, tied=False
)
FEW_KEYS = replace(DENSE, kv_heads=2)
"""Fewer heads of keys and values than tensor-parallel devices."""
MIXTURE = replace(DENSE, experts=Experts(count=8, active=2, ffn=128, shared_ffn=0))
DEVICES = 16
CASES = 80
"""Random legal configurations of each model."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A training for a framework, and the plan that it runs."""

    training: Training
    plan: Plan
    is_winner: bool = False
    is_spoiled: bool = False


@click.command()
@click.option("--megatron", required=True, help="Python with megatron-core.")
@click.option("--old", required=True, help="Python with torchtitan 0.2.2.")
@click.option("--new", required=True, help="Python with torchtitan 0.3.0.")
def check(megatron: str, old: str, new: str) -> None:
    """Write degrees, let the packages build them, and compare."""
    failures: list[str] = []
    for name, version, python, script, case_of, fault in (
        ("megatron", None, megatron, "build_megatron.py", of_megatron, megatron_fault),
        ("torchtitan", "0.2.2", old, "build_torchtitan.py", of_torchtitan_old, torchtitan_fault),
        ("torchtitan", "0.3.0", new, "build_torchtitan.py", of_torchtitan, torchtitan_fault),
    ):
        target = target_named(name)
        failures += compared(target, target.version(version), python, script, case_of, fault)
    for failure in failures:
        click.echo(failure, err=True)
    click.echo(f"{len(failures)} failures")
    sys.exit(bool(failures))


def compared(
    target: Target,
    version: str,
    python: str,
    script: str,
    case_of: Callable[[Target, str, Case], dict[str, Any]],
    fault: Callable[[Case, dict[str, Any]], str],
) -> list[str]:
    """Return what differs between configurations and what the package makes of them."""
    cases = [each for model in (DENSE, FEW_KEYS, MIXTURE) for each in cases_of(target, version, model)]
    texts = json.dumps([case_of(target, version, case) for case in cases])
    run = subprocess.run([python, HERE / script], input=texts, stdout=subprocess.PIPE, text=True, check=True)
    results = json.loads(run.stdout.splitlines()[-1])
    failures = []
    for case, result in zip(cases, results, strict=True):
        problem = fault(case, result)
        if bool(problem) != case.is_spoiled:
            failures.append(f"{target.title} {version}: {problem or 'not found'}: {case.training.degrees}")
    winners, spoiled = sum(case.is_winner for case in cases), sum(case.is_spoiled for case in cases)
    built = len(cases) - spoiled
    click.echo(f"{target.title} {version}: {built} built, {winners} winners among them; {spoiled} spoiled")
    return failures


def cases_of(target: Target, version: str, model: Transformer) -> Iterator[Case]:
    """Yield the winner of a question, random legal configurations, and spoiled ones."""
    question = for_framework(asked(model), target, version)
    best = search(question, rows=1, time_limit_s=15).best
    assert best is not None
    assert best.plan is not None
    yield Case(training=best.training, plan=best.plan, is_winner=True)
    legal = space_of(question).legal
    for training in random.Random(17).sample(legal, min(len(legal), CASES)):
        plan = plan_of(training)
        if training.degrees.pipeline == 1 or not refusal(plan, target.abilities(version), title=target.title):
            yield Case(training=training, plan=plan)
    for training in spoiled_ones(legal, checks_heads=version != "0.2.2"):
        assert is_refused(question, training), f"evenflow does not notice {training.degrees}"
        yield Case(training=training, plan=plan_of(training), is_spoiled=True)


def asked(model: Transformer) -> TuningQuestion:
    """Return the question of a model on few devices."""
    return TuningQuestion(
        model=model,
        topology=Topology(accelerator=accelerator_named("h100"), domain_devices=8),
        devices=DEVICES,
        global_batch=32,
        sequence=2048,
        memory_limit_bytes=80 * 2**30,
        schedules=("1f1b", "interleaved"),
    )


def spoiled_ones(legal: list[Training], *, checks_heads: bool) -> Iterator[Training]:
    """Yield configurations that no framework runs: heads, experts and devices that do not divide.

    A package that checks no heads notices them only when it trains.
    """
    for training in legal if checks_heads else []:
        degrees, model = training.degrees, training.model
        if degrees.tensor == 4 and degrees.expert == 1:
            yield replace(training, model=replace(model, heads=18, kv_heads=6))
            break
    for training in legal:
        degrees, experts = training.degrees, training.model.experts
        if experts is not None and degrees.expert == 8 and degrees.data * degrees.context * degrees.tensor == 8:
            yield replace(training, degrees=replace(degrees, expert=16))
            break


def is_refused(question: TuningQuestion, training: Training) -> bool:
    """Return whether evenflow's rules refuse a configuration."""
    try:
        check_training(training, question.topology.accelerator)
    except InputError:
        return True
    return any(question.rules.refusals(training, title=question.title))


def plan_of(training: Training) -> Plan:
    """Return the plan of a configuration without recomputation."""
    return Plan(
        schedule=schedule_of(training), num_microbatches=training.microbatches, layers=training.layout, recompute={}
    )


def written(target: Target, version: str, case: Case) -> str:
    """Return the first text that is written for a case."""
    training = case.training
    planned = PlannedDegrees(
        degrees=training.degrees,
        replicas=1,
        microbatch=training.microbatch,
        num_microbatches=training.microbatches,
        sequence=training.sequence,
    )
    assert target.write_degrees is not None
    return target.write_degrees(case.plan, planned, version).pieces[0].text


def model_of(model: Transformer) -> dict[str, Any]:
    """Return a model as the packages are asked for it."""
    experts = model.experts
    return {
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "ffn": model.ffn,
        "experts": experts.count if experts else 0,
        "expert_ffn": experts.ffn if experts else 0,
        "tied": model.tied,
    }


def of_megatron(target: Target, version: str, case: Case) -> dict[str, Any]:
    """Return the sizes in the flags that are written for a case."""
    words = written(target, version, case).split()
    values = dict(pairwise(words))

    def size(flag: str, absent: int) -> int:
        return int(values.get(f"--{flag}-parallel-size", absent))

    tensor = size("tensor-model", 1)
    sizes = {
        "tensor": tensor,
        "pipeline": size("pipeline-model", 1),
        "context": size("context", 1),
        "expert": size("expert-model", 1),
        "expert_tensor": size("expert-tensor", tensor),
    }
    model = model_of(case.training.model) | {"vocabulary": padded_vocabulary(case.training)}
    return {"sizes": sizes, "model": model, "devices": DEVICES}


def megatron_fault(case: Case, result: dict[str, Any]) -> str:
    """Return what megatron-core has otherwise than predicted; empty where nothing."""
    if "error" in result:
        return str(result["error"])
    training, degrees = case.training, case.training.degrees
    layer = layer_parameters(training, has_experts=training.model.experts is not None)
    wanted = {
        "dense": round(layer.dense),
        "expert": round(layer.expert),
        "words": padded_vocabulary(training) // degrees.tensor,
        "data": degrees.data,
        "expert_data": expert_group(training).size,
    }
    found = {name: result[name] for name in wanted}
    if training.model.experts is None:
        found["expert_data"] = wanted["expert_data"]
    return "" if found == wanted else f"{found} and not {wanted}"


def of_torchtitan_old(target: Target, version: str, case: Case) -> dict[str, Any]:
    """Return the section of the TOML that is written for a case."""
    parallelism = dict(tomllib.loads(written(target, version, case))["parallelism"])
    return torchtitan_case(case, parallelism)


def of_torchtitan(target: Target, version: str, case: Case) -> dict[str, Any]:
    """Return the assignments of the module that is written for a case."""
    start = "config.parallelism."
    parallelism: dict[str, Any] = {}
    for line in written(target, version, case).splitlines():
        name, sign, value = line.strip().removeprefix(start).partition(" = ")
        if line.strip().startswith(start) and sign and value.isdecimal():
            parallelism[name] = int(value)
    return torchtitan_case(case, parallelism)


def torchtitan_case(case: Case, parallelism: dict[str, Any]) -> dict[str, Any]:
    """Return a case of these settings."""
    usual = {"pipeline_parallel_degree": 1}
    return {"parallelism": usual | parallelism, "model": model_of(case.training.model), "devices": DEVICES}


def torchtitan_fault(case: Case, result: dict[str, Any]) -> str:
    """Return what torchtitan has otherwise than predicted; empty where nothing."""
    if "error" in result:
        return str(result["error"])
    training, degrees = case.training, case.training.degrees
    copies = degrees.data if degrees.sharding is Sharding.NOTHING else 1
    wanted = {
        "pp": degrees.pipeline,
        "dp_replicate": copies,
        "tp": degrees.tensor,
        "cp": degrees.context,
        "ep": degrees.expert,
    }
    if degrees.expert > 1:
        shards = degrees.data // copies * degrees.context * degrees.tensor
        wanted["efsdp"] = shards // (degrees.expert * expert_tensor(training))
    found = {name: result[name] for name in wanted}
    if training.sequence % result["divisor"]:
        return f"a sequence of {training.sequence} tokens is no multiple of {result['divisor']}"
    return "" if found == wanted else f"{found} and not {wanted}"


if __name__ == "__main__":
    check()
