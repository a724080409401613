"""Does Megatron-Bridge's own configuration take what evenflow writes? Run by `make check-bridge`.

Random plans are written as YAML and as overrides. Both go through Megatron-Bridge's code into its configuration of a
model and from there to megatron-core (`bridge.py`, in an environment of its own), which says the layers of every cell.
Then layouts are spoiled on purpose: each must be found.
"""

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
from check import modules_of, random_plan, sets_of, words_of

from evenflow.model import Plan
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import target_named

BRIDGE = Path(__file__).resolve().parent / "bridge.py"
TARGET = target_named("megatron-bridge")


def cases_of(plan: Plan) -> list[dict[str, Any]]:
    """Return a plan as YAML alone and as overrides alone."""
    yaml, shell = (piece.text for piece in TARGET.write(plan, TARGET.versions[-1]).pieces)
    return [
        {"layers": plan.num_layers, "yaml": yaml, "overrides": []},
        {"layers": plan.num_layers, "yaml": "", "overrides": words_of(shell)},
    ]


def difference(plan: Plan, found: Any) -> str:
    """Return what Megatron-Bridge has otherwise than the plan; empty for nothing."""
    if not isinstance(found, dict):
        return str(found)
    most = max(map(max, plan.recompute.get("full", ((0,),))))
    again, moved = modules_of(plan)
    wanted = {
        "layers": [list(row) for row in plan.layers],
        # megatron-core fills in the ranks where there are chunks and no number
        "group": plan.group_size or (plan.num_ranks if plan.num_chunks > 1 else None),
        "granularity": "full" if most else "selective" if again else None,
        "method": "block" if most else None,
        "number": most or None,
        "modules": again or ["core_attn"],
        "moved": moved,
    }
    if plan.num_chunks == 1 and plan.group_size is None:
        wanted["group"] = found["group"]
    return "" if found == wanted else f"{found} and not {wanted}"


def spoiled(case: dict[str, Any], number: random.Random) -> dict[str, Any]:
    """Return a case with one layer more in a stage that is written out."""
    text = json.dumps(case)
    place = number.choice([match.start() for match in re.finditer(r"t(?=[|*)mL,])", text.partition("layout")[2])])
    place += len(text.partition("layout")[0]) + len("layout")
    return dict(json.loads(text[:place] + "tt" + text[place + 1 :]))


@click.command()
@click.option("--python", required=True, help="Python of an environment with megatron-core, Megatron-Bridge and Hydra.")
@click.option("--plans", default=200, show_default=True, help="Random plans.")
def main(python: str, plans: int) -> None:
    """Compare what Megatron-Bridge makes of plans with them."""
    number = random.Random(14)
    abilities = TARGET.abilities(TARGET.versions[-1])
    sets = sets_of(TARGET)
    cases: list[tuple[Plan, dict[str, Any], bool]] = []
    while len(cases) < 2.5 * plans:
        plan = random_plan(number, sets)
        if not any(map(any, plan.layers)) or refusal(plan, abilities, title=TARGET.title):
            continue
        both = cases_of(plan)
        cases += [(plan, case, False) for case in both]
        if len(cases) % 5 < 2:
            cases.append((plan, spoiled(number.choice(both), number), True))
    texts = json.dumps([case for _plan, case, _is_spoiled in cases])
    run = subprocess.run([python, str(BRIDGE)], input=texts, stdout=subprocess.PIPE, text=True, check=True)
    wrong = missed = 0
    for (plan, case, is_spoiled), found in zip(cases, json.loads(run.stdout), strict=True):
        problem = difference(plan, found)
        if bool(problem) != is_spoiled:
            wrong, missed = wrong + (not is_spoiled), missed + is_spoiled
            click.echo(f"{'not found' if is_spoiled else problem}\n{case}")
    num_spoiled = sum(is_spoiled for *_rest, is_spoiled in cases)
    click.echo(f"{len(cases) - num_spoiled} texts, {wrong} read otherwise; {num_spoiled} spoiled, {missed} not found")
    sys.exit(bool(wrong or missed))


if __name__ == "__main__":
    main()
