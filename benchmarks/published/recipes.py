"""What `evenflow tune` chooses beside published recipes, on the devices that they are for."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.table import aligned
from evenflow.predict.memory import fullest
from evenflow.predict.prediction import Prediction, predict
from evenflow.predict.training import Degrees, Training
from evenflow.profiles.measured.as_training import training_of
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.reading import read_runs
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.targets.registry import target_named
from evenflow.targets.tuning import for_framework
from evenflow.tune.axes import schedule_of
from evenflow.tune.error import uncertain_ns
from evenflow.tune.question import TuningQuestion
from evenflow.tune.search import search
from evenflow.tune.tuned import Tuned
from evenflow.tune.wording import recompute_words

_HERE = Path(__file__).parent
_GIBIBYTE = 2**30
_PARTS = 2
"""Parts of a step that are named as the reason of a difference."""


DEEPSEEK = MeasuredRun(
    id="moe-zoo-deepseek-v3",
    source="megatron-moe-model-zoo",
    ref="yanring/Megatron-MoE-ModelZoo: runtime_configs/benchmarking/runtime.conf (30631ea), best_practice/DeepSeekV3",
    hardware="h100", gpus=1024, gpus_per_node=8, model="DeepSeek-V3", hidden=7168, ffn=18432, layers=61, heads=128,
    kv_heads=128, head_dim=128, vocab=129_280, seq=4096, experts=256, active_experts=8, expert_ffn=2048,
    shared_experts=1, mtp_layers=1, gated_mlp=True, tied_embeddings=False, precision="fp8", tp=1, cp=1, ep=64, dp=64,
    pp=16, vpp=1, zero="distopt", mbs=1, gbs=8192, schedule="1f1b", layout="first=4 last=1", recompute="selective",
    recompute_detail="recompute_modules=['mla_up_proj', 'mlp']", overlap_flags="deepep",
)  # fmt: skip
"""A recipe without a published step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A published configuration: a row of a file of runs, with what the row leaves out."""

    name: str
    file: str
    id: str
    gpus: int | None = None
    """Where the row does not state it."""

    @property
    def run(self) -> MeasuredRun:
        """Its completed row."""
        if self.id == DEEPSEEK.id:
            return completed(DEEPSEEK)
        run = next(run for run in read_runs(_HERE / self.file) if run.id == self.id)
        return completed(run if self.gpus is None else replace(run, gpus=self.gpus))


RECIPES = (
    Recipe(name="Llama 3.1 8B", file="data/megatron_bridge.csv", id="bridge-058"),
    Recipe(name="Llama 3.1 70B", file="data/megatron_bridge.csv", id="bridge-051"),
    Recipe(name="Llama 3.1 405B", file="data/megatron_bridge.csv", id="bridge-040"),
    Recipe(
        name="Mixtral 8x22B",
        file="data/megatron_golden.csv",
        id="golden-mixtral/mixtral_8x22b_tp2pp8ep8vpp1_release-dev_dgx_h100",
        gpus=128,  # 16 nodes: runtime_configs/benchmarking/runtime.conf of yanring/Megatron-MoE-ModelZoo
    ),
    Recipe(name="Qwen3 235B", file="held_out/moe_model_zoo.csv", id="moe-zoo-235B-1"),
    Recipe(name="DeepSeek-V3", file="", id=DEEPSEEK.id),
    Recipe(name="GPT-3 175B", file="data/mlperf.csv", id="mlperf-v3.0-dgxh100_n64_nemo-gpt3"),
)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A recipe, and the choice on its devices."""

    name: str
    measured_s: float | None
    recipe: Prediction
    tuned: Tuned


