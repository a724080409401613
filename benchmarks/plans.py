"""Plan quality: solves every case, checks it and puts it into a table."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.cases import Case
from benchmarks.measure import Measurement, Point, measure, warm_up
from benchmarks.original import original_simulations
from benchmarks.table import aligned
from evenflow.units import megabytes, milliseconds

HEADER = ("case", "status", "makespan ms", "bound ms", "gap %", "first s", "0.5 % s", "proof s", "all s", "peak/limit")


def run_plans(cases: Mapping[str, Case], *, time_limit_s: float | None, isolated: bool, json_path: Path | None) -> int:
    """Measure `cases`, print the tables, write the JSON file; return the exit status, 1 when any check failed."""
    rest = "; then a new process for each case, which loads them" if isolated else ""
    warm = float(_in_a_process("warm-up", "0")) if isolated else warm_up()
    print(f"warm-up: {warm:.1f} s for tiny solves that fill the cache of compiled code{rest}", flush=True)
    done: list[Measurement] = []
    for case in cases.values():
        limit = case.time_limit_s if time_limit_s is None else time_limit_s
        print(f"  {case.name} (at most {limit:g} s) ...", file=sys.stderr, flush=True)
        done.append(_from_json(_in_a_process(case.name, str(limit))) if isolated else measure(case, limit))
        if json_path:  # after every case: a stopped run keeps what it has
            _write(json_path, done)
    print(plan_table(done, with_process_memory=isolated))
    print()
    print(original_table(cases, done))
    broken = [f"{row.case}: {fault}" for row in done for fault in row.faults] + _longer_than_original(cases, done)
    for fault in broken:
        print(f"WRONG {fault}", file=sys.stderr)
    return 1 if broken else 0


def plan_table(rows: Iterable[Measurement], *, with_process_memory: bool = False) -> str:
    """Return a row for each case; `process MB` is only honest where every case had its own process."""
    header = (*HEADER, "process MB") if with_process_memory else HEADER
    return aligned(header, [_row(row)[: len(header)] for row in rows])


def _row(row: Measurement) -> list[str]:
    peak = (
        "-" if row.peak_bytes is None else f"{megabytes(row.peak_bytes):,.1f}/{megabytes(row.memory_limit_bytes):,.0f}"
    )
    return [
        row.case,
        "WRONG" if row.faults else row.status,
        "-" if row.makespan_ns is None else f"{milliseconds(row.makespan_ns):,.3f}",
        f"{milliseconds(row.lower_bound_ns):,.3f}",
        "-" if row.gap is None else f"{100 * row.gap:.3f}",
        *(_seconds(value) for value in (row.first_plan_seconds, row.close_seconds, row.proof_seconds, row.seconds)),
        peak,
        f"{megabytes(row.peak_process_bytes):,.0f}",
    ]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def original_table(cases: Mapping[str, Case], rows: Iterable[Measurement]) -> str:
    """Return the table of the original's plans under evenflow's simulator, beside the plans just found."""
    ours = {row.case: row.makespan_ns for row in rows}
    lines = []
    for name, simulation in original_simulations(cases).items():
        over = max(simulation.peak_memory_bytes) - cases[name].memory_limit_bytes
        makespan = ours.get(name)
        lines.append(
            [
                name,
                f"{milliseconds(simulation.makespan_ns):,.3f}",
                f"{megabytes(max(simulation.peak_memory_bytes)):,.1f}",
                f"over by {megabytes(over):,.1f} MB" if over > 0 else "fits",
                "-" if makespan is None else f"{milliseconds(makespan):,.3f}",
                "-" if makespan is None else f"{100 * (1 - makespan / simulation.makespan_ns):.2f}",
            ]
        )
    header = ("original tool's plan", "makespan ms", "peak MB", "limit", "evenflow ms", "shorter %")
    return aligned(header, lines) if lines else "no plans of the original tool for these cases"


def _longer_than_original(cases: Mapping[str, Case], rows: Iterable[Measurement]) -> list[str]:
    """Return the cases where the original's plan fits and is shorter than the plan just found."""
    ours = {row.case: row.makespan_ns for row in rows}
    faults = []
    for name, simulation in original_simulations(cases).items():
        found = ours[name]
        if simulation.fits(cases[name].memory_limit_bytes) and (found is None or found > simulation.makespan_ns):
            faults.append(f"{name}: the original's plan takes {simulation.makespan_ns} ns, this one {found}")
    return faults


def _in_a_process(name: str, time_limit: str) -> str:
    """Run `python -m benchmarks one` for a case and return its measurement."""
    command = [sys.executable, "-m", "benchmarks", "one", name, "--time-limit", time_limit]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def to_json(row: Measurement) -> str:
    """Return a measurement as text; `_from_json` is the inverse."""
    return json.dumps(asdict(row))


def _from_json(text: str) -> Measurement:
    values = json.loads(text)
    return Measurement(**{**values, "points": [Point(**point) for point in values["points"]]})


def _write(path: Path, rows: Sequence[Measurement]) -> None:
    """Return all measurements as one JSON object."""
    path.write_text(json.dumps({"measurements": [asdict(row) for row in rows]}, indent=1) + "\n", encoding="utf-8")
