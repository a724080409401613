"""What a run writes for its ranks goes when nobody needs it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evenflow_torch.run.job.run_folder import COMPILER_FOLDER, compiler_variables, run_folder
from tests_torch.run.job.launched import LONG

HOLD = """
import sys
from evenflow_torch.run.job.run_folder import run_folder
with run_folder() as made:
    print(made, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_folder_goes_at_the_end_also_after_an_error(temporary: Path) -> None:
    with run_folder() as folder:
        (folder / "job.json").write_text("{}", encoding="utf-8")
        assert list(temporary.iterdir()) == [folder]
    with pytest.raises(LookupError, match="wrong"), run_folder() as folder:
        (folder / "job.json").write_text("{}", encoding="wrong")
    assert not list(temporary.iterdir())


@pytest.mark.processes
def test_what_a_dead_run_left_goes_and_what_a_living_one_has_stays(temporary: Path) -> None:
    command = [sys.executable, "-c", HOLD]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as living,
    ):
        assert killed.stdout is not None
        assert living.stdout is not None
        dead, alive = Path(killed.stdout.readline().strip()), Path(living.stdout.readline().strip())
        (dead / "job.json").write_text("{}", encoding="utf-8")
        killed.send_signal(signal.SIGKILL)
        killed.wait(timeout=LONG)
        assert sorted(temporary.iterdir()) == sorted([dead, alive])
        other = temporary / "evenflow-run-is-a-file"
        other.touch()
        with run_folder() as folder:
            assert sorted(temporary.iterdir()) == sorted([alive, folder, other])
    assert list(temporary.iterdir()) == [other]


def test_torch_writes_for_its_compiler_where_a_user_has_said_or_into_the_folder(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(COMPILER_FOLDER, raising=False)
    with run_folder() as outer, run_folder() as inner:
        variables = compiler_variables(outer)
        assert Path(variables[COMPILER_FOLDER]).parent == outer
        monkeypatch.setenv(COMPILER_FOLDER, variables[COMPILER_FOLDER])
        assert Path(compiler_variables(inner)[COMPILER_FOLDER]).parent == inner, "that of the parent goes before"
    monkeypatch.setenv(COMPILER_FOLDER, str(temporary / "cache"))
    assert compiler_variables(outer) == {}
