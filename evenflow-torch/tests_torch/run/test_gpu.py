"""The same training on GPUs, with NCCL between them; skipped where there are too few."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from evenflow.model import HostLink, Plan
from tests_torch.run.host_plans import host_plan

pytestmark = pytest.mark.gpu

NUM_GPUS = torch.cuda.device_count()
SIZES = ["--seq", "16", "--hidden", "64", "--heads", "4", "--vocab", "64", "--lr", "0.01"]


def needs(count: int) -> Any:
    return pytest.mark.skipif(count > NUM_GPUS, reason=f"needs {count} GPUs, and there are {NUM_GPUS}")


def run(tmp_path: Path, ranks: int, *options: str, chunks: int = 1, schedule: str = "1f1b") -> dict[str, Any]:
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
    return run_plan(tmp_path, fields, *SIZES, *options)


def run_plan(tmp_path: Path, fields: dict[str, Any], *options: str) -> dict[str, Any]:
    plan, answer = tmp_path / "plan.json", tmp_path / "run.json"
    plan.write_text(json.dumps(fields), encoding="utf-8")
    command = [sys.executable, "-m", "evenflow", "run", str(plan), "--model", "llama-tiny", "--device", "cuda"]
    command += [*options, "--json", str(answer), "--overwrite"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
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


@needs(1)
def test_one_gpu_takes_as_long_and_holds_as_much_as_predicted(tmp_path: Path) -> None:
    """The table of fidelity on a device: printed, with wide margins that only a fault exceeds."""
    large = ["--hidden", "1024", "--heads", "8", "--seq", "1024", "--vocab", "8192", "--microbatch", "4"]
    result = run(tmp_path, 1, "--steps", "12", *large)
    predicted, measured = result["predicted"], result["measured"]
    print(f"step: predicted {predicted['step_ms']:.3f} ms, measured {measured['step_ms']:.3f} ms")
    print(f"peak: predicted {predicted['peak_memory_mb']} MB, measured {measured['peak_memory_mb']} MB")
    assert predicted["step_ms"] == pytest.approx(measured["step_ms"], rel=0.5)
    assert predicted["peak_memory_mb"] == pytest.approx(measured["peak_memory_mb"], rel=0.25)


@needs(1)
def test_two_ranks_share_one_gpu_where_nccl_allows_it(tmp_path: Path) -> None:
    script, answers = tmp_path / "train.py", tmp_path / "answers"
    script.write_text(SHARED_GPU, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([*command, str(script), str(answers)], capture_output=True, text=True, env=environment)
    if done.returncode and "uplicate GPU" in done.stderr:
        pytest.skip("this NCCL does not let two ranks share a GPU")
    assert done.returncode == 0, done.stderr
    assert float(answers.read_text(encoding="utf-8")) < 1e-12


@needs(1)
@pytest.mark.parametrize("one_engine", [False, True])
def test_one_gpu_keeps_on_the_host_what_the_plan_says(tmp_path: Path, one_engine: bool) -> None:
    """Large enough that a copy which does not wait, or memory that is used again too early, spoils gradients."""
    sizes = ["--hidden", "512", "--heads", "8", "--seq", "512", "--vocab", "1024", "--microbatch", "4"]
    link = HostLink(bytes_per_s=10**10, one_engine=one_engine, ahead=2, buffers=3)
    results = {}
    for name, kinds in (("moved", {"offload": ((2,),), "full+offload": ((1,),)}), ("kept", {"full": ((1,),)})):
        plan = Plan(schedule="f-then-b", num_microbatches=8, layers=((4,),), recompute=kinds)
        options = (*sizes, "--steps", "4", "--dtype", "float64", "--verify")
        results[name] = run_plan(tmp_path, host_plan(plan, link), *options)
    moved, kept = results["moved"], results["kept"]
    for result in (moved, kept):
        assert result["verification"]["agrees"]
        predicted, measured = result["predicted"]["peak_memory_mb"], result["measured"]["peak_memory_mb"]
        print(f"peak: predicted {predicted} MB, measured {measured} MB")
        assert predicted == pytest.approx(measured, rel=0.25)
    away = (8 - 3 - 1) * moved["calibration"]["offloaded_mb"][0]
    assert moved["measured"]["peak_memory_mb"][0] < kept["measured"]["peak_memory_mb"][0] - away
    print(f"copies: {moved['calibration']['offloaded_mb'][0]} MB in {moved['calibration']['copy_ms'][0]} ms")


SHARED_GPU = """
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import evenflow

device = torch.device("cuda", 0)
torch.cuda.set_device(device)
dist.init_process_group("nccl")
plan = evenflow.Plan(schedule="1f1b", num_microbatches=4, layers=((1, 1),))


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).double().to(device)


data = torch.randn(8, 8, dtype=torch.float64), torch.randn(8, 8, dtype=torch.float64)
whole = model()
expected = nn.functional.mse_loss(whole(data[0].to(device)), data[1].to(device))
pipe = evenflow.run.pipeline(plan, model(), nn.functional.mse_loss, data, device=device)
loss = pipe.step(data)
if loss is not None:
    Path(sys.argv[1]).write_text(str(abs(float(loss / expected) - 1)))
dist.destroy_process_group()
"""
