"""`evenflow run --profile`: traces of every rank that `evenflow report` opens beside the plan."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from evenflow.cli.main import main
from tests_torch.run.warm_ranks import start_warm

CONFIG = {
    "model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "max_position_embeddings": 64,
}  # fmt: skip
SIZES = ["--ranks", "2", "--microbatches", "4", "--seq", "16", "--accelerator", "h100"]


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    config, plan = tmp_path / "config.json", tmp_path / "plan.json"
    config.write_text(json.dumps(CONFIG), encoding="utf-8")
    done = CliRunner().invoke(main, ["plan", str(config), *SIZES, "--json", str(plan)])
    assert done.exit_code == 0, done.stderr
    run = ["run", str(plan), "--model", str(config), "--seq", "16", "--steps", "3", "--device", "cpu"]
    return [*run, "--profile", str(tmp_path / "traces")]


@pytest.mark.processes
def test_a_report_opens_the_traces_of_replicas_beside_the_plan(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_warm(monkeypatch)
    done = CliRunner().invoke(main, [*command, "--data-parallel", "2"])
    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == ["rank0.json", "rank1.json"]
    told = tmp_path / "told.json"
    page = ["-o", str(tmp_path / "report.html"), "--json", str(told)]
    shown = CliRunner().invoke(main, ["report", str(tmp_path / "plan.json"), str(tmp_path / "traces"), *page])
    assert shown.exit_code == 0, shown.output
    assert "ranges such as PP:2F3" in shown.stdout


def test_a_folder_with_other_files_is_refused(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "notes.txt").touch()
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert "--profile must be a new or empty folder" in done.stderr
