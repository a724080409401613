"""Does Megatron-LM's own parser read the flags that evenflow writes? Run by `make check-megatron-next`.

The flags of random plans, some with layers of multi-token prediction, go through `megatron/training/arguments.py` of a
checkout and its check of layouts. Layers of every cell, groups and recomputation must come out as they went in. Layouts
that are spoiled on purpose must be refused. Patterns of hybrid models, with the bars that bash sets, must have the
symbols of every stage, and patterns with a bar too many must be refused.
"""

import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import plans as sample

from evenflow.model import FULL, Plan, segment_length
from evenflow.targets.megatron_family.flags import LAYOUT_FLAG
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import target_named

FOLDER = Path(__file__).resolve().parent
TARGET = target_named("megatron")
HYBRID = target_named("megatron-hybrid")
PLANS, SEED = 300, 7
SPOILED_SHARE = 0.2
"""Of the patterns of hybrid models."""


@click.command()
@click.option(
    "--python", type=click.Path(exists=True, path_type=Path), required=True, help="Python with megatron-core."
)
@click.option("--source", type=click.Path(exists=True, path_type=Path), required=True, help="Checkout of Megatron-LM.")
def check(python: Path, source: Path) -> None:
    """Let Megatron-LM parse what evenflow writes, compare."""
    numbers = random.Random(SEED)
    plans = [with_mtp(numbers, sample.plan(numbers, by_layer=False)) for _number in range(PLANS)]
    runnable = [plan for plan in plans if refusal(plan, TARGET.abilities("0.13"), title=TARGET.title) is None]
    words = [words_of(plan) for plan in runnable]
    spoiled = [other for plan, each in zip(runnable, words, strict=True) if (other := spoiled_words(plan, each))]
    hybrids = [hybrid_case(numbers, plan) for plan in runnable if min(map(min, plan.layers))]
    version, results = parsed(python, source, [*words, *spoiled, *hybrids])
    of_hybrids = results[len(words) + len(spoiled) :]
    del results[len(words) + len(spoiled) :]
    failures = [fault for plan, result in zip(runnable, results, strict=False) if (fault := fault_of(plan, result))]
    failures += [
        f"{other} is accepted" for other, result in zip(spoiled, results[len(runnable) :], strict=True)
        if "error" not in result
    ]  # fmt: skip
    failures += [
        f"{case} is read as {result}" for case, result in zip(hybrids, of_hybrids, strict=True)
        if result != case["wanted"] and not (case["is_spoiled"] and "error" in result)
    ]  # fmt: skip
    click.echo(
        f"megatron-core {version}: {len(runnable)} plans, {sum(plan.mtp_layers > 0 for plan in runnable)} of them with "
        f"multi-token prediction, {len(spoiled)} layouts spoiled on purpose; {len(hybrids)} patterns of hybrid models, "
        f"{sum(case['is_spoiled'] for case in hybrids)} of them spoiled; {len(failures)} failures"
    )
    for failure in failures[:20]:
        click.echo(failure, err=True)
    sys.exit(1 if failures or not spoiled else 0)


def with_mtp(source: random.Random, plan: Plan) -> Plan:
    """Return a plan whose last layers, or none of them, are of multi-token prediction."""
    return replace(plan, mtp_layers=min(source.choice((0, 1, 1, 2)), plan.num_layers - 1))


