"""Frozen layers and adapters on real processes: trained as the plan has it, or as the command line says."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests_torch.run.warm_ranks import typed

pytestmark = pytest.mark.processes

CONFIG = {
    "model_type": "llama", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 6,
    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 128,
}  # fmt: skip
TRAINED = ("--accelerator", "a100", "--microbatches", "4", "--seq", "32", "--time-limit", "5")


def evenflow(folder: Path, *arguments: str, exit_code: int = 0) -> Result:
    done = typed(folder, *arguments)
    assert done.exit_code == exit_code, done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan whose first stage has nothing but frozen layers, and the second one some."""
    place = tmp_path_factory.mktemp("frozen")
    (place / "model.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    plan = ("plan", "model.json", "--ranks", "2", *TRAINED, "--freeze", "4", "--layers-per-rank", "3,3")
    evenflow(place, *plan, "--schedule", "zb-h1", "--json", "plan.json")
    return place


def ran(folder: Path, *options: str, steps: int) -> dict[str, Any]:
    run = ("run", "plan.json", "--model", "model.json", "--steps", str(steps), "--seq", "32", "--dtype", "fp64")
    evenflow(folder, *run, "--verify", *options, "--json", "run.json", "--overwrite")
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def test_a_plan_says_what_is_frozen(folder: Path) -> None:
    result = ran(folder, "--aa-check", steps=7)
    assert result["verification"]["agrees"]
    assert result["calibration"]["weight_ms"][0] == 0 < result["calibration"]["weight_ms"][1]
    assert not result["aa_check"]["mismatches"]
    assert result["frozen_layers"] == 4


def test_the_command_line_has_the_last_word(folder: Path) -> None:
    result = ran(folder, "--freeze", "0", steps=3)
    assert result["verification"]["agrees"]
    assert min(result["calibration"]["weight_ms"]) > 0
    run = ("run", "plan.json", "--model", "model.json", "--seq", "32", "--freeze")
    refused = evenflow(folder, *run, "6", exit_code=2)
    assert "--freeze must be fewer than the 6 layers of the model, got 6" in refused.stderr


def test_adapters_of_a_plan_are_trained_alone(folder: Path) -> None:
    plan = ("plan", "model.json", "--ranks", "2", *TRAINED, "--lora", "4", "--layers-per-rank", "3,3")
    evenflow(folder, *plan, "--schedule", "zb-h1", "--json", "adapted.json")
    run = ("run", "adapted.json", "--model", "model.json", "--steps", "3", "--seq", "32", "--dtype", "fp64", "--verify")
    done = evenflow(folder, *run, "--json", "lora.json")
    assert "note: only adapters are trained, 4 wide, beside every product of the layers" in done.stderr
    result = json.loads((folder / "lora.json").read_text(encoding="utf-8"))
    assert result["verification"]["agrees"]
    assert result["adapter_rank"] == 4
    evenflow(folder, *run, "--lora", "0", "--json", "whole.json")
    whole = json.loads((folder / "whole.json").read_text(encoding="utf-8"))
    assert "adapter_rank" not in whole
    of_layer = 4 * (4 * (64 + 64) + 3 * (64 + 128))
    assert result["parameters"] - whole["parameters"] == 6 * of_layer
    assert result["losses"][0] == whole["losses"][0]
    assert result["losses"][1:] != whole["losses"][1:]


def test_experts_have_adapters_of_their_own(tmp_path: Path) -> None:
    experts = {**CONFIG, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
    (tmp_path / "model.json").write_text(json.dumps(experts), encoding="utf-8")
    plan = ("plan", "model.json", "--ranks", "2", *TRAINED, "--lora", "4", "--layers-per-rank", "3,3")
    evenflow(tmp_path, *plan, "--json", "plan.json")
    run = ("run", "plan.json", "--model", "model.json", "--steps", "4", "--seq", "32", "--dtype", "fp64")
    evenflow(tmp_path, *run, "--lr", "0.05", "--verify", "--json", "lora.json")
    result = json.loads((tmp_path / "lora.json").read_text(encoding="utf-8"))
    assert result["verification"]["agrees"]
    assert result["losses"][-1] < result["losses"][0]
    evenflow(tmp_path, *run, "--lora", "0", "--json", "whole.json")
    whole = json.loads((tmp_path / "whole.json").read_text(encoding="utf-8"))
    of_layer = 4 * (4 * (64 + 64) + 4 * (64 + 2 * 128 + 128 + 64))
    assert result["parameters"] - whole["parameters"] == 6 * of_layer
