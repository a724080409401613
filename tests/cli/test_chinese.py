"""With ``--lang zh`` no English sentence is left in what the commands print."""

import re

import pytest

ENGLISH = re.compile(r"(?<!--)\b(?<!-)[a-z]{2,} [a-z]{2,}")
DOCUMENTED = "To put in yaml configuration:"
"""The title of the block to paste, word for word that of the SAPP guide."""
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
    ],
)
@pytest.mark.usefixtures("folder")
def test_no_sentence_is_in_english(evenflow, arguments):
    result = evenflow("--lang", "zh", *arguments)
    assert result.exit_code in (0, 3), result.output
    found = [line for line in result.output.splitlines() if ENGLISH.search(line) and line != DOCUMENTED]
    assert found == []
