"""The same training on GPUs, with NCCL between them; skipped where there are too few."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.gpu

NUM_GPUS = torch.cuda.device_count()
SIZES = ["--seq", "16", "--hidden", "64", "--heads", "4", "--vocab", "64", "--lr", "0.01", "--device", "cuda"]


def needs(count: int) -> Any:
    return pytest.mark.skipif(count > NUM_GPUS, reason=f"needs {count} GPUs, and there are {NUM_GPUS}")


def run(tmp_path: Path, ranks: int, *options: str, chunks: int = 1, schedule: str = "1f1b") -> dict[str, Any]:
    plan, answer = tmp_path / "plan.json", tmp_path / "run.json"
    cells = [[1] * ranks for _ in range(chunks)]
    fields = {
        "ranks": ranks,
        "chunks": chunks,
        "microbatches": 2 * ranks,
        "schedule": schedule,
        "sequence_splits": 1,
        "layers": cells,
        "recompute": {"full": [[int(rank == 0) for rank in range(ranks)] for _ in range(chunks)]},
    }
    plan.write_text(json.dumps(fields), encoding="utf-8")
    command = [sys.executable, "-m", "evenflow", "run", str(plan), "--model", "llama-tiny", *SIZES]
    done = subprocess.run([*command, *options, "--json", str(answer)], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return result


@needs(1)
@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
def test_one_gpu_trains_what_the_unsplit_model_does(tmp_path: Path, schedule: str) -> None:
    result = run(tmp_path, 1, "--steps", "4", "--dtype", "float64", "--verify", schedule=schedule)
    assert result["device"] == "cuda"
    assert result["verification"]["agrees"]
    assert all(peak > 0 for peak in result["measured"]["peak_memory_mb"])


@needs(2)
@pytest.mark.parametrize(("schedule", "chunks"), [("1f1b", 1), ("interleaved", 2), ("zb-h1", 1), ("zbv", 2)])
def test_gpus_train_what_the_unsplit_model_does(tmp_path: Path, schedule: str, chunks: int) -> None:
    result = run(tmp_path, 2, "--steps", "4", "--dtype", "float64", "--verify", chunks=chunks, schedule=schedule)
    assert result["verification"]["agrees"]


@needs(2)
def test_work_done_again_on_gpus_is_equal_bit_for_bit(tmp_path: Path) -> None:
    result = run(tmp_path, 2, "--steps", "8", "--aa-check")
    assert result["aa_check"]["mismatches"] == []
