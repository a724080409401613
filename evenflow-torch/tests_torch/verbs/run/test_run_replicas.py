"""`evenflow run --data-parallel`: replicas train what one process does on all their samples, and what is refused."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from evenflow.cli.main import main
from tests_torch.run.warm_ranks import start_warm
from tests_torch.verbs.run.run_plans import written

SMALL = ["--model", "llama-tiny", "--seq", "8", "--hidden", "16", "--heads", "2", "--vocab", "32", "--device", "cpu"]


@pytest.mark.processes
def test_replicas_train_what_one_process_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_warm(monkeypatch)
    plan, answer = written(tmp_path / "plan.json"), tmp_path / "run.json"
    command = ["run", str(plan), *SMALL, "--data-parallel", "2", "--steps", "4", "--dtype", "float64", "--verify"]
    done = CliRunner().invoke(main, [*command, "--lr", "0.01", "--json", str(answer)])
    assert done.exit_code == 0, done.stderr
    assert "starting 4 processes" in done.stderr
    assert "on 2 replicas of 2 ranks (cpu)" in done.stdout
    result = json.loads(answer.read_text(encoding="utf-8"))
    assert result["verification"]["agrees"]
    assert max(result["verification"]["loss_error"], result["verification"]["gradient_error"]) <= 1e-12
    assert result["losses"][-1] < result["losses"][0], "it learns"
    assert (result["processes"], result["ranks"], result["data_parallel"]) == (4, 2, 2)
    assert result["step_interval_ms"][0] < result["step_interval_ms"][1], "of nine steps before"
    assert set(result["step_error_causes_ms"]) == {"actions", "load", "messages"}
    assert len(result["measured"]["peak_memory_mb"]) == 2, "that of the fullest replica of each rank"


def test_a_number_of_replicas_is_at_least_one(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["run", str(written(tmp_path / "plan.json")), *SMALL, "--data-parallel", "0"])
    assert done.exit_code == 2, done.output
    assert "--data-parallel" in done.stderr
