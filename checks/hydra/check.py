"""Does Hydra read the overrides that evenflow writes, and verl's configuration take them? Run by `make check-hydra`.

Random plans are written for the frameworks that take overrides. Bash makes words of the written array, and Hydra values
of the words (`overrides.py`, in an environment of its own), for verl in its own configuration; the values must be those
of the plan, also where the reference model takes them over. Then quotation marks are spoiled on purpose: each must be
found.
"""

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from evenflow.errors import InputError
from evenflow.model import FULL, SELECT, Plan, segment_length
from evenflow.targets.megatron_family.layout import parse_layout
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import target_named
from evenflow.targets.target import Target

OVERRIDES = Path(__file__).resolve().parent / "overrides.py"
NAMES = ("megatron-bridge", "verl")
ACTOR = "actor_rollout_ref.actor.megatron"
REFERENCE = "actor_rollout_ref.ref.megatron"
SIZE = f"{ACTOR}.pipeline_model_parallel_size"
LAYOUT = f"{ACTOR}.override_transformer_config.pipeline_model_parallel_layout"
OF_VERL = ("pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size")
"""Settings that verl has itself; it hands the others on."""


def random_plan(number: random.Random, sets: Sequence[str] = ()) -> Plan:
    """Return a plan of uneven cells, with chunks and recomputation or without, some under one of the `sets`."""
    num_ranks, num_chunks = number.randint(2, 8), number.choice((1, 1, 2, 3))
    layers = tuple(tuple(number.randint(0, 9) for _ in range(num_ranks)) for _ in range(num_chunks))
    kind, most = number.choice(("full", "select", "")), number.choice((1, 2, 5))
    if sets and number.random() < 0.5:
        kind = number.choice(sets)
    full = tuple(tuple(min(most, count) for count in row) for row in layers)
    return Plan(
        schedule="interleaved" if num_chunks > 1 else "1f1b",
        num_microbatches=num_ranks * number.randint(2, 6),
        layers=layers,
        recompute={kind: full if kind == "full" else layers} if kind else {},
        group_size=number.choice((None, 2 * num_ranks)) if num_chunks > 1 else None,
    )


def sets_of(target: Target) -> list[str]:
    """Return the sets of modules that a framework has, as recompute kinds."""
    kinds = target.abilities(target.versions[-1]).recompute_kinds
    return sorted(kind for kind in kinds if kind not in (FULL, SELECT) and not segment_length(kind))


def modules_of(plan: Plan) -> tuple[list[str], list[str]]:
    """Return the modules that a plan computes again in all layers, and those that it moves to the host."""
    (kind,) = [kind for kind in plan.used_kinds if kind != "full"] or [""]
    words = ["core_attn"] if kind == "select" else kind.split("+") if kind else []
    moved = [word.removeprefix("offload_") for word in words if word.startswith("offload_")]
    return [word for word in words if not word.startswith("offload_")], moved


def words_of(text: str) -> list[str]:
    """Return the words of a written array, as bash hands them to a program; none where bash refuses it."""
    script = text + "printf '%s\\0' \"${PIPELINE_ARGS[@]}\""
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=OVERRIDES.parent, check=False)
    return run.stdout.split("\0")[:-1] if run.returncode == 0 else []


def key_of(name: str, setting: str) -> str:
    """Return the key of a setting for a framework."""
    if name == "megatron-bridge":
        return f"model.{setting}"
    return f"{ACTOR}.{setting}" if setting in OF_VERL else f"{ACTOR}.override_transformer_config.{setting}"


def difference(name: str, plan: Plan, found: object) -> str:
    """Return what Hydra read otherwise than the plan; empty for nothing."""
    if not isinstance(found, dict):
        return str(found) or "nothing was read"
    most = max(map(max, plan.recompute.get("full", ((0,),)))) or None
    again, moved = modules_of(plan)
    wanted = {
        "pipeline_model_parallel_size": plan.num_ranks,
        "virtual_pipeline_model_parallel_size": plan.num_chunks if plan.num_chunks > 1 else None,
        "microbatch_group_size_per_vp_stage": plan.group_size,
        "recompute_granularity": "full" if most else "selective" if again else None,
        "recompute_method": "block" if most else None,
        "recompute_num_layers": most,
        **({"recompute_modules": again} if again else {}),
        **({"fine_grained_activation_offloading": True, "offload_modules": moved} if moved else {}),
    }
    values = dict(found)
    layout = values.pop(key_of(name, "pipeline_model_parallel_layout"), None)
    if name == "verl":
        reference = [values.pop(key.replace(ACTOR, REFERENCE)) for key in (SIZE, LAYOUT)]
        if reference != [plan.num_ranks, layout]:
            return f"the reference model has {reference}"
    if values != {key_of(name, setting): value for setting, value in wanted.items()}:
        return f"{values} and not {wanted}"
    try:
        layers = parse_layout(layout, place="layout").cells(plan.num_ranks, place="layout")
    except InputError as error:
        return error.message
    return "" if layers == plan.layers else f"{layout} and not {plan.layers}"


def spoiled(text: str, number: random.Random) -> str:
    """Return a written array with a quotation mark taken out or put beside its place."""
    places = [index for index, letter in enumerate(text) if letter in "'\""]
    place = number.choice(places)
    return text[:place] + number.choice(("", "x" + text[place])) + text[place + 1 :]


@click.command()
@click.option("--python", required=True, help="Python of an environment with hydra-core and verl.")
@click.option("--plans", default=200, show_default=True, help="Random plans for each framework.")
def main(python: str, plans: int) -> None:
    """Compare what Hydra reads with the plans."""
    number = random.Random(14)
    cases: list[tuple[str, Plan, str, bool]] = []
    for name in NAMES:
        target = target_named(name)
        abilities = target.abilities(target.versions[-1])
        made = 0
        while made < plans:
            plan = random_plan(number, sets_of(target))
            if not any(map(any, plan.layers)) or refusal(plan, abilities, title=target.title):
                continue
            made += 1
            pieces = target.write(plan, target.versions[-1]).pieces
            text = next(piece.text for piece in pieces if piece.syntax == "shell")
            cases.append((name, plan, text, False))
            if made % 4 == 0:
                cases.append((name, plan, spoiled(text, number), True))
    words = [(name, words_of(text)) for name, _plan, text, _is_spoiled in cases]
    run = subprocess.run([python, str(OVERRIDES)], input=json.dumps(words), capture_output=True, text=True, check=True)
    wrong = missed = 0
    for (name, plan, text, is_spoiled), found in zip(cases, json.loads(run.stdout), strict=True):
        problem = difference(name, plan, found)
        if bool(problem) != is_spoiled:
            wrong, missed = wrong + (not is_spoiled), missed + is_spoiled
            click.echo(f"{name}: {'not found' if is_spoiled else problem}\n{text}")
    num_spoiled = sum(is_spoiled for *_rest, is_spoiled in cases)
    click.echo(f"{len(cases) - num_spoiled} plans, {wrong} read otherwise; {num_spoiled} spoiled, {missed} not found")
    sys.exit(bool(wrong or missed))


if __name__ == "__main__":
    main()
