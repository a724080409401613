"""Defaults of options in evenflow.toml: what the command line is then as if it had them, but for what is typed."""

import json
from pathlib import Path

import pytest

from evenflow.cli.shared.defaults import read_defaults
from evenflow.errors import InputError

SIZES = ("tiny.json", "--ranks", 2, "--microbatches", 2)
pytestmark = pytest.mark.usefixtures("fake_solver")


def write(text: str, file: str = "evenflow.toml") -> None:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text, encoding="utf-8")


def limit_of(evenflow, *arguments) -> float:
    """The memory limit of the plan that a command writes, in MB."""
    result = evenflow("plan", *arguments, "--json", "p.json", "--overwrite")
    assert result.exit_code == 0, result.stderr
    return json.loads(Path("p.json").read_text())["memory_limit_mb"]


def test_the_command_line_goes_before_the_file_which_is_named(folder, evenflow):
    write('memory = "300MB"\ntime-limit = 5\n')
    assert limit_of(evenflow, *SIZES) == 300
    assert limit_of(evenflow, *SIZES, "--memory", "400MB") == 400
    result = evenflow("plan", *SIZES, "--memory", "400MB")
    assert result.stderr.startswith("defaults of evenflow.toml: --time-limit=5\n")
    assert "defaults of" not in evenflow("schedules").stderr, "it takes neither"


def test_a_command_with_the_file_is_the_command_with_the_options(folder, evenflow):
    typed = evenflow("plan", *SIZES, "--memory", "250MB", "--no-empty", "--layers-per-rank", "2,2")
    write('memory = "250MB"\nallow-empty = false\nlayers-per-rank = ["2,2"]\nless-memory = false\n')
    assert evenflow("plan", *SIZES).stdout == typed.stdout


def test_a_required_option_may_stand_in_the_file(folder, evenflow):
    write("ranks = 2\nmicrobatches = 2\n")
    assert evenflow("quick-tune", "tiny.json").exit_code == 0


def test_what_a_plan_file_says_goes_before_the_file(folder, evenflow):
    assert limit_of(evenflow, *SIZES, "--memory", "250MB") == 250
    write('memory = "900MB"\nmicrobatches = 7\np2p-latency = "1ms"\n')
    result = evenflow("plan", "p.json", "--json", "q.json")
    assert result.exit_code == 0
    assert "note: not used beside this input: --microbatches=7, --memory=900MB, --p2p-latency=1ms\n" in result.stderr
    again = json.loads(Path("q.json").read_text())
    assert (again["memory_limit_mb"], again["microbatches"]) == (250, 2)
    assert "p2p" not in evenflow("simulate", "p.json").stdout
    assert "within the limit of 250.0 MB" in evenflow("export", "p.json", "--to", "megatron").stdout


def test_a_framework_of_the_file_is_that_of_the_plan(folder, evenflow):
    assert limit_of(evenflow, *SIZES, "--memory", "250MB") == 250
    write('target = "mindformers"\n')
    result = evenflow("plan", "p.json", "--schedule", "1f1b")
    assert result.exit_code == 0, result.stderr
    assert "defaults of evenflow.toml: --target=mindformers" in result.stderr
    assert "model_config" in result.stdout


def test_options_of_configurations_are_left_aside_beside_a_layer_file(folder, evenflow):
    write('accelerator = "h100"\n')
    result = evenflow("plan", *SIZES)
    assert result.exit_code == 0
    assert "note: not used beside this input: --accelerator=h100\n" in result.stderr
    assert evenflow("simulate", *SIZES).exit_code == 0
    assert evenflow("plan", *SIZES, "--accelerator", "h100").exit_code == 2, "typed, it is refused"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('memroy = "1GB"', "must be the long name of an option of some verb, without its dashes, got 'memroy'"),
        ('memroy = "1GB"', "did you mean 'memory'?"),
        ("layers = {}", "layers must be text or a number"),
        ("memory = true", "memory must be text or a number, got True"),
        ("less-memory = 1", "less-memory must be true or false, got 1"),
        ('ranks = "x"', "ranks must be an integer from 1 to 10,000, got 'x'"),
        ('mix = "all"', "evenflow.toml: mix must be a value that the option takes ('all' is not one of"),
        ("memory = [1, 2]", "memory must be text or a number"),
        ('target = "megatorn"', "did you mean megatron?"),
        ("memory =", "not TOML"),
    ],
)
def test_a_wrong_file_is_one_message(folder, evenflow, text, message):
    write(text)
    result = evenflow("simulate" if "layers" in text else "plan", *SIZES)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert "evenflow.toml" in result.stderr


def test_the_nearest_folder_up_to_the_repository_counts(tmp_path, monkeypatch):
    inner = tmp_path / "repository" / "folder" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    write("ranks = 1", str(tmp_path / "evenflow.toml"))
    write("ranks = 2", str(tmp_path / "repository" / "evenflow.toml"))
    assert read_defaults() is None, "without a repository only the folder itself"
    (tmp_path / "repository" / ".git").mkdir()
    (tmp_path / "repository" / "folder" / "pyproject.toml").write_text("[tool.other]\nranks = 5\n")
    found = read_defaults()
    assert found is not None
    assert (found.values, found.name) == ({"ranks": 2}, str(tmp_path / "repository" / "evenflow.toml"))
    (inner / "pyproject.toml").write_text("[tool.evenflow]\nranks = 3\n")
    found = read_defaults()
    assert found is not None
    assert (found.values, found.name) == ({"ranks": 3}, "pyproject.toml")
    write("ranks = 4", str(inner / "evenflow.toml"))
    with pytest.raises(InputError, match=r"must not have \[tool.evenflow\] beside evenflow.toml"):
        read_defaults()


def test_a_repository_further_up_than_the_home_folder_is_none_of_ours(tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    write("ranks = 9", str(tmp_path / "evenflow.toml"))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "work")
    assert read_defaults() is None
    write("ranks = 2", str(home / "evenflow.toml"))
    found = read_defaults()
    assert found is not None
    assert found.values == {"ranks": 2}
