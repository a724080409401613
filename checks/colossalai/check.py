"""Does ColossalAI cut and run a plan as evenflow means it? Run by `make check-colossalai`.

The code that is written for a plan is run with ColossalAI's own stage manager, checkpoint configuration and schedulers
(`load.py`, in an environment of its own): the layers and checkpointed layers of every cell, and the order of work of
every rank, are compared with the plan. Some plans on a V are trained for one step on several processes, and the
gradients are compared with an unsplit run. Then plans are spoiled on purpose: each must be found.
"""

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from evenflow.adapters.colossalai import nodes_of
from evenflow.model import FULL, Plan, cells
from evenflow.schedule import FAMILIES, Op, schedule_of
from evenflow.targets.frameworks.colossalai.target import TARGET

HERE = Path(__file__).resolve().parent
RANDOM = 240
SPOILED = 40
"""How many of the plans are also spoiled."""
TRAINED = 2
"""How many of each schedule on a V are trained."""


@click.command()
@click.option(
    "--python",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="The interpreter of the environment that has colossalai.",
)
def check(python: Path) -> None:
    """Write, let ColossalAI read and run, compare."""
    plans = dict(all_plans())
    given = {name: written(plan) for name, plan in plans.items()}
    for name in [name for name, plan in plans.items() if FAMILIES[plan.schedule].is_v_shaped and plan.num_ranks < 4]:
        of_schedule = [other for other in given if plans[other].schedule == plans[name].schedule]
        given[name]["trains"] = sum(given[other]["trains"] for other in of_schedule) < TRAINED
    spoiled = {f"{name}.{fault}": plan for name in list(plans)[:SPOILED] for fault, plan in faults(given[name])}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "plans.json").write_text(json.dumps(given | spoiled), encoding="utf-8")
        click.echo(f"{len(plans)} plans, {len(spoiled)} spoiled on purpose; ColossalAI reads and runs them ...")
        run = subprocess.run(
            [python.absolute(), HERE / "load.py", folder], cwd=folder, capture_output=True, text=True, check=False
        )
        if run.returncode:
            sys.exit(f"ColossalAI could not be run:\n{run.stdout[-2000:]}{run.stderr[-4000:]}")
        answer = json.loads(Path(folder, "seen.json").read_text(encoding="utf-8"))
    seen = answer["plans"]
    failures = [f"not in the package: {what}" for what, is_there in answer["installed"].items() if not is_there]
    failures += [f"{name}: {fault}" for name, plan in plans.items() if (fault := difference(plan, seen[name]))]
    failures += [
        f"{name}: a spoiled plan was not noticed"
        for name in spoiled
        if not difference(plans[name.partition(".")[0]], seen[name])
    ]
    print_table(plans, given, seen)
    click.echo(f"\n{len(plans)} plans, {len(spoiled)} spoiled on purpose, {len(failures)} failures")
    for failure in failures:
        click.echo(failure, err=True)
    sys.exit(1 if failures else 0)


def all_plans() -> Iterator[tuple[str, Plan]]:
    """Yield names and random plans that ColossalAI can run, always the same."""
    schedules = TARGET.abilities(TARGET.versions[-1]).schedules
    for index in range(RANDOM):
        pick = random.Random(f"plan {index}")
        schedule = schedules[index % len(schedules)]
        on_a_v = FAMILIES[schedule].is_v_shaped
        num_ranks = pick.randint(2, 6)
        num_chunks = 2 if on_a_v else pick.randint(2, 4) if schedule == "interleaved" else 1
        microbatches = num_ranks * pick.randint(2, 3) if num_chunks > 1 else num_ranks + pick.randint(0, 7)
        layers = [[pick.randint(1, 6) for _ in range(num_ranks)] for _ in range(num_chunks)]
        full = [[pick.randint(0, count) for count in row] for row in layers]
        plan = Plan(
            schedule=schedule,
            num_microbatches=microbatches,
            layers=cells(layers),
            recompute={FULL: cells(full)} if any(map(any, full)) and pick.random() < 0.9 else {},
        )
        assert TARGET.can_run(plan), plan
        yield f"random-{index:03}", plan


