"""What keeping, repeating and moving activations bring large models: plans under the same memory limit."""

from dataclasses import dataclass
from typing import Any

from benchmarks.answers import CONFIGS, answer_of
from benchmarks.table import aligned

_MODULES = ("--recompute-sets", "best")
_OFFLOAD = ("--offload", "--host-link", "50GBps")
WAYS = {
    "kept or full": (),
    "modules": _MODULES,
    "segments": ("--recompute-segments", "2,3,4,all"),
    "offload": _OFFLOAD,
    "modules, offload": (*_MODULES, *_OFFLOAD),
}
"""What layers may do, as options of ``evenflow plan``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A training on H100."""

    name: str
    config: str
    """Name of a configuration among the examples."""
    sizes: str
    options: str
    """Options of ``evenflow plan``."""


TRAININGS = (
    Training(
        name="DeepSeek-V3",
        config="deepseek_v3.json",
        sizes="16 x 2 x 64, 77 GB",
        options="--data 64 --expert 64 --ranks 16 --chunks 2 --memory 77GB",
    ),
    Training(
        name="Qwen3-235B",
        config="qwen3_235b.json",
        sizes="8 x 2 x 64, 77 GB",
        options="--data 8 --expert 8 --ranks 8 --chunks 2 --seq 8192 --memory 77GB",
    ),
    Training(
        name="Llama 3 405B",
        config="llama3_405b.json",
        sizes="16 x 1 x 64, 60 GB",
        options="--tensor 8 --ranks 16 --seq 8192 --memory 60GB",
    ),
)


def plan(training: Training, way: str, *, time_limit_s: float) -> dict[str, Any]:
    """Return the answer of ``evenflow plan``."""
    return answer_of(
        "plan", str(CONFIGS / training.config), *training.options.split(), *WAYS[way], "--microbatches", "64",
        "--accelerator", "h100", "--mix", "any", "--time-limit", str(time_limit_s),
    )  # fmt: skip


def report(*, time_limit_s: float) -> str:
    """Return a table of steps in ms and gaps, and what each step is shorter than the first."""
    rows = []
    for training in TRAININGS:
        first_ms = 0.0
        for way in WAYS:
            found = plan(training, way, time_limit_s=time_limit_s)
            step_ms, bound_ms = found["makespan_ms"], found["lower_bound_ms"]
            first_ms = first_ms or step_ms
            shorter = f"{100 * (1 - step_ms / first_ms):.1f} %"
            gap = "proven" if found["status"] == "optimal" else f"{100 * (1 - bound_ms / step_ms):.2f} %"
            rows.append([training.name, training.sizes, way, f"{step_ms:,.1f}", shorter, gap])
    return aligned(["model", "sizes", "layers may be", "step ms", "shorter", "gap"], rows)
