"""A plan that keeps activations on the host, on real processes: equal numbers, and devices hold what is predicted."""

import json
from pathlib import Path
from typing import Any

import pytest

import evenflow
from evenflow.export.results.json_text import format_object
from tests_torch.run.host_plans import host_plan
from tests_torch.run.warm_ranks import typed
from tests_torch.run.warm_scripts import run_script

pytestmark = pytest.mark.processes

LAYERS = ((3, 3),)
LINK = evenflow.HostLink(bytes_per_s=10**10, ahead=2, buffers=3)
SIZES = ("--hidden", "64", "--heads", "4", "--seq", "64", "--microbatch", "4", "--vocab", "64", "--steps", "3")


def plan_text(recompute: dict[str, Any]) -> str:
    plan = evenflow.Plan(schedule="f-then-b", num_microbatches=8, layers=LAYERS, recompute=recompute)
    return format_object(host_plan(plan, LINK))


def run(folder: Path, name: str, recompute: dict[str, Any], *options: str) -> dict[str, Any]:
    """Train as planned; the JSON of the result."""
    (folder / f"{name}.json").write_text(plan_text(recompute), encoding="utf-8")
    done = typed(
        folder, "run", f"{name}.json", "--model", "llama-tiny", *SIZES, *options,
        "--device", "cpu", "--dtype", "float64", "--verify", "--json", f"{name}.run.json",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    result: dict[str, Any] = json.loads((folder / f"{name}.run.json").read_text(encoding="utf-8"))
    return result


def test_devices_hold_what_is_predicted_and_less_than_without_the_host(tmp_path: Path) -> None:
    moved = run(
        tmp_path, "moved", {"offload": ((1, 3),), "full+offload": ((2, 0),)},
        "--html", "run.html", "--trace", "run.trace",
    )  # fmt: skip
    kept = run(tmp_path, "kept", {"full": ((2, 0),)})
    for result in (moved, kept):
        assert result["verification"]["agrees"]
        assert result["predicted"]["peak_memory_mb"] == pytest.approx(result["measured"]["peak_memory_mb"], rel=0.04)
    assert "offloaded_mb" not in kept["calibration"]
    assert "copy_ms" not in kept["calibration"]
    sizes = moved["calibration"]["offloaded_mb"]
    assert min(sizes) > 0
    assert min(moved["calibration"]["copy_ms"]) > 0
    # Of eight microbatches at most three have on the device what moves.
    for rank in range(2):
        most = kept["measured"]["peak_memory_mb"][rank] - (8 - 3 - 1) * sizes[rank]
        assert moved["measured"]["peak_memory_mb"][rank] < most
    assert "host copies" in (tmp_path / "run.html").read_text(encoding="utf-8")
    assert '"to host"' in (tmp_path / "run.trace").read_text(encoding="utf-8")


SCRIPT = """
import torch
import torch.distributed as dist
from torch import nn

import evenflow

dist.init_process_group("gloo")
plan, link = evenflow.read_plan_file("plan.json"), evenflow.read_host_link("plan.json")
torch.manual_seed(0)
model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(6)))
data = torch.ones(16, 8), torch.zeros(16, 8)
pipe = evenflow.run.pipeline(plan, model, nn.functional.mse_loss, data, host_link=link)
assert pipe.host_link == evenflow.HostLink(bytes_per_s=10**10, ahead=2, buffers=3), link
pipe.step(data)
assert all(parameter.grad is not None for parameter in pipe.parameters())
dist.destroy_process_group()
"""


def test_a_script_gives_the_link_of_its_plan(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(plan_text({"offload": ((3, 3),)}), encoding="utf-8")
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    run_script(tmp_path, "train.py", processes=2)


def test_activations_that_wait_with_other_ranks_are_refused(tmp_path: Path) -> None:
    plan = evenflow.Plan(schedule="f-then-b", num_microbatches=8, layers=LAYERS, recompute={"offload": ((1, 0),)})
    link = evenflow.HostLink(bytes_per_s=10**10, keepers=(1, None))
    (tmp_path / "kept.json").write_text(format_object(host_plan(plan, link)), encoding="utf-8")
    done = typed(tmp_path, "run", "kept.json", "--model", "llama-tiny", *SIZES, "--device", "cpu")
    assert done.exit_code == 2
    assert "to the host, not to other ranks" in done.stderr