def written(plan: Plan) -> dict[str, Any]:
    """Return what `load.py` needs of a plan."""
    on_a_v = FAMILIES[plan.schedule].is_v_shaped
    return {
        "code": TARGET.write(plan, TARGET.versions[-1]).pieces[0].text,
        "ranks": plan.num_ranks,
        "chunks": plan.num_chunks,
        "num_layers": plan.num_layers,
        "nodes": nodes_of(schedule_of(plan)) if on_a_v else None,
        "trains": False,
    }


def faults(given: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is given with a fault in it, and a name for the fault."""
    code = given["code"].splitlines()
    for index, line in enumerate(code):
        start, bracket, rest = line.partition("[")
        numbers = json.loads(f"[{rest.rstrip(',')}") if bracket else []
        if "layers_per_stage" in start and len(numbers) > 1:
            moved = [numbers[0] + 1, numbers[1] - 1, *numbers[2:]]
            changed = [*code[:index], f"{start}{moved}{',' if rest.endswith(',') else ''}", *code[index + 1 :]]
            yield f"changed-{index}", given | {"code": "\n".join(changed), "trains": False}
    if given["nodes"]:
        swapped = [list(rank) for rank in given["nodes"]]
        computing = [index for index, node in enumerate(swapped[0]) if node[0] in "FBW"]
        first, last = computing[0], computing[-1]
        swapped[0][first], swapped[0][last] = swapped[0][last], swapped[0][first]
        yield "order-changed", given | {"nodes": swapped, "trains": False}


def difference(plan: Plan, seen: dict[str, Any]) -> str:
    """Return the first difference between a plan and what ColossalAI saw; empty for none."""
    if "error" in seen:
        return str(seen["error"])
    schedule = schedule_of(plan)
    firsts = {}
    first = 0
    for stage, rank in enumerate(schedule.stage_ranks):
        chunk = int(schedule.stage_chunks[stage])
        firsts[chunk, rank] = first
        first += plan.layers[chunk][rank]
    for rank in range(plan.num_ranks):
        for chunk in range(plan.num_chunks):
            begin = firsts[chunk, rank]
            wanted = {
                "first": begin,
                "end": begin + plan.layers[chunk][rank],
                "full": plan.count(FULL, chunk, rank),
            }
            if seen["cells"][rank][chunk] != wanted:
                return f"chunk {chunk} of rank {rank}: the plan says {wanted}, ColossalAI {seen['cells'][rank][chunk]}"
        names = {Op.F: "F", Op.B: "BW" if FAMILIES[plan.schedule].is_v_shaped else "B", Op.I: "B", Op.W: "W"}
        order = [
            [name, int(schedule.stage_chunks[action.stage]), action.microbatch]
            for action in schedule.order(rank)
            for name in names[action.op]
        ]
        if seen["order"][rank] != order:
            return f"rank {rank} runs {seen['order'][rank]}, the plan {order}"
    if seen.get("gradient", 0) > 1e-6:
        return f"a gradient is off by {seen['gradient']}"
    return ""


def print_table(plans: dict[str, Plan], given: dict[str, Any], seen: dict[str, Any]) -> None:
    """Print a row for each schedule: its plans, how many agree, and how many of them were trained."""
    click.echo("\nschedule       plans  agree  trained")
    for schedule in dict.fromkeys(plan.schedule for plan in plans.values()):
        names = [name for name, plan in plans.items() if plan.schedule == schedule]
        agree = sum(not difference(plans[name], seen[name]) for name in names)
        click.echo(f"{schedule:<13}{len(names):>7}{agree:>7}{sum(given[name]['trains'] for name in names):>9}")


if __name__ == "__main__":
    check()
