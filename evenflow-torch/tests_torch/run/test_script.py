"""The scripts of docs/run.md, under torchrun: two ranks train, and the unsplit model goes on with their checkpoint."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from evenflow.export.results.json_text import format_object
from tests.paths import ROOT

pytestmark = pytest.mark.processes

PLAN = {
    "ranks": 2,
    "chunks": 1,
    "microbatches": 3,
    "schedule": "zb-h1",
    "sequence_splits": 1,
    "layers": [[2, 1]],
    "recompute": {"full": [[1, 0]]},
}
MODEL = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3))).double()
batches = [(torch.randn(6, 4, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)) for _ in range(4)]
example_batch = batches[0]
loss_fn = nn.functional.mse_loss
"""
TRAIN = (
    MODEL
    + """
torch.distributed.init_process_group("gloo")
"""
)
CHECK = """
torch.manual_seed(0)
whole = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3))).double()
optimizer = torch.optim.AdamW(whole.parameters())
for inputs, targets in batches:
    optimizer.zero_grad()
    loss_fn(whole(inputs), targets).backward()
    optimizer.step()
for name, value in whole.state_dict().items():
    torch.testing.assert_close(model.state_dict()[name], value, rtol=1e-12, atol=1e-12)
"""


def torchrun(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Two ranks in `folder`."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON": sys.executable}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_the_documented_script_trains_and_its_checkpoint_is_the_unsplit_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "run.md").read_text(encoding="utf-8")
    train, load, _mesh = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "plan.json").write_text(format_object(PLAN), encoding="utf-8")
    (tmp_path / "script.py").write_text(TRAIN + train + "torch.distributed.destroy_process_group()\n", encoding="utf-8")
    read = "from evenflow.profiles.plan_file import read_plan_file\nplan = read_plan_file('plan.json')\n"
    (tmp_path / "check.py").write_text(MODEL + read + load + CHECK, encoding="utf-8")
    done = torchrun(tmp_path, "script.py")
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir(tmp_path)
    runpy.run_path("check.py")


def test_under_torchrun_both_names_of_the_command_are_ranks_of_one_training_that_reports_once(tmp_path: Path) -> None:
    """Rank 0 comes by the name of today, rank 1 by the older one: each alone would wait for the other."""
    (tmp_path / "plan.json").write_text(format_object(PLAN), encoding="utf-8")
    names = 'if [ "$RANK" = 0 ]; then exec "$PYTHON" -m evenflow run "$@"; else exec "$PYTHON" -m evenflow.run "$@"; fi'
    job = ("plan.json", "--model", "llama-tiny", "--steps", "3", "--seq", "8", "--device", "cpu")
    done = torchrun(tmp_path, "--no-python", "sh", "-c", names, "sh", *job)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loss ") == 3 + 1, "every step once, and the report"
    assert done.stdout.count("step: predicted") == 1
