"""Layouts of published recipes beside evenflow's plans for Megatron-LM, under the same predicted costs."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.answers import CONFIGS, answer_of
from benchmarks.table import aligned

_SCRIPT = """\
torchrun pretrain_gpt.py --num-layers {layers} --pipeline-model-parallel-size {ranks} --micro-batch-size 1 \\
    --global-batch-size {microbatches} --world-size {ranks} --pipeline-model-parallel-layout '{layout}' {more}
"""
_MTP = "--mtp-num-layers 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A layout that somebody published, and the training that it is for."""

    name: str
    source: str
    config: str
    """Name of a configuration among the examples."""
    layers: int
    ranks: int
    chunks: int
    microbatches: int
    layout: str
    options: tuple[str, ...]
    """Accelerator, degrees and number format of ``evenflow compare``."""
    flags: str = ""
    """Further flags of Megatron-LM."""


LAYOUTS = (
    Layout(
        name="DeepSeek-V3, GB300",
        source="Megatron-Bridge, recipe of DeepSeek-V3 at PP16 VP2",
        config="deepseek_v3.json",
        layers=61,
        ranks=16,
        chunks=2,
        microbatches=64,
        layout="Et*3|(tt|)*29,m|L",
        options=("--accelerator", "gb300", "--tensor", "2", "--expert", "64", "--data", "32"),
        flags=_MTP,
    ),
    Layout(
        name="DeepSeek-V3, H100",
        source="Megatron-Bridge, recipe of DeepSeek-V3 at PP16 VP2",
        config="deepseek_v3.json",
        layers=61,
        ranks=16,
        chunks=2,
        microbatches=64,
        layout="Et*3|(tt|)*29,m|L",
        options=("--accelerator", "h100", "--tensor", "2", "--expert", "64", "--data", "32"),
        flags=f"{_MTP} --recompute-granularity full --recompute-method block --recompute-num-layers 1",
    ),
    Layout(
        name="Llama 3 70B, H100",
        source="Megatron-Bridge, change 5391: TP4 PP8 VP5",
        config="llama3_70b.json",
        layers=80,
        ranks=8,
        chunks=5,
        microbatches=32,
        layout="Et*2|(t*2|)*34,t*3|(t*2|)*3,tL",
        options=("--accelerator", "h100", "--tensor", "4", "--data", "2", "--precision", "fp8"),
    ),
    Layout(
        name="GLM-5.2, 416 H100",
        source="Megatron-Bridge, recipe of pretraining GLM-5.2 at PP13 VP2",
        config="glm5.json",
        layers=78,
        ranks=13,
        chunks=2,
        microbatches=32,
        layout="Et|t||" + "||".join(["|".join(["t*4"] * 4)] * 4) + "||t*4|t*4|t*4mL",
        options=("--accelerator", "h100", "--expert", "32", "--data", "32"),
        flags=f"{_MTP} --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
        "--microbatch-group-size-per-virtual-pipeline-stage 16",
    ),
    Layout(
        name="GLM-5.2, 192 GB200, 128K",
        source="Megatron-Bridge, recipe of training GLM-5.2 on long documents at PP6",
        config="glm5.json",
        layers=78,
        ranks=6,
        chunks=1,
        microbatches=56,
        layout="Et*14|t*16|t*12|t*12|t*12|t*12mL",
        options=("--accelerator", "gb200", "--context", "32", "--expert", "32", "--seq", "131072"),
        flags=f"{_MTP} --recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A layout and evenflow's plan."""

    layout: Layout
    layout_ms: float
    layout_fits: bool
    plan_ms: float
    bound_ms: float


def compare(layout: Layout, *, time_limit_s: float) -> Compared:
    """Plan for Megatron-LM beside a layout."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "run.sh"
        script.write_text(
            _SCRIPT.format(
                layers=layout.layers,
                ranks=layout.ranks,
                microbatches=layout.microbatches,
                layout=layout.layout,
                more=layout.flags,
            ),
            encoding="utf-8",
        )
        found = answer_of(
            "compare", str(CONFIGS / layout.config), *layout.options, "--ranks", str(layout.ranks),
            "--chunks", str(layout.chunks), "--microbatches", str(layout.microbatches), "--baseline", str(script),
            "--time-limit", str(time_limit_s), "--output-folder", folder,
        )  # fmt: skip
    yours, best = found["yours"], found["recommended"]
    limit = yours["memory_limit_mb"]
    return Compared(
        layout=layout,
        layout_ms=yours["makespan_ms"],
        layout_fits=limit is None or max(yours["peak_memory_mb"]) <= limit,
        plan_ms=best["makespan_ms"],
        bound_ms=best["lower_bound_ms"],
    )


def report(rows: list[Compared]) -> str:
    """Return the table."""
    cells = [
        [
            row.layout.name,
            f"{row.layout.ranks} x {row.layout.chunks} x {row.layout.microbatches}",
            row.layout.layout,
            f"{row.layout_ms:,.1f}" + ("" if row.layout_fits else " (over memory)"),
            f"{row.plan_ms:,.1f}",
            f"{100 * (row.plan_ms / row.layout_ms - 1):+.2f} %",
            f"{100 * (1 - row.bound_ms / row.plan_ms):.2f} %",
        ]
        for row in rows
    ]
    return aligned(["recipe", "ranks x chunks x microbatches", "layout", "its ms", "plan ms", "", "gap"], cells)
