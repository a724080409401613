"""The same command writes the same bytes, wherever its search ended by itself."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import TINY, Evenflow
from tests.fuzz.seeds import CONFIG

SIZES = ("--ranks", "2", "--microbatches", "4")
FILES = ("--json", "out.json", "--html", "out.html")
COMMANDS = {
    "plan": ("plan", "tiny.json", *SIZES, "--memory", "1GB", *FILES, "--svg", "out.svg"),
    "compare": ("compare", "tiny.json", *SIZES, "--memory", "1GB", *FILES),
    "quick-tune": ("quick-tune", "tiny.json", *SIZES, "--memory", "1GB", "--json", "out.json"),
    "simulate": ("simulate", "tiny.json", *SIZES, *FILES, "--svg", "out.svg", "--trace", "out.trace.json"),
    "schedule": ("schedule", "show", "zbv", "--ranks", "3", "--microbatches", "5", *FILES, "--svg", "out.svg"),
    "predict": (
        "predict", "--model", "config.json", "--accelerator", "h100", "--gpus", "8", "--tensor", "2", "--pipeline", "2",
        "--global-batch", "8", "--seq", "64", "--json", "out.json",
    ),
    "tune": (
        "tune", "--model", "config.json", "--accelerator", "h100", "--gpus", "4", "--global-batch", "4", "--seq", "64",
        *FILES, "--svg", "out.svg", "--reproducible",  # its many searches have a moment each
    ),
}  # fmt: skip


@pytest.mark.parametrize("verb", COMMANDS)
def test_the_same_command_writes_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evenflow: Evenflow, verb: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.json").write_text(json.dumps(TINY))
    Path("config.json").write_text(json.dumps(CONFIG))
    written = []
    for _time in range(2):
        result = evenflow(*COMMANDS[verb], "--overwrite")
        assert result.exit_code == 0, result.output
        written.append({path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()})
    assert len(written[0]) > 2  # beside the inputs
    assert written[0] == written[1]
