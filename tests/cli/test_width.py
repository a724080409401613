"""At 80 columns no table of a verb has a broken line: there are fewer columns instead."""

import re

import pytest

from evenflow.cli.text.display_width import display_width
from tests.paths import EXAMPLES

WIDTH = 80
LLAMA, CONFIG = EXAMPLES / "llama2_70b.json", EXAMPLES / "configs" / "llama3_70b.json"
OF_A_TABLE = re.compile(r"\S {2,}\S")
"""What only lines of a table have: two spaces between words."""
DEGREES = ("--accelerator", "h100", "--tensor", 4, "--seq", 8192)
COMMANDS = {
    "plan": (
        "plan",
        LLAMA,
        "--ranks",
        8,
        "--chunks",
        4,
        "--microbatches",
        8,
        "--memory",
        "56GB",
        "--p2p-latency",
        "1ms",
    ),
    "best": ("plan", LLAMA, "--ranks", 4, "--microbatches", 4, "--memory", "64GB", "--schedule", "best"),
    "simulate": (
        *("simulate", LLAMA, "--ranks", 4, "--chunks", 4, "--microbatches", 8, "--memory", "40GB", "--aa-check"),
        *("--recompute", "full=1,1,1,1", "--recompute", "full=2,2,2,2", "--recompute", "full=0,0,0,0"),
        *("--recompute", "full=1,1,1,1", "--p2p-latency", "1ms"),
    ),
    "compare": (
        *("compare", LLAMA, "--ranks", 8, "--chunks", 2, "--microbatches", 8, "--memory", "56GB"),
        *("--manual", EXAMPLES / "manual_70b.yaml", "--p2p-latency", "1ms"),
    ),
    "quick-tune": ("quick-tune", LLAMA, "--ranks", 4, "--microbatches", 8, "--memory", "42GB"),
    "show": ("schedule", "show", "v-min", "--ranks", 4, "--microbatches", 6, "--forward", 1.5, "--backward", 3.1),
    "schedules": ("schedules",),
    "predict": ("predict", "--model", CONFIG, *DEGREES, "--pipeline", 8, "--global-batch", 64),
    "tune": ("tune", "--model", CONFIG, "--accelerator", "h100", "--gpus", 64, "--seq", 4096, "--global-batch", 64),
    "read-trace": ("read-trace", EXAMPLES / "timelines" / "llama2_175b", "--microbatches", 8, "--layers", 96),
}
TIMED = {"best": 2, "compare": 2, "quick-tune": 2, "tune": 3, "plan": 2}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_table_is_wider_than_the_terminal(folder, evenflow, monkeypatch, name, language):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    limit = ("--time-limit", TIMED[name]) if name in TIMED else ()
    result = evenflow("--lang", language, *COMMANDS[name], *limit)
    assert result.exit_code in (0, 3, 4), result.output
    assert [line for line in result.stdout.splitlines() if OF_A_TABLE.search(line)] or name == "schedules"
    wide = [line for line in result.stdout.splitlines() if OF_A_TABLE.search(line) and display_width(line) > WIDTH]
    assert wide == []


def test_all_columns_are_there_where_there_is_room(folder, evenflow, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    sizes = ("tiny.json", "--ranks", 2, "--microbatches", 2, "--memory", "250MB", "--p2p-latency", "1ms")
    assert "left out" not in evenflow("compare", *sizes).stdout
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    assert "(left out at 80 columns: ideal" in evenflow("compare", *sizes).stdout