def compare(recipe: Recipe, *, time_limit_s: float) -> Compared:
    """Predict a recipe and choose for the same model, devices, batch and software, by the rules of Megatron-LM."""
    run = recipe.run
    training, topology = training_of(run)
    question = TuningQuestion(
        model=training.model,
        topology=topology,
        devices=training.degrees.devices,
        global_batch=training.global_batch,
        sequence=training.sequence,
        memory_limit_bytes=topology.accelerator.memory_bytes,
        precision=training.precision,
    )
    question = for_framework(question, target_named("megatron", place="target"), None)
    tuned = search(replace(question, software=training.software), rows=3, time_limit_s=time_limit_s)
    return Compared(name=recipe.name, measured_s=run.step_s, recipe=predict(training, topology), tuned=tuned)


def table(every: list[Compared]) -> str:
    """Return recipes and choices, two lines each, and where the difference of their steps is."""
    header = ["on", "", "TP", "CP", "EP", "PP", "DP", "MBS", "schedule", "recompute"]
    header += ["measured s", "step s", "peak GiB", "against recipe"]
    rows = []
    for one in every:
        devices = f"{one.recipe.training.degrees.devices:,} x {one.recipe.topology.accelerator.name}"
        measured = "-" if one.measured_s is None else f"{one.measured_s:.2f}"
        recipe = one.recipe
        rows.append([one.name, "recipe", *_cells(recipe), recipe.training.recompute, measured, *_sizes(recipe), "-"])
        best = one.tuned.best
        if best is None or best.prediction is None:
            rows.append([devices, "tune", *["-"] * 8, "", "-", "-", "none found"])
            continue
        less = best.step_ns / recipe.step_ns - 1
        known = "" if abs(less) * recipe.step_ns > uncertain_ns(best.prediction) else " (not told apart)"
        rows.append([devices, "tune", *_cells(best.prediction), recompute_words(best.prediction.simulation.plan), "",
                     *_sizes(best.prediction), f"{100 * less:+.1f} %{known}"])  # fmt: skip
    return aligned(header, rows)


def reasons(every: list[Compared]) -> str:
    """Return the parts of the step that differ most, one recipe on a line."""
    return "\n".join(f"{one.name}: {', '.join(_reasons(one))}" for one in every if one.tuned.best is not None)


def _reasons(one: Compared) -> Iterator[str]:
    limit = one.tuned.question.memory_limit_bytes
    peak = one.recipe.memory[fullest(one.recipe.memory)].total_bytes
    if peak > limit:
        yield f"the recipe is predicted to need {peak / _GIBIBYTE:.0f} of {limit / _GIBIBYTE:.0f} GiB"
    best = one.tuned.best
    assert best is not None
    assert best.prediction is not None
    of_recipe = {part.name: part.exposed_ns for part in one.recipe.parts}
    of_best = {part.name: part.exposed_ns for part in best.prediction.parts}
    names = dict.fromkeys([*of_recipe, *of_best])
    changes = {name: of_best.get(name, 0.0) - of_recipe.get(name, 0.0) for name in names}
    for name in sorted(changes, key=lambda name: -abs(changes[name]))[:_PARTS]:
        yield f"{name} {100 * changes[name] / one.recipe.step_ns:+.1f} % of the recipe's step"
    yield f"no configuration is more than {100 * (one.tuned.gap or 0):.1f} % faster than the choice"


def _cells(prediction: Prediction) -> list[str]:
    training: Training = prediction.training
    degrees: Degrees = training.degrees
    pipeline = f"{degrees.pipeline} x {degrees.chunks}" if degrees.chunks > 1 else str(degrees.pipeline)
    data = f"{degrees.data} ZeRO-{degrees.sharding}"
    return [str(degrees.tensor), str(degrees.context), str(degrees.expert), pipeline, data, str(training.microbatch),
            schedule_of(training)]  # fmt: skip


def _sizes(prediction: Prediction) -> list[str]:
    peak = prediction.memory[fullest(prediction.memory)].total_bytes
    return [f"{prediction.step_ns / 1e9:.2f}", f"{peak / _GIBIBYTE:.1f}"]
