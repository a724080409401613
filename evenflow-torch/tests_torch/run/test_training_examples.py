"""The scripts of examples/training, on several ranks: they learn, and what they write is what they trained."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from evenflow.cli.main import main
from evenflow.export.results.json_text import format_object
from evenflow.profiles.layer_file import format_layer_file
from tests.networks import plain_network
from tests.paths import ROOT
from tests_torch.run.test_script import PLAN
from tests_torch.run.warm_scripts import run_script

pytestmark = pytest.mark.processes

FOLDER = ROOT / "examples" / "training"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(format_object({**PLAN, "layers": [[2, 2]]}), encoding="utf-8")
    return path


CONFIG = {
    "model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "max_position_embeddings": 64,
}  # fmt: skip


@pytest.fixture
def planned(tmp_path: Path) -> dict[int, str]:
    """Plans of `evenflow plan` for a model on one and on two ranks, as the head of the examples has them."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG), encoding="utf-8")
    plans = {}
    for ranks in (1, 2):
        plans[ranks] = str(tmp_path / f"plan{ranks}.json")
        sizes = ("--accelerator", "h100", "--ranks", str(ranks), "--microbatches", "4", "--seq", "16")
        assert CliRunner().invoke(main, ["plan", str(config), *sizes, "--json", plans[ranks]]).exit_code == 0
    return plans


def trained(folder: Path, name: str, plan: str, *arguments: str, processes: int) -> list[str]:
    """Run an example with a plan of the model, in a folder of its own; return the lines that it prints."""
    folder.mkdir(exist_ok=True)
    config = str(Path(plan).with_name("config.json"))
    printed = run_script(folder, str(FOLDER / name), plan, config, *arguments, processes=processes)
    return printed.splitlines()


def losses_of(output: str, name: str) -> list[float]:
    return [float(line.rpartition(" ")[2]) for line in output.splitlines() if line.startswith(name)]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_model_of_ones_own_learns_and_goes_on_from_its_checkpoint(plan: Path, tmp_path: Path) -> None:
    printed = run_script(tmp_path, str(FOLDER / "any_model.py"), str(plan), processes=2)
    losses = losses_of(printed, "step")
    assert len(losses) == 12
    assert losses[-1] < losses[0]
    assert losses_of(printed, "held out")[0] < losses[0]
    assert losses_of(printed, "again 6") == pytest.approx([losses[6]], abs=1e-4)


