"""Processes are watched and ended, whatever happens; with ranks that need no torch."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evenflow.errors import RunError
from evenflow_torch.run.job import launch as launcher
from evenflow_torch.run.values.run_result import StepReport
from tests.paths import ROOT
from tests_torch.run.fake_ranks import RESULT
from tests_torch.run.job.launched import LONG, is_alive, job, wait_until

pytestmark = pytest.mark.processes


class Ranks:
    """Runs fake ranks and knows their process ids."""

    def __init__(self, folder: Path) -> None:
        self.pids = folder / "pids"
        self.file = folder / "ranks.json"

    def write(self, *behaviours: dict[str, Any]) -> None:
        rows = [{"pids": str(self.pids), **behaviour} for behaviour in behaviours]
        self.file.write_text(json.dumps(rows), encoding="utf-8")

    def launch(self, *behaviours: dict[str, Any], **options: Any) -> tuple[Any, list[StepReport]]:
        self.write(*behaviours)
        steps: list[StepReport] = []
        return launcher.launch(job(len(behaviours)), steps.append, **options), steps

    def alive(self) -> list[int]:
        pids = [int(line) for line in self.pids.read_text(encoding="utf-8").split()]
        return [pid for pid in pids if is_alive(pid)]


@pytest.fixture
def ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ranks:
    made = Ranks(tmp_path)
    monkeypatch.setattr(launcher, "_CHILD", "tests_torch.run.fake_ranks")
    monkeypatch.setenv("FAKE_RANKS", str(made.file))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
    return made


def test_steps_and_result_come_through(ranks: Ranks) -> None:
    answers = [{"step": {"step": step, "loss": loss, "step_ns": 7}} for step, loss in ((0, 2.5), (1, float("nan")))]
    result, steps = ranks.launch({"answers": [{"result": RESULT}]}, {"answers": answers})
    assert steps[0] == StepReport(step=0, loss=2.5, step_ns=7)
    assert math.isnan(steps[1].loss)
    assert result.losses == [1.0]
    assert not ranks.alive()


def test_the_first_failure_is_named_and_the_others_are_ended(ranks: Ranks) -> None:
    with pytest.raises(RunError, match=r"^rank 2 failed: out of memory$"):
        ranks.launch({"after": LONG}, {"after": 0.5, "fail": "connection closed"}, {"fail": "out of memory"})
    assert not ranks.alive()


def test_a_rank_that_is_killed_comes_before_what_the_others_say_of_it(ranks: Ranks) -> None:
    with pytest.raises(RunError) as caught:
        ranks.launch({"fail": "connection closed"}, {"after": 0.3, "say": "last words", "signal": signal.SIGKILL})
    assert str(caught.value) == "rank 1 was ended by signal SIGKILL\nlast words"
    assert not ranks.alive()


def test_a_rank_that_ends_without_a_word_is_named_with_its_status(ranks: Ranks) -> None:
    with pytest.raises(RunError, match=r"^rank 0 ended with status 7$"):
        ranks.launch({"status": 7}, {"after": LONG})
    assert not ranks.alive()


def test_ranks_that_end_well_without_a_result_are_a_failure(ranks: Ranks) -> None:
    with pytest.raises(RunError, match="status 0"):
        ranks.launch({}, {})


def test_a_rank_that_says_nothing_but_computes_is_alive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        rank = launcher._Rank(rank=3, process=process, log=tmp_path / "log", heard_at=time.monotonic() - 100, ticks=7)
        monkeypatch.setattr(launcher, "processor_ticks", lambda pid: 8)
        launcher._check_alive([rank], 50.0)
        assert time.monotonic() - rank.heard_at < 50
        rank.heard_at -= 100
        with pytest.raises(RunError, match=r"rank 3 .* gave no sign of life for 50 seconds"):
            launcher._check_alive([rank], 50.0)


def test_a_rank_that_is_stopped_is_named_and_all_are_ended(ranks: Ranks) -> None:
    with pytest.raises(
        RunError, match=r"^rank 1 \(process \d+\) gave no sign of life for 8 seconds: .* --rank-timeout"
    ):
        ranks.launch({"after": 10 * LONG}, {"signal": signal.SIGSTOP, "after": 0.1}, rank_timeout_s=8.0)
    assert not ranks.alive()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_and_no_file_outlives_the_command(
    ranks: Ranks, how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    ranks.write({"after": LONG}, {"after": LONG})
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"sys.path.insert(0, {str(ROOT)!r}); from tests_torch.run.job.launched import job; "
        "from evenflow_torch.run.job import launch as launcher; "
        "launcher._CHILD = 'tests_torch.run.fake_ranks'; launcher.launch(job(2), print)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    wait_until(lambda: ranks.pids.exists() and len(ranks.pids.read_text(encoding="utf-8").split()) == 2)
    assert list(temporary.iterdir())
    parent.send_signal(how)
    parent.wait(timeout=LONG)
    wait_until(lambda: not ranks.alive())
    wait_until(lambda: not list(temporary.iterdir()))
