"""The scripts of examples/training, on several ranks: they learn, and what they write is what they trained."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from evenflow.export.results.json_text import format_object
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
