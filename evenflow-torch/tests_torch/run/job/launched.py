"""A small job, and waiting for processes to begin and end."""

import os
import time
from pathlib import Path
from typing import Any

from evenflow.cluster import Dtype
from evenflow.model import Plan
from evenflow_torch.run.values.run_job import Device, RunJob

LONG = 60
"""Seconds; no test waits for them."""


def job(num_ranks: int) -> RunJob:
    return RunJob(
        plan=Plan(schedule="1f1b", num_microbatches=2, layers=((1,) * num_ranks,)),
        model="llama-tiny",
        config="",
        num_layers=None,
        hidden_size=None,
        num_heads=None,
        vocab_size=None,
        num_steps=3,
        sequence_length=8,
        microbatch_size=1,
        dtype=Dtype.FLOAT32,
        learning_rate=0.0,
        device=Device.CPU,
        seed=0,
        verify=False,
    )


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"


def wait_until(condition: Any) -> None:
    """Generous: how fast a machine is decides no test."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)