def test_parameters_of_hugging_face_are_trained_and_written_back(plan: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=2,
        tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    command = (str(FOLDER / "pretrained.py"), str(plan), str(tmp_path / "model"), str(tmp_path / "new"))
    printed = run_script(tmp_path, *command, processes=4)
    losses = losses_of(printed, "step")
    assert losses[-1] < losses[0]
    example = script("pretrained")
    trained = AutoModelForCausalLM.from_pretrained(tmp_path / "new").eval()
    inputs, targets = example.samples(99, 6, 32)
    expected = (example.sum_over_tokens(trained(inputs).logits, targets) / example.num_tokens(targets)).detach()
    assert losses_of(printed, "held out") == pytest.approx([float(expected)], abs=2e-4)


def test_split_layers_learn_in_half_precision(plan: Path, tmp_path: Path) -> None:
    printed = run_script(tmp_path, str(FOLDER / "tensor_parallel.py"), str(plan), processes=4)
    losses = losses_of(printed, "step")
    assert len(losses) == 8
    assert losses[-1] < losses[0]
    assert (tmp_path / "checkpoint" / ".metadata").exists()


def test_a_module_is_planned_for_the_processes_and_goes_on_with_others(tmp_path: Path) -> None:
    first = run_script(tmp_path, str(FOLDER / "two_level.py"), processes=4)
    assert len([line for line in first.splitlines() if line.startswith("stage on devices")]) == 2
    again = run_script(tmp_path, str(FOLDER / "two_level.py"), processes=2)
    losses = losses_of(first, "step"), losses_of(again, "step")
    assert [line.split(":")[0] for line in again.splitlines() if line.startswith("step")] == [
        f"step {number}" for number in range(6, 12)
    ]
    assert losses[0][-1] < losses[0][0] / 2
    assert max(losses[1]) < losses[0][-1]
    for printed, processes in ((first, 4), (again, 2)):
        checked = [line for line in printed.splitlines() if line.startswith("checked")]
        assert len(checked) == processes
        assert all(line.endswith("differences 0") for line in checked)
    assert any(int(line.split()[1]) for line in first.splitlines() if line.startswith("checked"))


def test_evenflow_run_trains_on_files_and_goes_on_under_another_plan(tmp_path: Path) -> None:
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([FOLDER / "on_data.sh", tmp_path], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in told] == list(range(1, 13))
    evaluated = [line["eval_loss"] for line in told if "eval_loss" in line]
    assert sorted(evaluated, reverse=True) == evaluated
    assert len(evaluated) == 3
    saved = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert saved == ["step-00000004", "step-00000008", "step-00000012"]


def test_replicas_check_the_work_of_modules_in_order(plan: Path, tmp_path: Path) -> None:
    layers = tmp_path / "layers.json"
    layers.write_text(format_layer_file(plain_network(num_layers=4)), encoding="utf-8")
    printed = run_script(tmp_path, str(FOLDER / "checked.py"), str(layers), str(plan), processes=4)
    losses = losses_of(printed, "step")
    assert losses[-1] < losses[0]
    checked = [line for line in printed.splitlines() if line.startswith("checked")]
    assert len(checked) == 4
    assert all(int(line.split()[1]) > 0 and line.endswith("differences 0") for line in checked)


def test_a_plain_loop_goes_on_under_another_plan_as_if_it_had_not_stopped(
    planned: dict[int, str], tmp_path: Path
) -> None:
    whole = trained(tmp_path / "whole", "loop.py", planned[2], "6", processes=2)
    assert [line.split(":")[0] for line in whole] == [f"step {step}" for step in range(6)]
    assert trained(tmp_path / "parts", "loop.py", planned[2], "3", processes=2) == whole[:3]
    again = trained(tmp_path / "parts", "loop.py", planned[1], "6", processes=1)
    assert losses_of("\n".join(again), "step") == pytest.approx(losses_of("\n".join(whole[3:]), "step"), abs=2e-6)


def test_the_trainer_of_transformers_goes_on_with_replicas_and_under_another_plan(
    planned: dict[int, str], tmp_path: Path
) -> None:
    def history(lines: list[str]) -> dict[str, dict[int, float]]:
        told = [json.loads(line) for line in lines if line.startswith('{"')]
        return {name: {each["step"]: each[name] for each in told if name in each} for name in ("loss", "eval_loss")}

    whole = history(trained(tmp_path / "whole", "with_trainer.py", planned[2], "10", processes=2))
    assert list(whole["loss"]) == list(range(1, 11))
    assert whole["loss"][10] < whole["loss"][1]
    assert list(whole["eval_loss"]) == [5, 10]
    trained(tmp_path / "parts", "with_trainer.py", planned[2], "5", processes=2)
    for ranks, processes in ((1, 1), (2, 4)):
        folder = tmp_path / f"again{processes}"
        shutil.copytree(tmp_path / "parts", folder)
        again = history(trained(folder, "with_trainer.py", planned[ranks], "10", "resume", processes=processes))
        assert again["loss"] == pytest.approx(whole["loss"], rel=1e-5)
        assert again["eval_loss"] == pytest.approx(whole["eval_loss"], rel=1e-5)
    written = AutoModelForCausalLM.from_pretrained(tmp_path / "again4" / "trained" / "checkpoint-10")
    assert sum(parameter.numel() for parameter in written.parameters()) > 0


def test_fine_tuning_on_answers_alone_goes_on_with_replicas_and_under_another_plan(
    planned: dict[int, str], tmp_path: Path
) -> None:
    whole = trained(tmp_path / "whole", "fine_tuning.py", planned[2], "12", processes=2)
    losses = losses_of("\n".join(whole), "step")
    assert len(losses) == 12
    assert losses[-1] < 0.8 * losses[0]
    trained(tmp_path / "parts", "fine_tuning.py", planned[2], "5", processes=2)
    for ranks, processes in ((1, 1), (2, 4)):
        folder = tmp_path / f"again{processes}"
        shutil.copytree(tmp_path / "parts", folder)
        again = "\n".join(trained(folder, "fine_tuning.py", planned[ranks], "12", processes=processes))
        assert losses_of(again, "step") == pytest.approx(losses[5:], rel=1e-5)
        assert losses_of(again, "held out") == pytest.approx(losses_of("\n".join(whole), "held out"), rel=1e-5)
