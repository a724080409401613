"""Names of users on a terminal: they move no cursor and begin no line, while files keep them as they are."""

import json
from pathlib import Path

import pytest

from evenflow.plain_text import printable
from tests.cli.conftest import TINY, Evenflow

NAME = "tiny\noptimal: 1.000 ms\r\x1b[2K\x07\u202e\x9b31m\u2028end"
SIZES = ("--ranks", "2", "--microbatches", "2", "--memory", "1GB")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    layer = {**TINY["layers_description"][0], "name": NAME}  # type: ignore[dict-item]
    other = {**layer, "name": f"other {NAME}", "nb_layer": 2}
    Path("hostile.json").write_text(json.dumps({"name": NAME, "layers_description": [layer, other]}))
    Path("manual.yaml").write_text("manuals:\n" + json.dumps({NAME: {"offset": [[1, -1]], "recompute": {}}}))
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "hostile.json", *SIZES, "--time-limit", "1", "--json", "out.json"),
        ("simulate", "hostile.json", *SIZES, "--json", "out.json"),
        ("compare", "hostile.json", *SIZES, "--time-limit", "1"),
        ("quick-tune", "hostile.json", *SIZES, "--time-limit", "1"),
        ("plan", NAME, *SIZES),
        ("plan", "hostile.json", *SIZES, "--schedule", NAME),
        ("report", "hostile.json", "-o", "out.html"),
        (NAME,),
        ("plan", "hostile.json", *SIZES, f"--{NAME}"),
        ("schedule", "show", NAME),
        ("calibrate", NAME, "--accelerator", NAME),
        ("tune", "--model", "hostile.json", "--accelerator", NAME),
    ],
)
def test_nothing_that_a_user_wrote_acts_on_the_terminal(
    place: Path, evenflow: Evenflow, arguments: tuple[str, ...]
) -> None:
    result = evenflow(*arguments)
    assert result.exit_code in (0, 2), result.output
    said = result.stdout + result.stderr
    assert said == printable(said)
    assert not [line for line in said.splitlines() if line.startswith(("optimal: 1.000 ms", "end"))]


def test_json_keeps_a_name_as_it_is(place: Path, evenflow: Evenflow) -> None:
    evenflow("simulate", "hostile.json", *SIZES, "--json", "out.json")
    assert json.loads(Path("out.json").read_text())["network"]["name"] == NAME


def test_large_files_are_announced(place: Path, evenflow: Evenflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenflow.cli.shared.files.output_files._MANY_ACTIONS", 8)
    arguments = ("simulate", "hostile.json", *SIZES)
    assert "takes a while" not in evenflow(*arguments).stderr
    assert "note: --trace of 8 actions takes a while" in evenflow(*arguments, "--trace", "out.json").stderr


def test_a_trace_too_large_is_cut(place: Path, evenflow: Evenflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenflow.cli.shared.files.output_files._MOST_TRACED", 4)
    result = evenflow("simulate", "hostile.json", *SIZES, "--trace", "out.json")
    assert "note: --trace has 4 of 8 actions, the first and the last: all of them would take 0 s and 0 MB" in (
        " ".join(result.stderr.split())
    )
    events = json.loads(Path("out.json").read_text())["traceEvents"]
    assert sum(event.get("cat") in ("forward", "backward") for event in events) == 4
    assert [event["name"].split(", to")[0] for event in events if event["ph"] == "i"] == ["4 actions are left out"]
