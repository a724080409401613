"""`evenflow run --aa-check`, as users call it: what it finds and says, its exit status, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evenflow.cli.main import main
from evenflow_torch.run.job import launch
from tests_torch.run.warm_ranks import start_warm
from tests_torch.verbs.run.run_plans import PLAN, written


@pytest.mark.processes
def test_an_injected_fault_is_found_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, result_file = written(tmp_path / "plan.json"), tmp_path / "result.json"
    command = ["run", str(plan), "--model", "llama-tiny", "--steps", "5"]
    command += ["--seq", "8", "--hidden", "16", "--heads", "2", "--vocab", "32", "--device", "cpu"]
    command += ["--aa-everywhere", "--inject-fault", "rank=1,step=3", "--json", str(result_file)]
    start_warm(monkeypatch)
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 5, done.stderr
    assert len(done.stdout.splitlines()) > 5, "it trained to the end"

    found = json.loads(result_file.read_text(encoding="utf-8"))["aa_check"]
    (mismatch,) = found["mismatches"]
    assert (mismatch["rank"], mismatch["step"], mismatch["numbers"]) == (1, 3, 1)
    where = f"rank 1, stage {mismatch['stage']}, microbatch {mismatch['microbatch']}, step 3, {mismatch['direction']}"
    assert done.stderr.count(where) == 2, "when it was found, and in the end"
    assert f"1 bit flipped in {where.removeprefix('rank 1, ')}, which was checked" in done.stdout
    assert found["checked_steps"] == 2, "that of the fault and, of the others, every second: 4 of 3, 4 and 5"
    assert [rank["checks"] > 0 for rank in found["ranks"]] == [True, True]
    assert found["cost"] == pytest.approx(found["checked_step_ms"] / found["plain_step_ms"] - 1)


@pytest.mark.processes
def test_replicas_check_their_work_and_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, result_file = written(tmp_path / "plan.json"), tmp_path / "result.json"
    command = ["run", str(plan), "--model", "llama-tiny", "--steps", "6", "--data-parallel", "2"]
    command += ["--seq", "8", "--hidden", "16", "--heads", "2", "--vocab", "32", "--device", "cpu"]
    command += ["--aa-everywhere", "--inject-fault", "rank=3,step=4", "--json", str(result_file)]
    start_warm(monkeypatch)
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 5, done.stderr
    checked = json.loads(result_file.read_text(encoding="utf-8"))["aa_check"]
    assert {(one["rank"], one["step"]) for one in checked["mismatches"]} == {(3, 4)}
    assert [rank["checks"] > 0 for rank in checked["ranks"]] == [True] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--inject-fault", "rank=0,step=3"], "add --aa-check"),
        (["--aa-check", "--steps", "3"], "train for more steps"),
        (["--aa-check", "--steps", "4", "--inject-fault", "rank=0,step=3"], "train for more steps"),
        (["--aa-check", "--inject-fault", "rank=2,step=3"], "must have a rank from 0 to 1, got 2"),
        (["--aa-check", "--data-parallel", "2", "--inject-fault", "rank=4,step=3"], "from 0 to 3, got 4"),
        (["--aa-check", "--inject-fault", "rank=0,step=0"], "must have a step from 1 to 20"),
        (["--aa-check", "--inject-fault", "rank=0,step=21"], "must have a step from 1 to 20"),
        (["--aa-check", "--inject-fault", "rank=0,step=3,microbatch=3"], "must have a microbatch from 0 to 2"),
        (["--aa-check", *["--inject-fault", "rank=0,step=3"] * 2], "at most once for a rank and step"),
        (["--aa-check", "--inject-fault", "2"], "must have the form"),
    ],
)
def test_what_cannot_be_checked_is_refused_before_any_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    def start(*_arguments: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(launch, "_start", start)
    plan = written(tmp_path / "plan.json")
    assert PLAN["microbatches"] == 3
    done = CliRunner().invoke(main, ["run", str(plan), "--model", "llama-tiny", *options])
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output
