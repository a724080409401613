"""What `evenflow tune` takes: configurations, time, memory, and what is proven; each question in its own process."""

import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.table import aligned
from evenflow.targets.tuning import tune

_CONFIGS = Path(__file__).parents[1] / "examples" / "configs"
_GIBIBYTE = 2**20
"""In the kibibytes of `resource`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question for Megatron-LM on H100."""

    config: str
    devices: int
    global_batch: int
    sequence: int


CASES = {
    "70b-256": Case(config="llama3_70b", devices=256, global_batch=1536, sequence=8192),
    "70b-1024": Case(config="llama3_70b", devices=1024, global_batch=1536, sequence=8192),
    "70b-16384": Case(config="llama3_70b", devices=16_384, global_batch=4096, sequence=8192),
    "deepseek-2048": Case(config="deepseek_v3", devices=2048, global_batch=15_360, sequence=4096),
    "kimi-1024": Case(config="kimi_k2", devices=1024, global_batch=8192, sequence=4096),
    "kimi-16384": Case(config="kimi_k2", devices=16_384, global_batch=16_384, sequence=4096),
    "glm-1024": Case(config="glm5", devices=1024, global_batch=8192, sequence=4096),
    "glm-16384": Case(config="glm5", devices=16_384, global_batch=16_384, sequence=4096),
    "qwen-1024": Case(config="qwen3_235b", devices=1024, global_batch=8192, sequence=4096),
    "qwen-16384": Case(config="qwen3_235b", devices=16_384, global_batch=16_384, sequence=4096),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What an answer took."""

    name: str
    legal: int
    refuted: int
    solved: int
    rows: int
    """Rows of the ranking that more was done for than a first plan."""
    processor_s: float
    wall_s: float
    peak_gib: float
    """The most memory that the process had."""
    step_ms: float | None
    gap: float | None


def answer(name: str, time_limit_s: float) -> Taken:
    """Answer a question in this process."""
    case = CASES[name]
    began, worked = time.monotonic(), time.process_time()
    found = tune(
        _CONFIGS / f"{case.config}.json",
        "h100",
        devices=case.devices,
        global_batch=case.global_batch,
        sequence=case.sequence,
        target="megatron",
        time_limit_s=time_limit_s,
    )
    return Taken(
        name=name,
        legal=found.num_legal,
        refuted=found.num_refuted,
        solved=found.num_solved,
        rows=sum(candidate.status is not None for candidate in found.ranked),
        processor_s=time.process_time() - worked,
        wall_s=time.monotonic() - began,
        peak_gib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _GIBIBYTE,
        step_ms=None if found.fastest is None else found.fastest.step_ns / 1e6,
        gap=found.gap,
    )


def measure(name: str, time_limit_s: float) -> Taken:
    """Answer a question in a new process."""
    command = [sys.executable, "-m", "benchmarks", "one-tune", name, "--time-limit", str(time_limit_s)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Taken(**json.loads(done.stdout.splitlines()[-1]))


def to_json(taken: Taken) -> str:
    """Return an answer on one line."""
    return json.dumps(asdict(taken))


def report(every: list[Taken]) -> str:
    """Return the table."""
    header = ["tune", "legal", "refuted", "solved", "rows", "processor s", "wall s", "peak GiB", "step ms", "gap %"]
    rows = [
        [
            taken.name,
            *(f"{count:,}" for count in (taken.legal, taken.refuted, taken.solved, taken.rows)),
            f"{taken.processor_s:.1f}",
            f"{taken.wall_s:.1f}",
            f"{taken.peak_gib:.2f}",
            "-" if taken.step_ms is None else f"{taken.step_ms:,.1f}",
            "-" if taken.gap is None else f"{100 * taken.gap:.2f}",
        ]
        for taken in every
    ]
    return aligned(header, rows)
