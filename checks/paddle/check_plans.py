"""Does PaddlePaddle build a plan as evenflow means it, and run it in that order? Run by `make check-paddle`.

Every plan is written, the package builds a `PipelineLayer` of it as every rank (`build.py`, in an environment of its
own), and its cuts and the layers that run twice are compared with the plan. Then plans are spoiled on purpose: each
must be found. The orders of work of the dynamic graph are compared with evenflow's, and so is what the package
refuses.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from evenflow.adapters.stage_counts import counts_of_kind
from evenflow.errors import InputError
from evenflow.model import FULL, Plan, cells
from evenflow.predict.training import FULL_ATTENTION
from evenflow.schedule import Op, make_schedule
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import target_named
from evenflow.targets.target import GivenSizes

TARGET = target_named("paddle")
VERSION = TARGET.versions[-1]
ABILITIES = TARGET.abilities(VERSION)
COUNT = 260
SPOILED = 30
"""How many of the plans are also spoiled."""


@click.command()
@click.option(
    "--python",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="The interpreter of the environment that has paddlepaddle.",
)
def check(python: Path) -> None:
    """Write, let PaddlePaddle build, compare."""
    plans = dict(all_plans())
    cases = dict(all_cases(plans))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.json").write_text(json.dumps(cases | arguments()), encoding="utf-8")
        script = Path(__file__).resolve().parent / "build.py"
        run = subprocess.run(
            [python.absolute(), script, folder], cwd=folder, capture_output=True, text=True, check=False
        )
        if run.returncode:
            sys.exit(f"PaddlePaddle could not be run:\n{run.stdout[-2000:]}{run.stderr[-4000:]}")
        seen = json.loads((folder / "seen.json").read_text("utf-8"))
    click.echo(f"PaddlePaddle {seen['version']}: {len(plans)} plans, {len(cases) - len(plans)} spoiled on purpose")
    failures = [
        f"{name}: {error}" for name, plan in plans.items() if (error := refusal(plan, ABILITIES, title=TARGET.title))
    ]
    for name, case in cases.items():
        fault = difference(plans[name.partition(".")[0]], case, seen["cases"][name])
        if bool(fault) != ("spoiled" in name):
            failures.append(f"{name}: {fault or 'a spoiled plan was not noticed'}")
    for name, case in arguments().items():
        read, theirs = counts_read(case), seen["cases"][name]
        if read != theirs and not (read is None and "error" in theirs):
            failures.append(f"{name}, {case}: read as {read}, PaddlePaddle says {theirs}")
    click.echo(f"{len(arguments())} arguments of PaddleFormers read")
    verdicts = Counter(order_verdict(**each) for each in seen["orders"])
    click.echo("orders: " + ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    failures += [
        f"order of {each['sizes']}: {order_verdict(**each)}"
        for each in seen["orders"]
        if order_verdict(**each) not in ("equal", "refused by both")
    ]
    click.echo(f"{len(failures)} failures")
    for failure in failures:
        click.echo(failure, err=True)
    sys.exit(1 if failures else 0)


def all_plans() -> Iterator[tuple[str, Plan]]:
    """Yield names and plans, always the same: one to four chunks, empty at the ends, any number recomputed."""
    for index in range(COUNT):
        rng = random.Random(index)
        chunks = 1 + index % 4
        ranks = rng.randint(1 if chunks == 1 else 3, 8)
        stages = ranks * chunks
        counts = [rng.randint(0 if stage in (0, stages - 1) else 1, 4) for stage in range(stages)]
        counts[0] += sum(counts) == 0
        full = [rng.randint(0, count) for count in counts]
        attention = [rng.randint(0, count - own) * (index % 3 == 0) for count, own in zip(counts, full, strict=True)]
        kinds = {FULL: full, FULL_ATTENTION: attention}
        rows = [slice(chunk * ranks, (chunk + 1) * ranks) for chunk in range(chunks)]
        f_then_b = chunks > 1 and index % 5 == 0
        yield (
            f"random-{index:03}",
            Plan(
                schedule="1f1b" if chunks == 1 else "f-then-b" if f_then_b else "interleaved",
                num_microbatches=ranks if f_then_b else rng.randint(2 * ranks, 4 * ranks),
                layers=cells([counts[row] for row in rows]),
                recompute={kind: cells([own[row] for row in rows]) for kind, own in kinds.items() if any(own)},
            ),
        )


def all_cases(plans: dict[str, Plan]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a case for every plan, and cases with something else in them than the plan."""
    for index, (name, plan) in enumerate(plans.items()):
        head, tail = max(index % 4, plan.layers[0][0] == 0), max(index % 3, plan.layers[-1][-1] == 0)
        case = {
            "module": TARGET.write(plan, VERSION).pieces[0].text,
            "method": "",
            "ranks": plan.num_ranks,
            "entries": head + plan.num_layers + tail,
            "head": head,
            "tail": tail,
            "functions": index % 2 == 1 and FULL_ATTENTION not in plan.used_kinds,  # which have no attention
        }
        yield name, case
        if index >= SPOILED or plan.num_ranks == 1:
            continue
        counts, full = stage_lists(plan)
        giver = max(range(len(counts)), key=counts.__getitem__)
        moved = list(counts)
        moved[giver] -= 1
        moved[(giver + 1) % len(counts)] += 1
        yield f"{name}.spoiled-layer-moved", case | {"module": with_list(case["module"], "LAYERS", moved)}
        if FULL_ATTENTION in plan.used_kinds:
            attention = counts_of_kind(plan, FULL_ATTENTION)
            attention[attention.index(max(attention))] -= 1
            yield f"{name}.spoiled-attention", case | {"module": with_list(case["module"], "ATTENTION", attention)}
        full[giver] += -1 if full[giver] else 1
        yield f"{name}.spoiled-recompute", case | {"module": with_list(case["module"], "RECOMPUTED", full)}
        yield f"{name}.spoiled-method", case | {"method": "uniform" if plan.num_chunks == 1 else "layer:Block"}


