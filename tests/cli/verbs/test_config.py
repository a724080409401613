"""The defaults that hold in a folder, and who takes them."""

import json
from pathlib import Path


def test_it_shows_where_defaults_come_from_and_who_takes_them(folder, evenflow):
    Path("evenflow.toml").write_text('memory = "72GB"\nto = "megatron"\nless-memory = true\n')
    result = evenflow("config", "--json", "config.json")
    assert (result.exit_code, result.stderr) == (0, "")
    first, _empty, header, *rows = result.stdout.splitlines()
    assert first == str(folder / "evenflow.toml")
    assert header.split("  ")[0] == "option"
    assert [row.split()[:2] for row in rows[:1]] == [["--memory", "72GB"]]
    written = json.loads(Path("config.json").read_text())
    assert written["file"] == str(folder / "evenflow.toml")
    assert written["defaults"]["to"] == {"value": "megatron", "verbs": ["export", "apply"]}
    assert {"plan", "simulate", "tune"} <= set(written["defaults"]["memory"]["verbs"])
    assert "export" not in written["defaults"]["memory"]["verbs"], "the plan file says it"
    assert written["defaults"]["less-memory"]["value"] is True


def test_without_a_file_it_says_where_one_could_be(folder, evenflow):
    result = evenflow("config")
    assert result.exit_code == 0
    assert result.stdout.startswith("no defaults: neither this folder nor one above it has evenflow.toml")
    assert json.loads(evenflow("config", "--json", "-").stdout)["file"] is None


def test_a_wrong_file_is_refused(folder, evenflow):
    Path("evenflow.toml").write_text("memori = 1\n")
    result = evenflow("config")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean 'memory'?" in result.stderr
