"""Real ranks, of which one raises, dies, ends or is stopped in its training; the test is torchrun to them."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from tests_torch.run.job.launched import LONG
from tests_torch.run.warm_scripts import WarmScript

pytestmark = pytest.mark.processes

SCRIPT = """
import os, signal, sys, time
import torch
from torch import nn
import evenflow
from evenflow.model import Plan

how, is_faulty = sys.argv[1], os.environ["RANK"] == "1"
steps = 0

class Last(nn.Module):
    def forward(self, hidden):
        if steps == 2 and how == "forward":
            raise KeyError("no such word")
        return hidden

def loss_fn(output, target):
    if steps == 2 and how == "loss":
        raise ArithmeticError("no loss") from OSError("the cause of a user")
    return nn.functional.mse_loss(output, target)

torch.distributed.init_process_group("gloo")
batch = torch.randn(4, 4), torch.randn(4, 4)
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), Last()))
plan = Plan(schedule="1f1b", num_microbatches=2, layers=((1, 2),))
pipe = evenflow.run.pipeline(plan, model, loss_fn, batch, rank_timeout_s=float(sys.argv[2]))
while True:
    pipe.step(batch)
    steps += 1
    if steps == 2 and is_faulty:
        if how.isdigit():
            os.kill(os.getpid(), int(how))
        if how == "outside":
            raise LookupError("no more batches")
        if how == "ends":
            sys.exit()
        if how == "late":  # longer than a rank may show no life, but it lives
            time.sleep(2 * float(sys.argv[2]))
    if steps == 4:
        break
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


Ranks = list[subprocess.Popen[str]] | list[WarmScript]


@contextmanager
def trained(folder: Path, how: str, *, timeout_s: float = 120.0, ends: bool = False) -> Iterator[Ranks]:
    """Two ranks, with the store in this process, as torchrun has it; real ones where it matters how a script ends."""
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = dist.TCPStore(
        "127.0.0.1", port, None, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=LONG)
    )
    environment = {
        **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }  # fmt: skip
    command = ["script.py", how, str(timeout_s)]
    environments = [{**environment, "RANK": str(rank)} for rank in range(2)]
    ranks: Ranks = (
        [
            subprocess.Popen([sys.executable, *command], cwd=folder, env=own, stderr=subprocess.PIPE, text=True)
            for own in environments
        ]
        if ends
        else [WarmScript(folder, command, own) for own in environments]
    )
    try:
        yield ranks
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
        del store


def said(process: subprocess.Popen[str] | WarmScript) -> str:
    return process.communicate(timeout=2 * LONG)[1]


@pytest.mark.parametrize(
    ("how", "error", "place"),
    [
        ("forward", "KeyError: 'no such word'", "in the forward of microbatch 0 of stage 1"),
        pytest.param(
            *("loss", "ArithmeticError: no loss", "in the loss of microbatch 0 of stage 1"), marks=pytest.mark.slow
        ),
    ],
)
def test_a_users_exception_is_shown_whole_and_once_and_the_others_name_it(
    tmp_path: Path, how: str, error: str, place: str
) -> None:
    with trained(tmp_path, how, ends=True) as (other, faulty):
        text = said(faulty)
        assert faulty.returncode == 1
        lines = [line.removeprefix("[rank1]: ") for line in text.splitlines()]
        assert lines[-2:] == [error, f"rank 1, {place}"]
        assert sum(line == error for line in lines) == 1
        assert any('script.py", line' in line for line in lines)
        assert any(line.lstrip().startswith("raise") and error.split(":", maxsplit=1)[0] in line for line in lines)
        assert ("OSError: the cause of a user" in lines) == (how == "loss")
        assert "Full Schedule" not in text
        text = said(other)
    assert f"RunError: rank 1 failed {place}: {error}; rank 0 stood after the forward of microbatch" in text
    assert "Full Schedule" not in text


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (str(int(signal.SIGKILL)), "rank 1 (process {pid}) died"),
        ("outside", "rank 1 failed: LookupError: no more batches"),
        ("ends", "rank 1 (process {pid}) ended before the others"),
    ],
)
def test_survivors_name_the_rank_that_is_gone(tmp_path: Path, how: str, message: str) -> None:
    with trained(tmp_path, how, ends=not how.isdigit()) as (other, faulty):
        said(faulty)
        text = said(other)
    assert f"RunError: {message.format(pid=faulty.pid)}; rank 0 stood" in text


def test_a_stopped_rank_is_named_and_ended(tmp_path: Path) -> None:
    with trained(tmp_path, str(int(signal.SIGSTOP)), timeout_s=3.0) as (other, faulty):
        text = said(other)
        assert other.returncode == 1
        assert f"rank 1 (process {faulty.pid}) gave no sign of life for 3 seconds" in text
        assert "rank 0 stood" in text
        assert faulty.wait(timeout=LONG) == -signal.SIGTERM


def test_a_rank_that_others_wait_for_may_take_as_long_as_it_lives(tmp_path: Path) -> None:
    with trained(tmp_path, "late", timeout_s=4.0) as ranks:
        assert [(said(rank), rank.returncode)[1] for rank in ranks] == [0, 0]