def arguments() -> dict[str, dict[str, Any]]:
    """Return sizes and methods of arguments of PaddleFormers, always the same."""
    made = random.Random(1)
    cases = {}
    for index in range(150):
        chunks = made.choice([1, 1, 2, 3])
        ranks = made.randint(1 if chunks == 1 else 3, 6)
        empty = made.choice([0, 0, 1, 2])
        layers = made.choice([ranks * chunks * made.randint(1, 6) - empty, made.randint(ranks * chunks, 40)])
        methods: list[Any] = ["layer:DecoderLayer", "layer:Decoder|EmptyLayer"]
        if chunks == 1:
            length = layers + empty + 3
            inner = sorted(made.randint(0, length) for _ in range(ranks - 1))
            methods += ["uniform", [0, *inner], [0, *inner, length]]
        cases[f"arguments-{index:03}"] = {
            "ranks": ranks,
            "chunks": chunks,
            "layers": max(1, layers),
            "empty": empty,
            "segment": made.choice(methods),
        }
    return cases


def counts_read(case: dict[str, Any]) -> list[int] | None:
    """Return the layers of every stage that evenflow reads in arguments; None where it refuses them."""
    text = (
        f"pipeline_model_parallel_size: {case['ranks']}\n"
        f"virtual_pipeline_model_parallel_size: {case['chunks']}\n"
        f"gradient_accumulation_steps: {2 * case['ranks']}\n"
        f"num_empty_layers_add_in_tail: {case['empty']}\n"
        f'pp_seg_method: "{case["segment"]}"\n'
    )
    try:
        plan = TARGET.read(text, "sft.yaml", GivenSizes(num_layers=case["layers"])).plan
    except InputError:
        return None
    return [count for row in plan.layers for count in row]


def with_list(module: str, name: str, values: list[int]) -> str:
    """Return a written module with another list."""
    return re.sub(rf"^{name} = .*$", f"{name} = {values}", module, count=1, flags=re.MULTILINE)


def stage_lists(plan: Plan) -> tuple[list[int], list[int]]:
    """Return the layers and the recomputed layers of every stage."""
    where = [(chunk, rank) for chunk in range(plan.num_chunks) for rank in range(plan.num_ranks)]
    return [plan.layers[chunk][rank] for chunk, rank in where], [plan.count(FULL, chunk, rank) for chunk, rank in where]


def difference(plan: Plan, case: dict[str, Any], seen: dict[str, Any]) -> str:
    """Return the first difference between the plan and what PaddlePaddle built; empty for none."""
    if "error" in seen:
        return str(seen["error"])
    counts, full = stage_lists(plan)
    wanted = []
    first = 0
    for stage, (count, again, own) in enumerate(zip(counts, full, counts_of_kind(plan, FULL_ATTENTION), strict=True)):
        begin = first + (case["head"] if stage == 0 else 0)
        end = begin + count + (case["tail"] if stage == len(counts) - 1 else 0)
        chunk, rank = divmod(stage, plan.num_ranks)
        wanted.append(
            {
                "rank": rank,
                "chunk": chunk,
                "layers": list(range(first, end)),
                "twice": list(range(begin, begin + again)),
                **({} if case["functions"] else {"attended twice": list(range(begin, begin + again + own))}),
            }
        )
        first = end
    for mine in wanted:
        theirs = next(each for each in seen["cells"] if (each["rank"], each["chunk"]) == (mine["rank"], mine["chunk"]))
        if mine != theirs:
            return f"the plan says {mine}, PaddlePaddle {theirs}"
    return f"parameters without a gradient: {seen['without_gradient']}" if seen["without_gradient"] else ""


def order_verdict(sizes: tuple[int, int, int], ranks: Any) -> str:
    """Return how PaddlePaddle's order of some sizes compares with that of the family that the abilities allow."""
    num_ranks, num_chunks, num_microbatches = sizes
    families = ABILITIES.schedules[1:] if num_chunks > 1 else ABILITIES.schedules[:1]
    rows = cells([[1] * num_ranks] * num_chunks)
    allowed = [
        name
        for name in families
        if not refusal(
            Plan(schedule=name, num_microbatches=num_microbatches, layers=rows), ABILITIES, title=TARGET.title
        )
    ]
    if isinstance(ranks, dict):
        return "refused by PaddlePaddle alone" if allowed else "refused by both"
    if not allowed:
        return "refused by evenflow alone"
    made = make_schedule(allowed[0], num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches)
    own = [
        "".join(
            f"{'f' if each.op == Op.F else 'b'}{each.microbatch}"
            + (f"_vp{each.stage // num_ranks};" if num_chunks > 1 else ";")
            for each in made.order(rank)
        )
        for rank in range(num_ranks)
    ]
    return "equal" if own == ranks else "DIFFERENT"


if __name__ == "__main__":
    check()
