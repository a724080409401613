"""The scripts of docs/run.md and docs/training.md, as ranks: the unsplit model goes on with their checkpoints."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evenflow.export.results.json_text import format_object
from tests.paths import ROOT
from tests_torch.run.warm_scripts import run_script

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
    """Two processes in `folder`."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += arguments
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
    run_script(tmp_path, "script.py", processes=2)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("check.py")


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_the_documented_training_with_replicas_is_that_of_the_model_in_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    script, *_others, load = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    plan = {**PLAN, "layers": [[2, 2]]}
    (tmp_path / "plan.json").write_text(format_object(plan), encoding="utf-8")
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    printed = run_script(tmp_path, "script.py", processes=4)
    losses = [float(line.rpartition(" ")[2]) for line in printed.splitlines() if line.startswith("epoch")]
    assert len(losses) == 3, "one of the replicas says it"
    assert losses[-1] < losses[0], "it learns"

    defined = script.partition("plan = evenflow")[0]
    made = script[script.index("torch.manual_seed") : script.index("number = ")].replace("plan.num_layers", "4")
    check = """
loss = count = 0
for replica in range(2):
    inputs, targets = samples(5000 + replica, 6, 20)
    loss += float(sum_over_tokens(model.eval()(inputs), targets).detach())
    count += int(num_tokens(targets))
found = loss / count
"""

    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(defined + made + load + check, scope)
    assert scope["found"] == pytest.approx(losses[-1], abs=2e-4)


def test_under_torchrun_both_names_of_the_command_are_ranks_of_one_training_that_reports_once(tmp_path: Path) -> None:
    """Rank 0 comes by the name of today, rank 1 by the older one: each alone would wait for the other."""
    (tmp_path / "plan.json").write_text(format_object(PLAN), encoding="utf-8")
    names = 'if [ "$RANK" = 0 ]; then exec "$PYTHON" -m evenflow run "$@"; else exec "$PYTHON" -m evenflow.run "$@"; fi'
    job = ("plan.json", "--model", "llama-tiny", "--steps", "3", "--seq", "8", "--device", "cpu")
    done = torchrun(tmp_path, "--no-python", "sh", "-c", names, "sh", *job)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loss ") == 3 + 1, "every step once, and the report"
    assert done.stdout.count("step: predicted") == 1
