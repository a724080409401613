"""Processes of this machine: gone, computing, stopped."""

import os
import signal
import subprocess
import sys
import time

import pytest

from evenflow_torch.run.watch.process_state import end_stopped, is_gone, machine_name, processor_ticks
from tests_torch.run.job.launched import LONG, wait_until


def test_a_machine_has_one_name() -> None:
    assert machine_name() == machine_name() != ""


@pytest.mark.processes
def test_a_process_that_has_ended_is_gone_before_anyone_asks_for_its_status() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        assert not is_gone(process.pid)
        process.kill()
        wait_until(lambda: is_gone(process.pid))
        assert process.returncode is None
        process.wait(timeout=LONG)
        assert is_gone(process.pid)
        assert processor_ticks(process.pid) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.processes
def test_a_stopped_process_is_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    try:
        os.kill(process.pid, signal.SIGSTOP)
        end_stopped(process.pid)
        assert process.wait(timeout=LONG) == -signal.SIGTERM
        end_stopped(process.pid)  # nobody is there any more
    finally:
        process.kill()
        process.wait()


def test_processor_time_goes_on_while_a_process_computes() -> None:
    before, end = processor_ticks(os.getpid()), time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert processor_ticks(os.getpid()) > before > 0
