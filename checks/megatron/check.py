"""Does megatron-core do what evenflow writes for it? Run by `make check-megatron`.

Layouts go through both parsers. For plans of any cut the flags that evenflow writes are read back from their shell text
and given to megatron-core (`load.py`, in an environment of its own), which builds the model of every rank and runs it:
layers of each cell, and which of them ran twice or computed their attention twice. It also checks all sets of modules
to compute again or to move to the host, for a model that has all of these. The order of work that its schedule
functions run is compared with evenflow's, for sizes that both should run or refuse. Two plans are trained with, one
process for each rank, and must lose as the model in one piece does; the example of `examples/training` stops and goes
on under another plan (`resume.py`). Then plans are spoiled on purpose: each must be found.
"""

import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import plans as sample
from training import example_losses, losses

from evenflow.errors import InputError
from evenflow.model import FULL, SELECT, Groups, Plan, Sizes, moved_of_first, segment_length
from evenflow.model.moved_share import num_moved
from evenflow.model.plan import cells
from evenflow.predict.training import MOVED_MODULES
from evenflow.schedule import Action, Op, group_allowed, make_schedule
from evenflow.targets.megatron_family.arguments import arguments_of
from evenflow.targets.megatron_family.even_cuts import even_cut
from evenflow.targets.megatron_family.flags import recompute_flags
from evenflow.targets.megatron_family.layout import parse_layout
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import target_named

FOLDER = Path(__file__).resolve().parent
SOURCES = FOLDER.parents[1] / "src"
STOCK, ADAPTER = target_named("megatron"), target_named("megatron-adapter")
PLANS, SHARES, SEED = 150, 400, 5
IMPOSSIBLE_SETS = ("offload_attn_proj", "layernorm+offload_attn_proj")
"""Sets of modules that must be refused."""
MOST_DIFFERENT, LEAST_LEARNT = 1e-5, 0.01
"""Between losses of the same step, and between those of the first and the last step."""
EXAMPLE_STEPS = 3
"""Before the example stops, and behind that."""


@click.command()
@click.option(
    "--python",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="The interpreter of the environment that has megatron-core.",
)
def check(python: Path) -> None:
    """Let megatron-core read what evenflow writes, compare."""
    source = random.Random(SEED)
    texts = list(dict.fromkeys(sample.layouts(source)))
    written = [(STOCK, sample.plan(source, by_layer=False)) for _number in range(PLANS)]
    written += [(ADAPTER, sample.plan(source, by_layer=True)) for _number in range(PLANS)]
    spoiled = [each for target, plan in written for each in spoiled_plans(target.name, plan)]
    sizes = list(order_sizes())
    sets = module_sets()
    cuts = list(sample.cuts(source))
    shares = [share_case(source) for _number in range(SHARES)]
    with tempfile.TemporaryDirectory() as folder:
        results = loaded(
            python,
            Path(folder),
            {
                "layouts": [{"layout": text, "ranks": 1} for text in texts],
                "cuts": cuts,
                "sets": [set_flags(kind) for kind in (*sets, *IMPOSSIBLE_SETS)],
                "shares": shares,
                "models": [
                    model_case(target.name, plan, Path(folder) / f"{number}.json")
                    for number, (target, plan) in enumerate([*written, *((ADAPTER, other) for _plan, other in spoiled)])
                ],
                "orders": sizes,
            },
        )
        trained, faults = trained_plans(python, Path(folder))
    click.echo(f"megatron-core {results['version']}")
    failures = [
        *faults,
        *compared_layouts(texts, results["layouts"]),
        *compared_cuts(cuts, results["cuts"]),
        *compared_sets((*sets, *IMPOSSIBLE_SETS), results["sets"]),
        *compared_shares(shares, results["shares"]),
        *compared_models([plan for _target, plan in written], results["models"]),
        *compared_orders(sizes, results["orders"]),
    ]
    for (plan, other), result in zip(spoiled, results["models"][len(written) :], strict=True):
        if cell_fault(plan, result) is None:
            failures.append(f"{other} was built as {plan} wants it")
    orders = [result for result in results["orders"] if "turns" in result]
    others = sum(other_order_is_found(case, result) for case, result in zip(sizes, results["orders"], strict=True))
    click.echo(
        f"{len(texts)} layouts, {sum('layers' in each for each in results['layouts'])} of them accepted, "
        f"{sum(map(is_stricter, texts, results['layouts']))} by megatron-core alone\n"
        f"{len(cuts)} cuts without a layout, {sum('layers' in each for each in results['cuts'])} of them accepted\n"
        f"{len(written)} plans, {sum(plan.num_chunks > 1 for _target, plan in written)} of them with chunks, "
        f"{sum(0 in row for _target, plan in written for row in plan.layers)} with empty stages\n"
        f"{len(sets)} sets of modules to compute again or to move\n"
        f"{len(results['shares'])} ranks that move a share of theirs, and keep some of the first backwards\n"
        f"{len(sizes)} sizes of orders, {len(orders)} of them run, {len(sizes) - len(orders)} refused\n"
        f"{trained} plans trained on 4 processes, as the model in one piece\n"
        f"{len(spoiled)} plans and {others} orders spoiled on purpose; {len(failures)} failures"
    )
    for failure in failures[:20]:
        click.echo(failure, err=True)
    sys.exit(1 if failures or not spoiled or not others else 0)


