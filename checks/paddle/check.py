"""Are evenflow's orders as short as PaddlePaddle's own? Run by `make check-paddle`.

PaddlePaddle's schedulers make their job lists (`job_lists.py`, in an environment of its own). Each list and evenflow's
order for the same sizes are run by the exact simulator, all stages equal, with a backward that takes twice and once the
time of a forward. Lists that can never finish are shown as the schedule checker shows them. Then pairs are spoiled on
purpose: each must be found.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import numpy as np

from evenflow.errors import ScheduleError
from evenflow.schedule import Action, Op, Schedule, check_complete, make_schedule
from evenflow.simulate import build_graph, duration_table
from evenflow.simulate.timeline import run

JOB_LISTS = Path(__file__).resolve().parent / "job_lists.py"
FAMILIES = {"VPP": "interleaved", "1F1B": "1f1b", "FThenB": "f-then-b"}
TIMES_NS = ((1, 2), (1, 1))
"""Times of forward and backward of every stage, in ns."""
JOB = re.compile(r"(forward|backward)(\d*)")
"""Jobs that compute, with their chunk; other jobs send, receive or update the parameters."""

EQUAL, SHORTER, LONGER, CYCLIC, REFUSED = "equal", "shorter", "LONGER", "cyclic wait", "refused"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """PaddlePaddle's order and evenflow's for the same sizes."""

    scheduler: str
    num_ranks: int
    num_chunks: int
    num_microbatches: int
    ours: Schedule
    theirs: Schedule | None
    """PaddlePaddle's order; None where it refuses the sizes."""

    @property
    def name(self) -> str:
        """The sizes under PaddlePaddle's names."""
        return f"{self.scheduler} pp {self.num_ranks}, vpp {self.num_chunks}, acc {self.num_microbatches}"


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of comparing a pair."""

    pair: Pair
    verdict: str
    bubbles: tuple[tuple[float, float], ...] = ()
    """Idle shares of all ranks' time, ours and theirs, for each of `TIMES_NS`."""
    fault: str = ""
    """The reason why their order cannot finish."""


@click.command()
@click.option(
    "--python",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="The interpreter of the environment that has paddlepaddle.",
)
@click.option("--grids", type=click.Path(path_type=Path), required=True, help="Write the cyclic waits to this file.")
def check(python: Path, grids: Path) -> None:
    """Let PaddlePaddle make its lists, run both, compare."""
    version, cases = job_lists(python)
    pairs = [make_pair(case) for case in cases]
    click.echo(f"PaddlePaddle {version}: the job lists of {len(pairs)} sizes")
    results = [compare(pair) for pair in pairs]
    print_table(results)
    cyclic = [result for result in results if result.verdict == CYCLIC]
    print_cyclic(cyclic)
    grids.parent.mkdir(parents=True, exist_ok=True)
    grids.write_text("".join(f"{each.pair.name}\n{each.fault}\n\n" for each in cyclic), encoding="utf-8")
    click.echo(f"wrote {grids}")
    failures = [f"{each.pair.name}: evenflow's order takes longer" for each in results if each.verdict == LONGER]
    spoiled = list(spoiled_pairs(results))
    failures += [
        f"{pair.name}: {fault} was not noticed" for fault, pair, wanted in spoiled if compare(pair).verdict != wanted
    ]
    counts = Counter(result.verdict for result in results)
    click.echo(
        f"\n{len(results)} sizes: "
        + ", ".join(f"{counts[verdict]} {verdict}" for verdict in (EQUAL, SHORTER, LONGER, CYCLIC, REFUSED))
        + f"; {len(spoiled)} spoiled on purpose; {len(failures)} failures"
    )
    for failure in failures:
        click.echo(failure, err=True)
    sys.exit(1 if failures or not spoiled else 0)


