"""Two hosts: network namespaces with a cable between them, and a torchrun in each, as on real machines."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenflow.export.results.json_text import format_object
from tests_torch.run.test_script import PLAN

pytestmark = [pytest.mark.processes, pytest.mark.slow]

_FIRST, _SECOND = ("10.77.0.1", "10.77.0.2")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[tuple[str, str]]:
    """Names of two hosts that reach each other over their device `cable`, and nobody else."""
    names = (f"evenflow-{os.getpid()}-0", f"evenflow-{os.getpid()}-1")
    made = []
    try:
        try:
            for name in names:
                ip("netns", "add", name)
                made.append(name)
            ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("needs the rights to make network namespaces")
        for name, address in zip(names, (_FIRST, _SECOND), strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                ip("-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in made:
            ip("netns", "delete", name)


@pytest.mark.parametrize(("per_host", "replicas"), [(2, 2), (4, 4)])
def test_replicas_on_two_hosts_train_what_one_process_does(
    hosts: tuple[str, str], tmp_path: Path, per_host: int, replicas: int
) -> None:
    """Stage 0 is on one host, stage 1 on the other, each with all of its replicas."""
    (tmp_path / "plan.json").write_text(format_object(PLAN), encoding="utf-8")
    run = [
        "-m",
        "evenflow",
        "run",
        "plan.json",
        "--model",
        "llama-tiny",
        "--steps",
        "3",
        "--seq",
        "8",
        "--hidden",
        "16",
    ]
    run += ["--heads", "2", "--vocab", "32", "--dtype", "float64", "--verify", "--device", "cpu"]
    run += ["--rank-timeout", "120", "--data-parallel", str(replicas)]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", str(per_host)]
    torchrun += ["--master-addr", _FIRST, "--master-port", "29400"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "cable"}
    started = [
        subprocess.Popen(
            ["ip", "netns", "exec", host, *torchrun, "--node-rank", str(number), *run],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, host in enumerate(hosts)
    ]
    try:
        said = [process.communicate(timeout=600) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], said
    assert sum("losses and gradients agree with the unsplit model" in output for output, _errors in said) == 1