def hybrid_case(source: random.Random, plan: Plan) -> dict[str, Any]:
    """Return the words of a plan with a random pattern, as bash makes them, and the symbols of its stages."""
    plan = replace(plan, mtp_layers=0)
    symbols = "".join(source.choices("MG*-E", k=plan.num_layers))
    further = source.choice(("", "/*-", "/ME/ME"))
    script = f"PATTERN='M{symbols[1:]}{further}'\n{HYBRID.written(plan, '0.17').pieces[0].text}"
    printed = subprocess.run(
        ["bash", "-c", f"{script}printf '%s\\n' \"${{PIPELINE_ARGS[@]}}\""], capture_output=True, text=True, check=True
    )
    words = printed.stdout.splitlines()
    left, stages = f"M{symbols[1:]}", [[""] * plan.num_chunks for _rank in range(plan.num_ranks)]
    for chunk, row in enumerate(plan.layers):
        for rank, count in enumerate(row):
            stages[rank][chunk], left = left[:count], left[count:]
    is_spoiled = plan.num_ranks > 1 and source.random() < SPOILED_SHARE
    if is_spoiled:
        words[1] = f"M|{words[1]}"
    wanted = {"stages": stages, "further": further.split("/")[1:]}
    return {"words": words, "chunks": plan.num_chunks, "wanted": wanted, "is_spoiled": is_spoiled}


def words_of(plan: Plan) -> list[str]:
    """Return the words of the flags that evenflow writes."""
    return shlex.split(TARGET.written(plan, "0.13").pieces[0].text)[1:-1]


def spoiled_words(plan: Plan, words: list[str]) -> list[str] | None:
    """Return the words with a layer of multi-token prediction less in the layout; None without any."""
    place = words.index(LAYOUT_FLAG) + 1
    layout = words[place]
    if not plan.mtp_layers:
        return None
    spoiled = layout.replace("m", "", 1)
    return None if "m*" in layout else [*words[:place], spoiled, *words[place + 1 :]]


def parsed(python: Path, source: Path, cases: list[Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the version of the checkout, and what it makes of the words."""
    with tempfile.TemporaryDirectory() as folder:
        cases_file, results_file = Path(folder) / "cases.json", Path(folder) / "results.json"
        cases_file.write_text(json.dumps(cases), "utf-8")
        process = subprocess.run(
            [python.absolute(), FOLDER / "parse_arguments.py", cases_file, results_file],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(source.absolute())},
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            sys.exit(f"Megatron-LM could not be run:\n{process.stdout[-2000:]}{process.stderr[-4000:]}")
        answer = json.loads(results_file.read_text("utf-8"))
    return answer["version"], answer["results"]


def fault_of(plan: Plan, result: dict[str, Any]) -> str | None:
    """Return what came out otherwise than it went in; None where nothing did."""
    if "error" in result:
        return f"{plan} is refused: {result['error']}"
    counts = [
        [len([name for name in stage if name in ("decoder", "mtp")]) for stage in rank] for rank in result["stages"]
    ]
    further = [[stage.count("mtp") for stage in rank] for rank in result["stages"]]
    cells = [(chunk, rank) for chunk in range(plan.num_chunks) for rank in range(plan.num_ranks)]
    wanted = {
        "layers": ([[plan.layers[c][r] for c in range(plan.num_chunks)] for r in range(plan.num_ranks)], counts),
        "mtp": ([plan.mtp_in(c, r) for c, r in cells], [further[r][c] for c, r in cells]),
        "num_layers": (plan.num_layers - plan.mtp_layers, result["num_layers"]),
        "mtp_num_layers": (plan.mtp_layers or None, result["mtp_num_layers"]),
        "ranks": (plan.num_ranks, result["pipeline_model_parallel_size"]),
        "group": (plan.group_size if plan.num_chunks > 1 else None, result["microbatch_group_size_per_vp_stage"]),
        "recompute": (
            recomputation(plan),
            tuple(result[f"recompute_{name}"] for name in ("granularity", "method", "num_layers")),
        ),
    }
    return next((f"{plan}: {name} is {got}, not {want}" for name, (want, got) in wanted.items() if want != got), None)


def recomputation(plan: Plan) -> tuple[str | None, str | None, int | None]:
    """Return granularity, method and number of layers for the recomputation of a plan."""
    if most := max(map(max, plan.recompute.get(FULL, ((0,),)))):
        return "full", "block", most
    for kind in plan.used_kinds:
        if length := segment_length(kind):
            return "full", "uniform", length
    return ("selective" if plan.used_kinds else None), None, None


if __name__ == "__main__":
    check()
