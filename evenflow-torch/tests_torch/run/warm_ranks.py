"""Ranks that are forked from a process that has torch loaded: starting one takes no seconds of processor time.

What a rank does is the same as in a process of its own, but that it measures costs once, where others repeat what
scatters, which takes most of a short training. Tests of starting and ending processes take real ones.
"""

import importlib
import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from click.testing import CliRunner, Result

from evenflow import auto
from evenflow.cli.main import main
from evenflow_torch.run.job import launch, worker
from evenflow_torch.run.measure import calibrate, overhead, settled

PRELOADED = ["torch", "transformers.models.llama.modeling_llama", worker.__name__, auto.__name__, __name__]
"""Also this module, from which a rank begins: it loads pytest and the command line, half a second of each rank."""


def warm_context() -> ForkServerContext | SpawnContext:
    """What starts processes with torch loaded; cold ones where lines are counted, which nothing does after a fork."""
    if any(name.startswith(("COV_CORE", "COVERAGE_PROCESS")) for name in os.environ):
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # which is read when torch is loaded
        forkserver.ensure_running()
    return context


def start_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `evenflow run` of this process fork its ranks."""
    as_ever = {name: getattr(subprocess, name) for name in ("PIPE", "TimeoutExpired")}
    monkeypatch.setattr(launch, "subprocess", SimpleNamespace(Popen=WarmProcess, **as_ever))


def typed(folder: Path, *arguments: str) -> Result:
    """Return what ``evenflow ARGUMENTS`` answers in `folder`; the ranks that it starts are forked."""
    with pytest.MonkeyPatch.context() as patch:
        start_warm(patch)
        patch.chdir(folder)
        return CliRunner().invoke(main, arguments)


def without_crashes(invoke: Callable[[], Result]) -> Result:
    """Return what a training on several devices answers; where a crash of a rank ended it, what it answers once more.

    torch's planning of redistributions sometimes corrupts the memory of its process (see `tests_torch.run.cases`).
    """
    result = invoke()
    return invoke() if re.search("was ended by signal SIG(?:SEGV|ABRT|BUS)", result.stderr) else result


class _Passed:
    """An open file that a process which is started gets too, as a file descriptor."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _received, (DupFd(self.file.fileno()),)


def _received(passed: Any) -> int:
    descriptor: int = passed.detach()
    return descriptor


class Forked:
    """A forked process, with what `subprocess.Popen` has too."""

    def __init__(self, process: ForkServerProcess | SpawnProcess) -> None:
        self._process = process
        process.start()
        assert process.pid is not None
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a rank", timeout or 0.0)
        return self.returncode


class WarmProcess(Forked):
    """A rank, with what `evenflow_torch.run.job.launch` uses of `subprocess.Popen`."""

    def __init__(
        self, command: list[str], *, stderr: IO[bytes], env: Mapping[str, str], **_pipes_and_session: Any
    ) -> None:
        (to_read, to_write), (from_read, from_write) = os.pipe(), os.pipe()
        self.stdin, self.stdout = os.fdopen(to_write, "wb"), os.fdopen(from_read, "rb")
        with os.fdopen(to_read, "rb") as stdin, os.fdopen(from_write, "wb") as stdout:
            ends = [_Passed(file) for file in (stdin, stdout, stderr)]
            super().__init__(warm_context().Process(target=_run, args=(*command[-2:], dict(env), ends)))

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def _run(module: str, job: str, environment: dict[str, str], ends: list[int]) -> None:
    """Be the process that ``python -m MODULE JOB`` would be."""
    import torch

    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    for number, descriptor in enumerate(ends):
        os.dup2(descriptor, number)
    torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
    settled.MOST_ROUNDS = 1
    calibrate._REPEATS = 3
    overhead._PIPELINES = 1
    sys.argv = [module, job]
    importlib.import_module(module).main()
