"""A plan that is said to fit holds on real processes what it says; a run that holds more than its limit says so."""

import json
from pathlib import Path
from typing import Any

import pytest

import evenflow
from evenflow.profiles.layer_file import format_layer_file
from tests_torch.run.warm_ranks import typed

pytestmark = pytest.mark.processes

CONFIG = {
    "model_type": "llama",
    "vocab_size": 8000,
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
SEQUENCE = 512


@pytest.fixture(scope="module")
def network() -> evenflow.Network:
    found = evenflow.profile_config(
        CONFIG, sequence=SEQUENCE, accelerator="a100", dtype="fp32", optimizer="torch-adam", name="wide"
    )
    return found.network()


def run(folder: Path, plan: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Train as planned; the JSON and the text of the result."""
    for name, content in (("config", CONFIG), ("plan", plan)):
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    done = typed(
        folder, "run", "plan.json", "--model", "config.json", "--steps", "3", "--seq", str(SEQUENCE),
        "--device", "cpu", "--json", "result.json",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    return json.loads((folder / "result.json").read_text(encoding="utf-8")), done.stdout


def test_a_plan_holds_what_it_says_and_the_tail_is_most_of_it(network: evenflow.Network, tmp_path: Path) -> None:
    """Of a wide vocabulary the logits, their copies and gradients need far more than all layers keep."""
    (tmp_path / "layers.json").write_text(format_layer_file(network), encoding="utf-8")
    done = typed(
        tmp_path, "plan", "layers.json", "--ranks", "2", "--microbatches", "4", "--memory", "100MB",
        "--time-limit", "5", "--json", "found.json",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    plan = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    planned = plan["peak_memory_mb"]
    tail_mb = network.tail.working_bytes / 2**20
    assert planned[1] > tail_mb > 30
    middle = sum(planned) / 2
    result, said = run(tmp_path, plan | {"memory_limit_mb": middle})
    measured = result["measured"]["peak_memory_mb"]
    # Beside the plan there are tokens and position embeddings.
    assert all(real <= 1.01 * paper for real, paper in zip(measured, planned, strict=True)), (measured, planned)
    assert measured[1] == pytest.approx(planned[1], rel=0.02)
    over = [rank for rank in range(2) if measured[rank] > middle]
    assert result["over_memory_limit"] == over == [1]
    assert result["memory_limit_mb"] == pytest.approx(middle)
    assert f"OVER THE PLAN'S LIMIT of {middle:,.1f} MB on rank 1; rank 1 held {measured[1]:,.1f} MB" in said
