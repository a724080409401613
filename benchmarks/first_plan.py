"""Time to a first plan in a new process, with the machine code of the loops on disk and without."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.table import aligned

ROOT = Path(__file__).resolve().parent.parent
TIME_LIMIT_S = 5.0
SIZES = {"70b-8x1": 1, "70b-8x2": 2}
"""Names of the cases, and chunks of each."""
_CHILD = """
import json, sys, time
import evenflow

seconds = []
def note(progress):
    if progress.makespan_ns is not None:
        seconds.append(time.monotonic())
network = evenflow.read_layer_file("examples/llama2_70b.json")
outcome = evenflow.plan(
    network, num_ranks=8, num_chunks=int(sys.argv[1]), num_microbatches=32, memory_limit_bytes=56 * 2**30,
    time_limit_s=float(sys.argv[2]), progress=note,
)
end = time.monotonic()
json.dump({"first": seconds[0], "end": end, "step_ns": outcome.makespan_ns, "gap": outcome.gap}, sys.stdout)
sys.stdout.flush()
"""


@dataclass(frozen=True, kw_only=True)
class FirstPlan:
    """When one new process had a plan."""

    case: str
    is_cold: bool
    """Whether every loop had to be compiled."""
    first_s: float
    """Seconds from the start of the process to the first report of a plan."""
    whole_s: float
    """Seconds to the answer; the limit is `TIME_LIMIT_S`, for planning alone."""
    step_ns: int
    gap: float


def measure_all() -> Iterator[FirstPlan]:
    """Yield what processes with an empty cache, and then with a filled one, take for each case."""
    for case, num_chunks in SIZES.items():
        with tempfile.TemporaryDirectory() as cache:
            yield _measure(case, num_chunks, Path(cache), time_limit_s=TIME_LIMIT_S, is_cold=True)
            _measure(case, num_chunks, Path(cache), time_limit_s=60.0, is_cold=False)  # compiles what is missing
            yield _measure(case, num_chunks, Path(cache), time_limit_s=TIME_LIMIT_S, is_cold=False)


def _measure(case: str, num_chunks: int, cache: Path, *, time_limit_s: float, is_cold: bool) -> FirstPlan:
    began = time.monotonic()
    text = subprocess.run(
        [sys.executable, "-c", _CHILD, str(num_chunks), str(time_limit_s)],
        cwd=ROOT,
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    answer = json.loads(text)
    return FirstPlan(
        case=case,
        is_cold=is_cold,
        first_s=answer["first"] - began,
        whole_s=answer["end"] - began,
        step_ns=answer["step_ns"],
        gap=answer["gap"],
    )


def table(rows: list[FirstPlan]) -> str:
    """Return the measurements as text."""
    return aligned(
        ("case", "cache", "first plan s", "answer s", "step ms", "gap %"),
        [
            (
                row.case,
                "empty" if row.is_cold else "filled",
                f"{row.first_s:.2f}",
                f"{row.whole_s:.2f}",
                f"{row.step_ns / 1e6:,.3f}",
                f"{100 * row.gap:.2f}",
            )
            for row in rows
        ],
    )
