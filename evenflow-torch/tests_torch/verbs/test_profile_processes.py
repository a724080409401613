"""``evenflow profile`` under torchrun: processes measure layers together that exchange tokens."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evenflow.profiles.layer_file import read_layer_file
from tests_torch.models.experts.small_experts import SMALL_EXPERTS

pytestmark = pytest.mark.processes
PROFILE = ("profile", "--model", "small.json", "--seq", "32", "--dtype", "fp32")


def torchrun(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Two processes of the command in `folder`."""
    (folder / "small.json").write_text(json.dumps(SMALL_EXPERTS), encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "evenflow", *PROFILE, *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_they_write_one_layer_file_with_the_halves(tmp_path: Path) -> None:
    done = torchrun(tmp_path, "--device", "cpu", "--expert-parallel", "2", "-o", "layers.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("wrote layers.json") == 1
    assert "with the experts of one of 2 devices" in done.stdout
    assert "halves" not in done.stdout
    dense, experts = (layer.halves for layer in read_layer_file(tmp_path / "layers.json").layers)
    assert dense is not None
    assert experts is not None
    assert dense.forward.exchange_ns == 0 < dense.forward.mlp_ns
    assert min(experts.forward.dispatch_ns, experts.forward.combine_ns, experts.backward.dispatch_ns) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--accelerator", "h100"), "--device must be cpu or cuda under torchrun"),
        (("--device", "cpu"), "--expert-parallel must be the 2 processes of torchrun, got 1"),
    ],
)
def test_processes_that_measure_nothing_together_are_refused(
    evenflow, config, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    group = {"TORCHELASTIC_RUN_ID": "1", "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    for name, value in {**group, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    result = evenflow(*PROFILE, *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True)


@pytest.fixture
def config(folder: Path) -> Path:
    path = folder / "small.json"
    path.write_text(json.dumps(SMALL_EXPERTS))
    return path


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (("--accelerator", "h100"), "all experts are on one device, so that no tokens travel: halves are not written"),
        (
            ("--accelerator", "h100", "--elementwise", "eager", "--expert-parallel", "2"),
            "operators one by one leave out exchanges of tokens between the 2 devices of experts: halves are not",
        ),
        (
            ("--device", "cpu", "--expert-parallel", "4"),
            "one process measures no exchanges of tokens between 4 devices: halves are not written; start 4 with",
        ),
    ],
)
def test_why_there_are_no_halves(evenflow, config, folder: Path, arguments: tuple[str, ...], note: str) -> None:
    result = evenflow(*PROFILE, "-o", "layers.json", *arguments)
    assert result.exit_code == 0
    assert f"note: {note}" in result.stdout
    assert all(layer.halves is None for layer in read_layer_file(folder / "layers.json").layers)