def job_lists(python: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the package's version and its job lists."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job_lists.json"
        process = subprocess.run(
            [python.absolute(), JOB_LISTS, file], cwd=folder, capture_output=True, text=True, check=False
        )
        if process.returncode:
            sys.exit(f"PaddlePaddle could not be run:\n{process.stdout[-2000:]}{process.stderr[-4000:]}")
        found = json.loads(file.read_text("utf-8"))
    return found["version"], found["cases"]


def make_pair(case: dict[str, Any]) -> Pair:
    """Make both orders of one case of the job lists."""
    sizes = {"num_ranks": case["ranks"], "num_chunks": case["chunks"], "num_microbatches": case["microbatches"]}
    return Pair(
        scheduler=case["scheduler"],
        **sizes,
        ours=make_schedule(FAMILIES[case["scheduler"]], **sizes),
        theirs=parse_jobs(case) if "jobs" in case else None,
    )


def parse_jobs(case: dict[str, Any]) -> Schedule:
    """Return the computing jobs as a schedule; chunk c of rank r is stage ``c * ranks + r``."""
    orders = [
        [
            Action(int(job[2] or 0) * case["ranks"] + rank, Op.F if job[1] == "forward" else Op.B, microbatch)
            for name, microbatch in jobs
            if (job := JOB.fullmatch(name))
        ]
        for rank, jobs in enumerate(case["jobs"])
    ]
    return Schedule.from_actions(
        name=f"of PaddlePaddle's {case['scheduler']}",
        num_stages=case["ranks"] * case["chunks"],
        num_microbatches=case["microbatches"],
        orders=orders,
    )


def compare(pair: Pair) -> Result:
    """Run both orders. Both must be complete, and ours must be able to finish: else a ScheduleError ends the check."""
    check_complete(pair.ours)
    ours = makespans(pair.ours)
    if pair.theirs is None:
        return Result(pair=pair, verdict=REFUSED)
    check_complete(pair.theirs)
    try:
        theirs = makespans(pair.theirs)
    except ScheduleError as error:
        return Result(pair=pair, verdict=CYCLIC, fault=str(error))
    verdict = EQUAL if ours == theirs else SHORTER
    if any(mine > other for mine, other in zip(ours, theirs, strict=True)):
        verdict = LONGER
    work = [pair.num_chunks * pair.num_microbatches * sum(times) for times in TIMES_NS]
    bubbles = tuple((1 - each / mine, 1 - each / other) for each, mine, other in zip(work, ours, theirs, strict=True))
    return Result(pair=pair, verdict=verdict, bubbles=bubbles)


def makespans(schedule: Schedule) -> list[int]:
    """Return the step for each of `TIMES_NS`; raises ScheduleError for an order that can never finish."""
    graph = build_graph(schedule)
    each = np.ones(schedule.num_stages, dtype=np.int64)
    return [
        run(graph, duration_table(forward_ns * each, backward_ns * each, 0 * each)).makespan_ns
        for forward_ns, backward_ns in TIMES_NS
    ]


def most_live(schedule: Schedule) -> int:
    """Return the largest number of forwards on any rank that wait for their backward."""
    change = np.where(schedule.ops == Op.F, 1, -1)
    spans = zip(schedule.rank_starts, schedule.rank_starts[1:], strict=False)
    return max(int(np.cumsum(change[start:stop]).max()) for start, stop in spans)


def spoiled_pairs(results: list[Result]) -> Iterator[tuple[str, Pair, str]]:
    """Yield what was spoiled, the pair, and the verdict that it must get."""
    for result in results:
        pair = result.pair
        if pair.theirs is None or result.verdict == CYCLIC or pair.num_microbatches % 5:
            continue
        if result.verdict == SHORTER:
            yield "the longer order given as ours", replace(pair, ours=pair.theirs, theirs=pair.ours), LONGER
        yield "microbatches one by one", replace(pair, ours=one_by_one(pair)), LONGER
        yield "ranks that wait for each other", replace(pair, theirs=with_cyclic_wait(pair.theirs)), CYCLIC


def one_by_one(pair: Pair) -> Schedule:
    """Return the order without any overlap: each microbatch starts when the one before has finished."""
    stages = range(pair.ours.num_stages)
    orders = [
        [
            Action(stage, op, microbatch)
            for microbatch in range(pair.num_microbatches)
            for op in (Op.F, Op.B)
            for stage in (stages if op == Op.F else reversed(stages))
            if stage % pair.num_ranks == rank
        ]
        for rank in range(pair.num_ranks)
    ]
    return Schedule.from_actions(
        name="one by one", num_stages=len(stages), num_microbatches=pair.num_microbatches, orders=orders
    )


def with_cyclic_wait(schedule: Schedule) -> Schedule:
    """Make the first stage wait for backward 0 before forward 1, and the last for forward 1 before backward 0."""
    orders = [schedule.order(rank) for rank in range(schedule.num_ranks)]
    last = schedule.num_stages - 1
    for order, moved, behind in (
        (orders[0], Action(0, Op.F, 1), Action(0, Op.B, 0)),
        (orders[-1], Action(last, Op.B, 0), Action(last, Op.F, 1)),
    ):
        order.remove(moved)
        order.insert(order.index(behind) + 1, moved)
    return Schedule.from_actions(
        name=schedule.name,
        num_stages=schedule.num_stages,
        num_microbatches=schedule.num_microbatches,
        orders=orders,
    )


def print_table(results: list[Result]) -> None:
    """Print a row for each scheduler, ranks and chunks, with the bubbles where the two differ most."""
    click.echo("\n                  evenflow's order is                     where they differ most, t_b = 2 t_f")
    click.echo("scheduler  pp  vpp  equal  shorter  LONGER  cyclic  refused   acc  bubble  theirs  most live  theirs")
    for (scheduler, num_ranks, num_chunks), group in groupby(
        results, key=lambda each: (each.pair.scheduler, each.pair.num_ranks, each.pair.num_chunks)
    ):
        rows = list(group)
        counts = Counter(each.verdict for each in rows)
        line = (
            f"{scheduler:<9}{num_ranks:>4}{num_chunks:>5}{counts[EQUAL]:>7}{counts[SHORTER]:>9}{counts[LONGER]:>8}"
            f"{counts[CYCLIC]:>8}{counts[REFUSED]:>9}"
        )
        different = [each for each in rows if each.verdict in (SHORTER, LONGER)]
        if different:
            worst = max(different, key=lambda each: each.bubbles[0][1] - each.bubbles[0][0])
            pair, (ours, theirs) = worst.pair, worst.bubbles[0]
            assert pair.theirs is not None
            line += (
                f"{pair.num_microbatches:>6}{100 * ours:>6.1f} %{100 * theirs:>6.1f} %"
                f"{most_live(pair.ours):>11}{most_live(pair.theirs):>8}"
            )
        click.echo(line)


def print_cyclic(results: list[Result]) -> None:
    """Print the sizes whose lists can never finish, and the first of them in full."""
    click.echo(f"\n{len(results)} job lists can never finish:")
    for (num_ranks, num_chunks), group in groupby(
        results, key=lambda each: (each.pair.num_ranks, each.pair.num_chunks)
    ):
        steps = ", ".join(str(each.pair.num_microbatches) for each in group)
        click.echo(f"  pp {num_ranks}, vpp {num_chunks}: acc {steps}")
    if results:
        click.echo(f"\nfor example {results[0].pair.name}:\n{results[0].fault}\n")


if __name__ == "__main__":
    check()
