"""Commands load torch when they need it, and what it makes for its compiler goes with them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evenflow_torch.run.job.run_folder import COMPILER_FOLDER
from tests.networks import SMALL_LLAMA

pytestmark = pytest.mark.processes

COMMANDS = {
    "auto": ["--mesh", "1x1", "--memory", "1GB", "--microbatches", "2", "--seq", "8"],
    "profile": ["--seq", "8", "--accelerator", "a100-80"],
}


@pytest.mark.parametrize("verb", ["auto", "profile", "run"])
def test_help_needs_no_torch(verb: str) -> None:
    code = f"import sys; from evenflow.cli.main import main; main(['{verb}', '--help'], standalone_mode=False)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", COMMANDS)
def test_nothing_stays_in_the_temporary_folder(verb: str, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "small.json").write_text(json.dumps(SMALL_LLAMA))
    environment = {**os.environ, "TMPDIR": str(temporary)}
    environment.pop(COMPILER_FOLDER, None)
    command = [sys.executable, "-m", "evenflow", verb, "--model", "small.json", *COMMANDS[verb]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert not list(temporary.iterdir())
