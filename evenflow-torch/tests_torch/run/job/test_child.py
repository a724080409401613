"""Real ranks that fail, are killed or interrupted in the middle of their training: none is left, the cause is named."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evenflow.errors import RunError
from evenflow_torch.run.job import launch as launcher
from evenflow_torch.run.job.child import message_of
from evenflow_torch.run.job.preflight import checked
from evenflow_torch.run.values.run_result import StepReport
from tests.paths import ROOT
from tests_torch.run.job.launched import LONG, is_alive, job, wait_until
from tests_torch.run.warm_ranks import start_warm

ENDLESS = 1_000_000
"""Steps; every run is ended before."""


def pids(file: Path) -> list[int]:
    return [int(line) for line in file.read_text(encoding="utf-8").split()] if file.exists() else []


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the ranks write their process ids; ranks of this process are forked."""
    start_warm(monkeypatch)
    monkeypatch.setattr(launcher, "_CHILD", "tests_torch.run.faulty_ranks")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
    monkeypatch.setenv("FAULTY_RANKS", json.dumps({"pids": str(tmp_path / "pids")}))
    return tmp_path / "pids"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"rank": "1"}, "rank 1 failed: ValueError: the disk is full"),
        ({"rank": "0", "signal": signal.SIGKILL}, "rank 0 was ended by signal SIGKILL"),
    ],
)
def test_the_cause_is_named_first_and_no_rank_is_left(
    environment: Path, monkeypatch: pytest.MonkeyPatch, fault: dict[str, Any], message: str
) -> None:
    monkeypatch.setenv("FAULTY_RANKS", json.dumps({"pids": str(environment), **fault}))
    steps: list[StepReport] = []
    with pytest.raises(RunError) as caught:
        launcher.launch(checked(replace(job(2), num_steps=ENDLESS)), steps.append)
    # The other rank says that its connection was closed, maybe earlier; that is not the cause.
    assert str(caught.value).splitlines()[0] == message
    assert [step.step for step in steps] == [0, 1]
    assert len(pids(environment)) == 2
    assert not any(map(is_alive, pids(environment)))


@pytest.mark.processes
def test_a_real_rank_that_is_stopped_is_named(environment: Path) -> None:
    stopped: list[int] = []

    def stop(_step: StepReport) -> None:
        if not stopped:
            stopped.append(pids(environment)[0])
            os.kill(stopped[0], signal.SIGSTOP)

    with pytest.raises(RunError, match=r"rank \d \(process \d+\) gave no sign of life for 10 seconds") as caught:
        launcher.launch(checked(replace(job(2), num_steps=ENDLESS)), stop, rank_timeout_s=10.0)
    assert f"(process {stopped[0]})" in str(caught.value)
    assert not any(map(is_alive, pids(environment)))


@pytest.mark.processes
def test_an_interrupted_training_leaves_no_process(environment: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(
        '{"ranks": 2, "chunks": 1, "microbatches": 2, "schedule": "1f1b", "sequence_splits": 1, "layers": [[1, 1]], '
        '"recompute": {}}',
        encoding="utf-8",
    )
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "import evenflow_torch.run.job.launch as launch; launch._CHILD = 'tests_torch.run.faulty_ranks'; "
        "from evenflow.cli.main import main; main()"
    )
    command = [sys.executable, "-c", code, "run", str(plan), "--model", "llama-tiny", "--device", "cpu", "--seq", "8"]
    parent = subprocess.Popen(
        [*command, "--steps", str(ENDLESS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline().split()[:2] == ["step", f"1/{ENDLESS}"]
        parent.send_signal(signal.SIGINT)
        _, said = parent.communicate(timeout=LONG)
    finally:
        parent.kill()
    assert parent.returncode == 130, said
    assert "Traceback" not in said
    assert len(pids(environment)) == 2
    wait_until(lambda: not any(map(is_alive, pids(environment))))


def test_a_failure_is_told_by_its_own_first_line() -> None:
    failed = ValueError("the disk is full\nand more")
    failed.__cause__ = OSError("which the model has raised it from")
    assert message_of(failed) == "ValueError: the disk is full"
    assert message_of(RunError("said plainly")) == "said plainly"
