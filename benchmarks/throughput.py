"""Published throughput of mixtures of experts beside its prediction; nothing is fitted to these runs."""

from dataclasses import dataclass

from benchmarks.answers import CONFIGS, answer_of
from benchmarks.table import aligned

_ALL = ("--precision", "fp8", "--token-dispatcher", "deepep", "--gradient-dtype", "bf16")
"""Of every run: 8-bit products, tokens that go once to each node, 16-bit gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run whose throughput NVIDIA publishes: degrees and batch of the published row, the rest of the recipe."""

    name: str
    tokens_per_s_per_device: float
    config: str
    """Name of a configuration among the examples."""
    options: str
    """Words of ``evenflow predict``."""
    sequence: int = 4096
    """Tokens of a sequence."""
    layers: tuple[str, ...] = ()
    """Layers of each rank, for each chunk in turn; empty: dealt evenly."""


_HIDDEN = "--overlap gradients,parameters,pipeline,experts --cuda-graphs"
RUNS = (
    Run(
        name="DeepSeek-V3, 256 GB300",
        tokens_per_s_per_device=6288,
        config="deepseek_v3.json",
        options=f"--accelerator gb300 --gpus 256 --pipeline 2 --chunks 8 --expert 32 --global-batch 4096 {_HIDDEN}",
        layers=("4,4",) * 7 + ("4,1",),
    ),
    Run(
        name="DeepSeek-V3, 1,024 H100",
        tokens_per_s_per_device=1297,
        config="deepseek_v3.json",
        options="--accelerator h100 --gpus 1024 --tensor 2 --pipeline 8 --chunks 4 --expert 64 --global-batch 8192"
        " --overlap parameters,pipeline --recompute selective --recompute-modules mla_up_proj,mlp --allow-empty",
        layers=("1,2,2,2,2,2,2,2", *("2,2,2,2,2,2,2,2",) * 2, "2,2,2,2,2,2,2,0"),
    ),
    Run(
        name="Qwen3-235B, 256 GB300",
        tokens_per_s_per_device=8816,
        config="qwen3_235b.json",
        options="--accelerator gb300 --gpus 256 --pipeline 4 --chunks 12 --expert 32 --global-batch 8192 --microbatch 2"
        f" {_HIDDEN}",
        layers=("1,2,2,2", *("2,2,2,2",) * 10, "2,2,2,1"),
    ),
    Run(
        name="DeepSeek-V4-Flash, 128 GB300",
        tokens_per_s_per_device=8224,
        config="deepseek_v4_flash.json",
        options="--accelerator gb300 --gpus 128 --expert 64 --global-batch 2048 --cuda-graphs"
        " --recompute selective --recompute-modules mla_up_proj",
    ),
    # Parameters are sharded in each of four domains of 64, here over all: what is fetched is under computation anyway.
    # Inputs of experts go to the host, so the memory that is predicted with them is no limit.
    Run(
        name="Nemotron-3 Ultra, 256 GB300",
        tokens_per_s_per_device=3552,
        config="nemotron3_ultra_550b.json",
        options="--accelerator gb300 --gpus 256 --expert 64 --global-batch 256 --zero 3 --overlap gradients,parameters"
        " --recompute selective --recompute-modules moe_act --memory 600GB",
        sequence=8192,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A run, and the tokens each device is predicted to take in a second, with the interval of four of five runs."""

    run: Run
    likely: float
    least: float
    most: float


def predict(run: Run) -> Predicted:
    """Predict a run with the command that a user would call."""
    layers = [word for chunk in run.layers for word in ("--layers-per-rank", chunk)]
    model = ("--model", str(CONFIGS / run.config), "--seq", str(run.sequence))
    found = answer_of("predict", *model, *_ALL, *run.options.split(), *layers)
    likely, (short, long) = found["tokens_per_s_per_device"], found["step_interval_ms"]
    return Predicted(
        run=run, likely=likely, least=likely * found["step_ms"] / long, most=likely * found["step_ms"] / short
    )


def report(rows: list[Predicted]) -> str:
    """Return the table, in tokens a second and device."""
    header = ["run", "published", "predicted", "four of five", "predicted beside published", "published is within"]
    cells = [
        [
            row.run.name,
            f"{row.run.tokens_per_s_per_device:,.0f}",
            f"{row.likely:,.0f}",
            f"{row.least:,.0f} to {row.most:,.0f}",
            f"{100 * (row.likely / row.run.tokens_per_s_per_device - 1):+.0f} %",
            "yes" if row.least <= row.run.tokens_per_s_per_device <= row.most else "no",
        ]
        for row in rows
    ]
    return aligned(header, cells)
