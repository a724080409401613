"""Starts the processes that train with Megatron-LM's pipeline (`train.py`), and returns the losses."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TRAIN = Path(__file__).resolve().parent / "train.py"
TIMEOUT_S = 300


def losses(
    python: Path,
    folder: Path,
    *,
    flags: Mapping[str, Sequence[str]],
    num_ranks: int,
    num_microbatches: int,
    plan_file: str | None = None,
) -> list[float]:
    """Return the loss of every step of a training with `flags` and a plan file.

    Raises:
        RuntimeError: a process ends with an error.
    """
    folder.mkdir()
    fields = {
        "flags": flags,
        "plan_file": plan_file,
        "microbatches": num_microbatches,
        "meeting": str(folder / "meeting"),
    }
    (folder / "case.json").write_text(json.dumps(fields), "utf-8")
    processes = [
        subprocess.Popen(
            [python.absolute(), TRAIN, folder / "case.json", str(rank), folder / "losses.json"],
            env={**os.environ, "PYTHONPATH": str(TRAIN.parents[2] / "src")},
            stdout=subprocess.DEVNULL,
            stderr=(folder / f"rank{rank}.txt").open("w", encoding="utf-8"),
        )
        for rank in range(num_ranks)
    ]
    try:
        codes = [process.wait(TIMEOUT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(codes):
        rank = next(rank for rank, code in enumerate(codes) if code)
        raise RuntimeError(f"rank {rank}: {(folder / f'rank{rank}.txt').read_text('utf-8')[-2000:]}")
    found: list[float] = json.loads((folder / "losses.json").read_text("utf-8"))
    return found