def loaded(python: Path, folder: Path, cases: dict[str, Any]) -> dict[str, Any]:
    """Return what megatron-core makes of the cases."""
    (folder / "cases.json").write_text(json.dumps(cases), "utf-8")
    process = subprocess.run(
        [python.absolute(), FOLDER / "load.py", folder / "cases.json", folder / "results.json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        sys.exit(f"megatron-core could not be run:\n{process.stdout[-2000:]}{process.stderr[-4000:]}")
    found: dict[str, Any] = json.loads((folder / "results.json").read_text("utf-8"))
    return found


def model_case(target_name: str, plan: Plan, plan_file: Path) -> dict[str, Any]:
    """Return the flags that evenflow writes for a plan; with the adapter, the plan file beside."""
    target = target_named(target_name)
    error = refusal(plan, target.abilities(target.versions[-1]), title=target.title)
    if error is not None:
        raise error
    words = shlex.split(target.write(plan, target.versions[-1]).pieces[0].text)[1:-1]
    starts = [index for index, word in enumerate(words) if word.startswith("--")]
    flags = {words[start]: words[start + 1 : end] for start, end in zip(starts, [*starts[1:], None], strict=True)}
    if target is ADAPTER:
        plan_file.write_text(json.dumps(plan_fields(plan)), "utf-8")
    return {"flags": flags, "plan_file": str(plan_file) if target is ADAPTER else None}


def plan_fields(plan: Plan) -> dict[str, Any]:
    """Return the fields of a plan file."""
    return {
        "layers": plan.layers,
        "recompute": dict(plan.recompute),
        "ranks": plan.num_ranks,
        "chunks": plan.num_chunks,
        "microbatches": plan.num_microbatches,
        "schedule": plan.schedule,
        "sequence_splits": 1,
    }


def trained_plans(python: Path, folder: Path) -> tuple[int, list[str]]:
    """Train with plans, and with the model in one piece; return the number of plans, and those whose losses differ."""
    failures = []
    for number, (target, plan) in enumerate(sample.TRAINED):
        case = model_case(target, plan, folder / f"trained{number}.json")
        count = {"num_microbatches": plan.num_microbatches}
        whole = {"--num-layers": [str(plan.num_layers)]}
        one = losses(python, folder / f"whole{number}", flags=whole, num_ranks=1, **count)
        cut = losses(python, folder / f"trained{number}", **case, num_ranks=plan.num_ranks, **count)
        click.echo(f"losses in one piece {one}\nlosses as planned   {cut}")
        if max(abs(a - b) for a, b in zip(one, cut, strict=True)) > MOST_DIFFERENT or one[-1] > one[0] - LEAST_LEARNT:
            failures.append(f"{plan} trains to {cut}, the model in one piece to {one}")
    return len(sample.TRAINED), failures + resumed_example(python, folder)


def resumed_example(python: Path, folder: Path) -> list[str]:
    """Let the example of `examples/training` stop and go on under another plan; return how its losses differ."""
    target, plan = sample.TRAINED[0]

    def run(name: str, plan: Plan, steps: int) -> list[str]:
        case = model_case(target, plan, folder / f"{name}{plan.num_ranks}.json")
        return example_losses(python, folder / name, **case, num_ranks=plan.num_ranks, steps=steps)

    whole = run("uninterrupted", plan, 2 * EXAMPLE_STEPS)
    parts = [*run("stopped", plan, EXAMPLE_STEPS), *run("stopped", sample.GONE_ON_WITH, 2 * EXAMPLE_STEPS)]
    click.echo(f"example without a stop {whole}\nexample with another plan behind a stop {parts}")
    lasts = [[float(line.rpartition(" ")[2]) for line in lines] for lines in (whole, parts)]
    steps = [[line.partition(":")[0] for line in lines] for lines in (whole, parts)]
    if steps[0] != [f"step {step}" for step in range(2 * EXAMPLE_STEPS)] or steps[0] != steps[1]:
        return [f"the example has the steps {steps[1]}, without a stop {steps[0]}"]
    if max(abs(a - b) for a, b in zip(*lasts, strict=True)) > MOST_DIFFERENT:
        return [f"the example goes on to {lasts[1]}, without a stop {lasts[0]}"]
    return []


def module_sets() -> list[str]:
    """Return all sets of modules that a plan may compute again or move, as recompute kinds."""
    kinds = STOCK.abilities(STOCK.versions[-1]).recompute_kinds
    return [kind for kind in sorted(kinds) if kind not in (FULL, SELECT) and segment_length(kind) is None]


def set_flags(kind: str) -> dict[str, tuple[str, ...]]:
    """Return the flags of a plan whose layers are under a set of modules."""
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((2,),), recompute={kind: ((2,),)})
    return recompute_flags(plan)


def compared_sets(kinds: Sequence[str], results: Sequence[dict[str, Any]]) -> list[str]:
    """Return the sets that megatron-core refuses or takes for others, and the impossible ones that it takes."""
    failures = []
    for kind, result in zip(kinds, results, strict=True):
        if kind in IMPOSSIBLE_SETS:
            failures += [f"{kind} is accepted"] if "modules" in result else []
        elif result.get("modules") != sorted(kind.split("+")):
            failures.append(f"{kind}: {result}")
    return failures


def share_case(source: random.Random) -> dict[str, Any]:
    """Return the groups of the backwards of a rank, and how much of them is to move."""
    names = MOVED_MODULES[: source.randint(1, 4)]

    def layer() -> list[tuple[str, int]]:
        return [(name, source.randint(1, 9)) for name in names if source.random() < 0.8]

    stages = [[group for _layer in range(source.randint(0, 4)) for group in layer()] for _chunk in range(2)]
    backwards = [source.choice(stages) for _number in range(source.randint(1, 8))]
    fraction = source.choice((0.25, 0.5, 0.8125, 1.0, round(source.random(), 4)))
    return {"backwards": backwards, "rank": source.randint(0, 3), "fraction": fraction, "delta": source.randint(0, 40)}


def compared_shares(cases: Sequence[dict[str, Any]], results: Sequence[dict[str, Any]]) -> list[str]:
    """Return the ranks of which megatron-core moves other bytes; a version without shares has no results.

    What it always keeps is of the first backward with each module: later ones are compared whole.
    """
    failures = []
    for case, result in zip(cases, results, strict=False):
        groups = [[(MOVED_MODULES.index(name), size) for name, size in each] for each in case["backwards"]]
        ours = list(moved_of_first(groups, share=case["fraction"], kept_bytes=case["rank"] * case["delta"]))
        firsts = {module: at for at in reversed(range(len(groups))) for module, _size in groups[at]}
        begin = max((len(ours), *(at + 1 for at in firsts.values())))
        later = [
            sum(size for _module, size in each[: num_moved(len(each), case["fraction"])]) for each in groups[begin:]
        ]
        theirs = result.get("moved", [])
        if (ours, later) != (theirs[: len(ours)], theirs[begin:]):
            failures.append(f"{case}: {ours}, later {later} here, {result} there")
    return failures


def spoiled_plans(target_name: str, plan: Plan) -> list[tuple[Plan, Plan]]:
    """Return `plan` with plans that differ from it in one layer, as the adapter can run them."""
    if target_name != ADAPTER.name or plan.num_layers < 2 or plan.num_ranks == 1:
        return []
    chunk, rank = next((c, r) for c, row in enumerate(plan.layers) for r, count in enumerate(row) if count)
    moved = [list(row) for row in plan.layers]
    moved[chunk][rank] -= 1
    moved[chunk][(rank + 1) % plan.num_ranks] += 1
    full = [list(row) for row in plan.recompute[FULL]]
    full[chunk][rank] += -1 if full[chunk][rank] else 1
    found = [(plan, replace(plan, layers=cells(moved), recompute={}))]
    with suppress(InputError):  # no layer is left for one more
        found.append((plan, replace(plan, recompute={FULL: cells(full), SELECT: plan.recompute[SELECT]})))
    return found


def compared_layouts(texts: Sequence[str], results: Sequence[dict[str, Any]]) -> list[str]:
    """Return the layouts that megatron-core reads otherwise, and published ones that evenflow refuses."""
    failures = []
    for text, theirs in zip(texts, results, strict=True):
        try:
            found = parse_layout(text, place="layout")
        except InputError:
            if text in sample.LAYOUTS:
                failures.append(f"{text} is refused")
            continue
        ours = {"layers": list(found.layers), "mtp_layers": list(found.mtp_layers)}
        try:
            found.cells(1, place="layout")
        except InputError:  # in one rank, m must be in the last stage; megatron-core agrees
            ours = None
        if (ours is None) != ("error" in theirs) or (ours is not None and ours != theirs):
            failures.append(f"{text}: {ours} here, {theirs} there")
        if text in sample.NO_LAYOUTS:
            failures.append(f"{text} is accepted")
    return failures


def compared_cuts(cuts: Sequence[dict[str, Any]], results: Sequence[dict[str, Any]]) -> list[str]:
    """Return the fields whose cut evenflow reads otherwise than megatron-core makes it, or that only one refuses."""
    failures = []
    for fields, theirs in zip(cuts, results, strict=True):
        numbers = {"num_layers": fields["num_layers"], "num_ranks": fields["pipeline_model_parallel_size"]}
        try:
            ours = [list(row) for row in even_cut(arguments_of(fields, file="run"), **numbers)]
        except InputError:
            ours = None
        made = theirs.get("layers")
        if (
            made is not None and min(map(min, made)) < 0
        ):  # megatron-core does not notice that first and last are too many
            made = None
        if ours != made:
            failures.append(f"{fields}: {ours} here, {theirs} there")
    return failures


def is_stricter(text: str, result: dict[str, Any]) -> bool:
    """Return whether evenflow refuses a text that megatron-core reads."""
    try:
        parse_layout(text, place="layout").cells(1, place="layout")
    except InputError:
        return "layers" in result
    return False


def compared_models(plans: Sequence[Plan], results: Sequence[dict[str, Any]]) -> list[str]:
    """Return what differs between plans and the models that were built for them."""
    return [
        f"{plan}: {fault}"
        for plan, result in zip(plans, results, strict=False)
        if (fault := cell_fault(plan, result)) is not None
    ]


def cell_fault(plan: Plan, result: dict[str, Any]) -> str | None:
    """Return what differs between a plan and a model; None where nothing does.

    A layer under full or in a segment runs twice, with its attention; one under select computes only its attention
    twice. A segment is one checkpoint.
    """
    if "error" in result:
        return str(result["error"])
    number = 1
    for chunk in range(plan.num_chunks):
        for rank in range(plan.num_ranks):
            full, select = plan.count(FULL, chunk, rank), plan.count(SELECT, chunk, rank)
            length = next(filter(None, map(segment_length, plan.used_kinds)), None)
            full += plan.layers[chunk][rank] if length else 0
            expected = [
                [number + index, 2 if index < full else 1, 2 if index < full + select else 1]
                for index in range(plan.layers[chunk][rank])
            ]
            number += len(expected)
            found = result["cells"][rank][chunk]
            if found["layers"] != expected or (length and found["checkpoints"] * length != len(expected)):
                return f"chunk {chunk}, rank {rank}: {found}, not {expected}"
    group = plan.group_size or plan.num_ranks
    return None if plan.num_chunks == 1 or result["group_size"] == group else f"groups of {result['group_size']}"


def order_sizes() -> list[dict[str, Any]]:
    """Return sizes of orders, such as are run and such as are refused."""
    return [
        {
            "ranks": ranks,
            "chunks": chunks,
            "microbatches": count,
            "group_size": group,
            "overlaps": overlaps,
            "in_pairs": in_pairs,
        }
        for ranks in (1, 2, 3, 4, 6)
        for chunks in (1, 2, 3)
        if ranks > 1 or chunks == 1
        for count in (1, 2, 3, 4, 5, 7, 8, 12, 13, 18)
        for group in ([ranks] if chunks == 1 else range(max(1, ranks - 1), min(count, 3 * ranks) + 2))
        for overlaps in ((False,) if chunks == 1 else (True, False))
        for in_pairs in ((False,) if chunks == 1 and ranks > 1 else (False, True))
    ]


def compared_orders(sizes: Sequence[dict[str, Any]], results: Sequence[dict[str, Any]]) -> list[str]:
    """Return the sizes whose orders differ, or that only one of both refuses."""
    failures = []
    for case, result in zip(sizes, results, strict=True):
        whole = Sizes(num_ranks=case["ranks"], num_chunks=case["chunks"], num_microbatches=case["microbatches"])
        is_allowed = case["chunks"] == 1 or group_allowed(Groups.MEGATRON, case["group_size"], whole)
        if is_allowed != ("turns" in result):
            failures.append(f"{case}: {'allowed' if is_allowed else 'refused'} here, there {result}"[:400])
        elif is_allowed and our_turns(case) != result["turns"]:
            failures.append(f"{case}: another order")
        elif is_allowed and not agree(case, result):
            failures.append(f"{case}: table or warm-up are not those of the order")
    return failures


def our_turns(case: dict[str, Any], *, group: int | None = None) -> list[list[list[Any]]]:
    """Return evenflow's order in the form of `load.py`."""
    is_plain = case["chunks"] == 1
    schedule = make_schedule(
        ("1f1b" if is_plain else "interleaved") + ("-overlap" if case["in_pairs"] else ""),
        num_ranks=case["ranks"],
        num_chunks=case["chunks"],
        num_microbatches=case["microbatches"],
        group_size=None if is_plain else group or case["group_size"],
    )
    return [
        [[turn_kind(action), action.stage // case["ranks"], action.microbatch] for action in schedule.order(rank)]
        for rank in range(case["ranks"])
    ]


def turn_kind(action: Action) -> str:
    """Return the word of `load.py` for what an action does: P is a forward beside the backward behind it."""
    return "B" if action.op == Op.B else "P" if action.is_paired else "F"


def agree(case: dict[str, Any], result: dict[str, Any]) -> bool:
    """Return whether the schedule table and the warm-ups tell the same as our order; one rank has none in pairs."""
    if case["ranks"] == 1 and case["in_pairs"]:
        return True
    for turns, warmup in zip(our_turns(case), result["warmups"], strict=True):
        forwards = [[microbatch, chunk] for kind, chunk, microbatch in turns if kind != "B"]
        first = next(index for index, turn in enumerate(turns) if turn[0] == "B")
        steady = 0 if warmup == len(forwards) else 1  # after the warm-up, a forward comes before the first backward
        if forwards != result["table"] or first != warmup + steady:
            return False
    return True


def other_order_is_found(case: dict[str, Any], result: dict[str, Any]) -> bool:
    """Return whether groups of another size give another order than megatron-core's, where that is so by the table."""
    if "turns" not in result or case["chunks"] == 1 or case["microbatches"] < case["group_size"] + 1:
        return False
    return our_turns(case, group=case["microbatches"]) != result["turns"]


if __name__ == "__main__":
    check()
