"""Scripts of several ranks, each forked from a process that has torch loaded, as torchrun would start them.

A script that ends does not go through the interpreter's end: what is done there takes real processes to test.
"""

import os
import runpy
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests_torch.run.warm_ranks import Forked, warm_context

ENDS = (".out", ".err")
LONG_SECONDS = 300.0
"""That no script takes, however busy the machine is."""


class WarmScript(Forked):
    """A script that runs, with what tests use of `subprocess.Popen`; what it writes goes into files."""

    def __init__(self, folder: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._log = folder / f"rank-{environment['RANK']}"
        job = list(command), dict(environment), folder, self._log
        super().__init__(warm_context().Process(target=_run, args=job, daemon=True))

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        out, err = (
            path.read_text(encoding="utf-8") if path.exists() else "" for path in map(self._log.with_suffix, ENDS)
        )
        return out, err

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def run_script(folder: Path, *command: str, processes: int) -> str:
    """Run ``python COMMAND`` in `folder` on several ranks; none may fail. Return what all of them print."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1"}
    ranks = [
        WarmScript(folder, command, {**os.environ, **group, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(processes)
    ]
    try:
        said = [rank.communicate(LONG_SECONDS) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * processes, "\n".join(err for _, err in said)
    return "".join(out for out, _ in said)


def _run(command: list[str], environment: dict[str, str], folder: Path, log: Path) -> None:
    """Be the process that ``python COMMAND`` would be."""
    import torch

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, suffix in enumerate(ENDS, start=1):
        os.dup2(os.open(log.with_suffix(suffix), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    torch.set_num_threads(1)
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")
    sys.stdout.flush()
