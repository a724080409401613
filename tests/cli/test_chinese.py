"""With ``--lang zh`` no English sentence is left in what the commands print."""

import re

import pytest

from evenflow.language import CHINESE, speaking
from evenflow.model import Plan
from evenflow.targets.registry import all_targets
from tests.paths import ROOT

ENGLISH = re.compile(r"(?<!--)\b(?<!-)[a-z]{2,} [a-z]{2,}")
DOCUMENTED = "To put in yaml configuration:"
"""The title of the block to paste, word for word that of the SAPP guide."""
COMMAND = re.compile(r"^evenflow plan .*|\bevenflow [a-z-]+")
"""A command to copy, which is in no language."""
RUNS = ROOT / "benchmarks/published/data/torchtitan.csv"
CHINESE_SIGN = re.compile("[\u4e00-\u9fff]")
SIZES = ("tiny.json", "--ranks", 2, "--microbatches", 4)


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", *SIZES, "--memory", "300MB", "--json", "p.json", "--svg", "p.svg"),
        ("plan", *SIZES, "--schedule", "search", "--split-backward", "--time-limit", 1, "--json", "p.json"),
        ("plan", *SIZES, "--schedule", "best", "--p2p-latency", "1ms"),
        ("plan", *SIZES, "--memory", "100MB", "--chunks", 2),
        ("simulate", "tiny.json", "--microbatches", 4, "--layers", "2,2", "--memory", "100MB", "--svg", "p.svg"),
        ("compare", *SIZES, "--memory", "300MB"),
        ("quick-tune", *SIZES, "--memory", "300MB"),
        ("schedule", "show", "1f1b-v", "--ranks", 2, "--microbatches", 3),
        (
            *("predict", "--hidden", 64, "--layers", 4, "--heads", 4, "--vocab", 320, "--accelerator", "h100"),
            *("--global-batch", 8, "--seq", 64, "--pipeline", 2, "-o", "l.json", "--json", "p.json"),
        ),
        ("calibrate", RUNS, "--accelerator", "h100-96", "--runs", "runs.csv", "--json", "c.json", "-o", "mine.yaml"),
        ("plan", *SIZES, "--target", "megatron", "--schedule", "best", "--time-limit", 2),
        ("plan", *SIZES, "--target", "deepspeed", "--chunks", 2),
        ("plan", *SIZES, "--target", "megatorn"),
    ],
)
def test_no_sentence_is_in_english_and_no_file_in_chinese(folder, evenflow, arguments):
    result = evenflow("--lang", "zh", *arguments)
    assert result.exit_code in (0, 2, 3), result.output
    lines = [COMMAND.sub("", line) for line in result.output.splitlines() if line != DOCUMENTED]
    assert [line for line in lines if ENGLISH.search(line)] == []
    written = [file for file in folder.iterdir() if file.suffix in (".json", ".svg", ".csv", ".yaml")]
    assert [file.name for file in written if CHINESE_SIGN.search(file.read_text())] == []


@pytest.mark.parametrize("target", all_targets().values(), ids=lambda target: target.name)
def test_what_a_framework_takes_is_explained_in_chinese(target):
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 2),))
    for version in target.versions:
        with speaking(CHINESE):
            written = target.write(plan, version)
        titles = [piece.title for piece in written.pieces]
        assert [text for text in (*titles, *written.notes) if not CHINESE_SIGN.search(text)] == []
