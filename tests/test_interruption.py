"""Signals at any moment: real processes, told to end while they import, compile, search and write."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from evenflow.interruption import on_interrupt, was_interrupted
from tests.paths import ROOT

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}
EXAMPLE = ROOT / "examples" / "llama2_70b.json"
PLAN = ("plan", EXAMPLE, "--ranks", 4, "--chunks", 2, "--microbatches", 8, "--memory", "56GB", "--time-limit", 60)
FILES = ("--json", "plan.json", "--svg", "plan.svg")


def started(*arguments: object, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "evenflow", *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def scripted(code: str, folder: Path) -> subprocess.Popen[str]:
    """A command that says that it is there, then does what `code` says."""
    text = "from evenflow.interruption import *; import os, time; watch(); print('there', flush=True)\n"
    return subprocess.Popen(
        [sys.executable, "-c", text + textwrap.dedent(code)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_first_line(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"


def check_files(folder: Path) -> None:
    """Every file is whole, and none is left over."""
    for path in folder.iterdir():
        assert not path.name.startswith("."), path
        if path.suffix == ".json":
            json.loads(path.read_text())
        else:
            assert path.read_text().endswith(" -->\n")


@pytest.mark.parametrize("number", STATUS, ids=lambda number: number.name)
class TestEnd:
    @pytest.mark.processes
    def test_before_there_is_an_answer_a_command_ends_at_once(self, tmp_path, number):
        process = scripted("time.sleep(60)", tmp_path)
        wait_for_first_line(process)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (STATUS[number], "interrupted: there is no result yet\n")

    @pytest.mark.processes
    def test_also_in_a_long_call_into_a_library(self, tmp_path, number):
        process = scripted("import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)", tmp_path)
        wait_for_first_line(process)
        time.sleep(0.2)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (STATUS[number], "interrupted: there is no result yet\n")

    @pytest.mark.processes
    def test_with_an_answer_the_search_is_told_and_the_work_goes_on(self, tmp_path, number):
        code = """
            from threading import Event
            answer_exists()
            told = Event()
            with on_interrupt(told.set):
                told.wait()
            assert was_interrupted()
            os.kill(os.getpid(), 15)
            time.sleep(0.2)
            print("the answer")
            exit_with(0, replaceable=(0,))
        """
        process = scripted(code, tmp_path)
        wait_for_first_line(process)
        time.sleep(0.2)
        process.send_signal(number)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (STATUS[number], "the answer\n", "")

    @pytest.mark.processes
    def test_an_answer_comes_before_the_signal_and_a_search_after_it(self, tmp_path, number):
        code = """
            answer_exists()
            while not was_interrupted():
                time.sleep(0.01)
            calls = []
            with on_interrupt(lambda: calls.append("told")):
                print(calls)
            exit_with(3, replaceable=(0,))
        """
        process = scripted(code, tmp_path)
        wait_for_first_line(process)
        process.send_signal(number)
        assert process.communicate(timeout=30) == ("['told']\n", "")
        assert process.returncode == 3

    @pytest.mark.processes
    def test_a_step_without_a_result_is_abandoned(self, tmp_path, number):
        code = """
            answer_exists()
            try:
                with abandonable():
                    time.sleep(60)
            except KeyboardInterrupt:
                print("abandoned")
            try:
                with abandonable():
                    print("never")
            except KeyboardInterrupt:
                print("not begun")
            exit_with(0, replaceable=(0,))
        """
        process = scripted(code, tmp_path)
        wait_for_first_line(process)
        time.sleep(0.2)
        process.send_signal(number)
        assert process.communicate(timeout=30) == ("abandoned\nnot begun\n", "")
        assert process.returncode == STATUS[number]

    @pytest.mark.processes
    def test_a_file_is_written_to_its_end(self, tmp_path, number):
        code = """
            with writing():
                with open("file", "w") as file:
                    for _ in range(20):
                        file.write("line\\n")
                        time.sleep(0.02)
            print("never")
        """
        process = scripted(code, tmp_path)
        wait_for_first_line(process)
        while not (tmp_path / "file").exists():
            time.sleep(0.01)
        process.send_signal(number)
        assert process.communicate(timeout=30) == ("", "interrupted: there is no result yet\n")
        assert process.returncode == STATUS[number]
        assert (tmp_path / "file").read_text() == 20 * "line\n"


@pytest.mark.processes
def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    code = (
        "import signal; from evenflow.interruption import watch; watch(); print(signal.getsignal(signal.SIGHUP).name)"
    )
    result = subprocess.run(["nohup", sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert result.stdout == "SIG_IGN\n"


@pytest.mark.processes
@pytest.mark.parametrize("number", STATUS, ids=lambda number: number.name)
def test_a_signal_to_an_interpreter_that_shuts_down_changes_nothing(tmp_path, number):
    """An object that outlives all functions at exit sends it."""
    code = (
        "import os; from evenflow.interruption import exit_with, watch; watch()\n"
        "class Last:\n"
        f"    def __del__(self, kill=os.kill, pid=os.getpid()): kill(pid, {int(number)})\n"
        "import builtins; builtins.last = Last(); print('done'); exit_with(0, replaceable=(0,))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (result.stdout, result.returncode) == ("done\n", 0)


def test_a_library_call_hears_ctrl_c_alone():
    told = []
    before = signal.getsignal(signal.SIGINT)
    with on_interrupt(lambda: told.append(True)):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    assert told == [True]
    assert signal.getsignal(signal.SIGINT) is before
    assert not was_interrupted()


@pytest.mark.processes
@pytest.mark.parametrize("seed", range(6))
def test_a_plan_at_a_random_moment(tmp_path, seed):
    """Whatever it was doing: a status that says so, no traceback, whole files, and a plan where one was there."""
    draw = random.Random(seed)
    number = draw.choice(list(STATUS))
    process = started(*PLAN, *FILES, folder=tmp_path)
    time.sleep(draw.uniform(0.15, 5))
    process.send_signal(number)
    statuses = {STATUS[number]}
    if draw.random() < 0.5:
        time.sleep(draw.uniform(0, 0.05))
        second = draw.choice(list(STATUS))
        process.send_signal(second)
        statuses.add(STATUS[second])  # a process that was not running gets the smaller number first
    out, err = process.communicate(timeout=60)
    assert process.returncode in statuses or (process.returncode == 0 and "optimal" in out)
    assert "Traceback" not in err
    check_files(tmp_path)
    has_plan = "\nstep " in out
    assert has_plan == (tmp_path / "plan.json").exists() == (tmp_path / "plan.svg").exists()
    assert has_plan == ("there is no result yet" not in err)


@pytest.mark.processes
def test_the_best_so_far_is_the_answer(tmp_path):
    process = started(*PLAN[:-1], 600, "--schedule", "search", "--split-backward", *FILES, folder=tmp_path)
    assert process.stderr is not None
    while "best" not in process.stderr.readline():  # a line of progress with the first plan
        pass
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "interrupted: this is the best so far" in err
    assert "one step takes" in out or "ms" in out
    check_files(tmp_path)
    assert json.loads((tmp_path / "plan.json").read_text())["makespan_ms"] > 0
