"""scripts/dryrun.sh with a command that only pretends to train."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evenflow.targets.frameworks.mindformers.peak_logs import read_peak_folder
from evenflow.units import MEGABYTE
from tests.paths import ROOT

SCRIPT = ROOT / "scripts" / "dryrun.sh"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the script is for bash")

TRAIN = """\
echo "$MS_SIMULATION_LEVEL $MS_KERNEL_LAUNCH_SKIP $MS_MEMORY_STATISTIC $RANK_SIZE $RANK_ID ${RANK_TABLE_FILE-unset}"
if [ "$RANK_ID" = "${1-}" ]; then echo "RuntimeError: no such config"; exit 7; fi
if [ "$RANK_ID" = "${2-}" ]; then exit 0; fi
echo "Actual peak memory usage (with fragments): $((1000 + RANK_ID))M"
"""


@pytest.fixture
def train(tmp_path):
    (tmp_path / "train.sh").write_text(TRAIN)
    return tmp_path


def dryrun(folder, *arguments, **environment):
    return subprocess.run(
        ["bash", str(SCRIPT), *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "RANK_TABLE_FILE": "devices.json", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.processes
def test_a_log_for_the_first_rank_of_every_stage(train):
    result = dryrun(train, "bash train.sh", 12, 3, "out", JOBS="2")
    assert (result.returncode, result.stdout) == (0, "collect the peaks with: evenflow collect-peaks out --ranks 3\n")
    assert "3 of 3 done, 0 failed" in result.stderr
    assert read_peak_folder(train / "out") == (1000 * MEGABYTE, 1004 * MEGABYTE, 1008 * MEGABYTE)
    log = (train / "out" / "stage_1_rank_4" / "mindformer.log").read_text()
    assert log.splitlines()[0] == "1 all 1 12 4 unset"


@pytest.mark.processes
def test_failed_stages_are_named_with_the_end_of_their_logs(train):
    result = dryrun(train, "bash train.sh 4 8", 12, 3, "out")
    assert (result.returncode, result.stdout) == (1, "")
    assert "stage 1 ended with status 7; the end of out/stage_1_rank_4/mindformer.log:" in result.stderr
    assert "  RuntimeError: no such config\n" in result.stderr
    assert "stage 2 ended without its 'peak memory usage'" in result.stderr
    assert "2 of 3 dry runs failed" in result.stderr


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("true", 8, 2), "usage: "),
        ((" ", 8, 2, "new"), "COMMAND must not be empty"),
        (("true", 8, 3, "new"), "STAGE_NUM must divide RANK_SIZE"),
        (("true", "eight", 2, "new"), "RANK_SIZE must be a whole number of at least 1, got 'eight'"),
        (("true", 8, 0, "new"), "STAGE_NUM must be a whole number of at least 1, got '0'"),
        (("true", 8, 2, "train.sh"), "OUT must be a folder, got the file"),
        (("true", 8, 2, ""), "OUT must not be empty"),
        (("true", 8, 2, "old"), "OUT must be a folder without dry runs"),
    ],
)
def test_bad_arguments_are_one_message_and_start_nothing(train, arguments, message):
    (train / "old" / "stage_0_rank_0").mkdir(parents=True)
    result = dryrun(train, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (train / "new").exists()


@pytest.mark.processes
def test_jobs_is_a_number(train):
    result = dryrun(train, "true", 8, 2, "new", JOBS="many")
    assert result.returncode == 2
    assert "JOBS" in result.stderr


WITH_INTERRUPTS = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])"
)
"""Background jobs find SIGINT ignored, and a shell cannot trap what it finds ignored."""


@pytest.mark.processes
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_leaves_no_process_behind(train, number, status):
    # Each dry run writes its process id and starts a child of its own, as launchers do.
    (train / "slow.sh").write_text("sleep 600 &\necho $$ $! > $RANK_ID.pids\nwait\n")
    process = subprocess.Popen(
        [sys.executable, "-c", WITH_INTERRUPTS, "bash", str(SCRIPT), "bash slow.sh", "4", "4", "out"],
        cwd=train,
        env={**os.environ, "JOBS": "2"},
        stderr=subprocess.PIPE,
        text=True,
    )
    files = [train / "0.pids", train / "1.pids"]
    wait_until(lambda: all(file.exists() and len(file.read_text().split()) == 2 for file in files))
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == status
    assert "interrupted" in errors
    started = [int(pid) for file in train.glob("*.pids") for pid in file.read_text().split()]
    assert len(started) == 4
    wait_until(lambda: not any(map(is_running, started)))


def wait_until(condition, *, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(pid):
    """Whether the process exists and is no zombie that waits for its parent."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
